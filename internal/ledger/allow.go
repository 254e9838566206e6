package ledger

import (
	"net/netip"
	"slices"
	"time"
)

// maxByHand bounds the allowances by hand.
const maxByHand = 10_000

// allowlist is what is exempt: always (configured, protected), and by hand for
// a time. An allowance by hand that ended is kept a while, because late lines
// are judged by when they happened.
type allowlist struct {
	configured []netip.Prefix
	protected  []netip.Prefix
	always     ranges
	hand       map[pkey][]allowed
	lengths    lengths
}

// allowed is an allowance; until is never 0.
type allowed struct {
	Allowance
	since, until int64
}

// forever is the end of what has none, Unix ns (in the year 2262).
const forever = int64(1<<63 - 1)

func (a *allowlist) rebuild() { a.always = newRanges(slices.Concat(a.configured, a.protected)) }

// judges reports whether addr was exempt at the instant at.
func (a *allowlist) judges(addr netip.Addr, at int64) bool {
	if a.always.contains(addr) {
		return true
	}
	for _, n := range a.lengths.of(addr) {
		for _, h := range a.hand[keyAt(addr, n)] {
			if h.since <= at && at < h.until {
				return true
			}
		}
	}
	return false
}

// standing lists what is exempt at now.
func (a *allowlist) standing(now int64) []netip.Prefix {
	out := slices.Concat(a.configured, a.protected)
	for k, hs := range a.hand {
		if slices.ContainsFunc(hs, func(h allowed) bool { return h.since <= now && now < h.until }) {
			out = append(out, k.prefix())
		}
	}
	return minimal(out)
}

// whole reports whether every address of p is exempt at now: such a prefix is
// never blocked. One with some exempt addresses is; the walls let those pass.
func (a *allowlist) whole(p netip.Prefix, now int64) bool {
	if a.always.coversAll(p) {
		return true
	}
	if len(a.hand) == 0 {
		return false
	}
	r := newRanges(a.standing(now))
	return r.coversAll(p)
}

// touches reports whether any address of p is exempt at now.
func (a *allowlist) touches(p netip.Prefix, now int64) bool {
	return slices.ContainsFunc(a.standing(now), p.Overlaps)
}

// grant adds an allowance by hand. One that stands for the same prefix ends
// where the new one begins.
func (a *allowlist) grant(n Allowance) {
	a.end(keyOf(n.Prefix), n.Since.UnixNano())
	a.add(n)
}

// add adds an allowance beside others.
func (a *allowlist) add(n Allowance) {
	k, h := keyOf(n.Prefix), allowed{Allowance: n, since: n.Since.UnixNano(), until: forever}
	if !n.Until.IsZero() {
		h.until = n.Until.UnixNano()
	}
	if len(a.hand[k]) == 0 {
		a.lengths.add(k)
	}
	a.hand[k] = append(a.hand[k], h)
}

// end ends the allowance of k at an instant; false when none stood.
func (a *allowlist) end(k pkey, at int64) bool {
	found := false
	for i := range a.hand[k] {
		if h := &a.hand[k][i]; h.until > at {
			h.until = max(at, h.since)
			h.Until = time.Unix(0, h.until).UTC()
			found = true
		}
	}
	return found
}

// prune forgets the allowances that ended before an instant.
func (a *allowlist) prune(before int64) {
	for k, hs := range a.hand {
		hs = slices.DeleteFunc(hs, func(h allowed) bool { return h.until <= before })
		if a.hand[k] = hs; len(hs) == 0 {
			delete(a.hand, k)
			a.lengths.remove(k)
		}
	}
}

// next is when the first of the allowances that stand at now ends, 0 for never.
func (a *allowlist) next(now int64) int64 {
	next := forever
	for _, hs := range a.hand {
		for _, h := range hs {
			if h.until > now {
				next = min(next, h.until)
			}
		}
	}
	if next == forever {
		return 0
	}
	return next
}

// list gives the allowances by hand, those that ended included if all.
func (a *allowlist) list(now int64, all bool) []Allowance {
	var out []Allowance
	for _, hs := range a.hand {
		for _, h := range hs {
			if all || h.since <= now && now < h.until {
				out = append(out, h.Allowance)
			}
		}
	}
	slices.SortFunc(out, func(x, y Allowance) int {
		if c := comparePrefixes(x.Prefix, y.Prefix); c != 0 {
			return c
		}
		return x.Since.Compare(y.Since)
	})
	return out
}
