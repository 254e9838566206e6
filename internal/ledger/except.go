package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// A block of a network, which many sources led to, holds sources that did
// nothing. Those of them from which somebody logged in lately go on: the block
// names them as its exceptions, they are judged as if it were not there, and
// walls and exports let them pass as they do the allowlist, unless another
// block holds them.

// maxExcept is how many prefixes of a network may be known-good: one with more
// is no attacker's, and is not blocked.
const maxExcept = 32

// exceptions gives the prefixes of that length within p from which somebody
// provably logged in lately, sorted; false when there are too many.
func (k *known) exceptions(p netip.Prefix, bits int, at int64) ([]netip.Prefix, bool) {
	var out []netip.Prefix
	for b, ls := range k.by {
		a := netip.AddrFrom16(b).Unmap()
		vouches := func(l login) bool {
			return l.proven != 0 && l.since <= at && at < l.proven+k.lasts
		}
		if !p.Contains(a) || !slices.ContainsFunc(ls, vouches) {
			continue
		}
		q, err := a.Prefix(min(bits, a.BitLen()))
		if err != nil || slices.Contains(out, q) {
			continue
		}
		if out = append(out, q); len(out) > maxExcept {
			return nil, false
		}
	}
	slices.SortFunc(out, comparePrefixes)
	return out, true
}

// except settles who goes on within the block of a network; why it must not be
// set, if that.
func (d *decision) except(b *Block) (why string) {
	if d.b.Narrow == 0 {
		return ""
	}
	good, ok := d.l.known.exceptions(b.Prefix, d.b.Narrow, d.b.At)
	if !ok {
		return fmt.Sprintf("it contains more than %d prefixes with a recent login", maxExcept)
	}
	if slices.Contains(good, b.Prefix) {
		return "somebody logged in from it lately"
	}
	b.Except = good
	return ""
}

// except lists who passes inside the block.
func (r *record) except() []netip.Prefix {
	if r.more == nil {
		return nil
	}
	return r.more.except
}

// excepts reports whether the block lets a pass.
func (r *record) excepts(a netip.Addr) bool {
	return r.excepting && slices.ContainsFunc(r.more.except, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Excepted lists who passes at now inside the blocks of networks: their
// exceptions, but for those that another block holds. It is sorted.
func (l *Ledger) Excepted(now time.Time) []netip.Prefix { return l.excepted(now.UnixNano()) }

func (l *Ledger) excepted(now int64) []netip.Prefix {
	var out []netip.Prefix
	for k := range l.excepting {
		b, stands := l.standing(k, now)
		if !stands {
			continue
		}
		for _, p := range b.Except {
			if !l.heldBeside(p, now) {
				out = append(out, p)
			}
		}
	}
	return minimal(out)
}

// heldBeside reports whether a block holds p or a part of it, other than those
// that except it.
func (l *Ledger) heldBeside(p netip.Prefix, now int64) bool {
	for _, b := range l.around(p, now) {
		if !slices.Contains(b.Except, p) {
			return true
		}
	}
	used := l.lengths.of(p.Addr())
	if len(used) == 0 || used[len(used)-1] <= p.Bits() {
		return false
	}
	found := false
	l.each(now, func(r *record, b *Block) {
		q := netip.Prefix{}
		if r != nil {
			q = r.prefix()
		} else {
			q = b.Prefix
		}
		found = found || q.Bits() > p.Bits() && p.Contains(q.Addr())
	})
	return found
}

// noteExcept keeps track of the blocks that have exceptions.
func (l *Ledger) noteExcept(r *record) {
	if len(r.except()) > 0 {
		l.excepting[r.k] = struct{}{}
	} else {
		delete(l.excepting, r.k)
	}
}

// exception is one block's, as the state keeps it.
type exception struct {
	Block  netip.Prefix   `json:"block"`
	Except []netip.Prefix `json:"except"`
}

func (l *Ledger) exceptionsSaved() (out []exception) {
	for k := range l.excepting {
		out = append(out, exception{k.prefix(), l.blocks.get(k).except()})
	}
	slices.SortFunc(out, func(a, b exception) int { return comparePrefixes(a.Block, b.Block) })
	return out
}

func (l *Ledger) restoreExceptions(es []exception) {
	for _, e := range es {
		if !e.Block.IsValid() {
			continue
		}
		if r := l.blocks.get(keyOf(e.Block)); r != nil && len(e.Except) <= maxExcept && !slices.ContainsFunc(e.Except, func(p netip.Prefix) bool { return !p.IsValid() }) {
			b := r.block()
			b.Except = e.Except
			r.set(b)
			l.noteExcept(r)
		}
	}
}
