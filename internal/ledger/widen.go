package ledger

import (
	"fmt"
	"net/netip"
	"time"
)

// network is the network that k may be widened to; false when that is off, or
// k is no smaller.
func (l *Ledger) network(k pkey) (netip.Prefix, bool) {
	bits := l.o.Widen.Bits6
	p := k.prefix()
	if p.Addr().Is4() {
		bits = l.o.Widen.Bits4
	}
	if l.o.Widen.Count <= 0 || p.Bits() <= bits {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked(), true
}

// join notes that k has a record, for its network.
func (l *Ledger) join(k pkey) {
	if w, ok := l.network(k); ok {
		wk := keyOf(w)
		if l.members[wk] == nil {
			l.members[wk] = map[pkey]struct{}{}
		}
		l.members[wk][k] = struct{}{}
	}
}

func (l *Ledger) leave(k pkey) {
	if w, ok := l.network(k); ok {
		wk := keyOf(w)
		if delete(l.members[wk], k); len(l.members[wk]) == 0 {
			delete(l.members, wk)
		}
	}
}

// rejoin does it all again, for other options.
func (l *Ledger) rejoin() {
	clear(l.members)
	for k := range l.blocks {
		l.join(k)
	}
}

// widen blocks the network around k, as long as k or as the options say, when enough of its prefixes
// stand blocked by rules. Never one with an exempt address in it, nor one of
// which an address was unblocked by hand within a day.
func (d *decision) widen(k pkey, b *Block) {
	l, at := d.l, d.b.At
	w, ok := l.network(k)
	if !ok || l.refuse(w, d.now) != "" {
		return
	}
	n := 0
	for m := range l.members[keyOf(w)] {
		if r := l.blocks[m]; r.By == "" && r.since <= at && at < r.until {
			n++
		}
	}
	if n < l.o.Widen.Count || l.allow.touches(w, d.now) || l.pardonedWithin(w, at) {
		return
	}
	if r := l.blocks[keyOf(w)]; r != nil && r.since <= at && at < r.until {
		return
	}
	wide := *b
	wide.Prefix, wide.Rule, wide.Evidence, wide.Partial, wide.Count, wide.Strikes = w, ruleWiden, nil, true, n, 0
	wide.Reason = fmt.Sprintf("%d prefixes of it are blocked", n)
	wide.Until = time.Unix(0, b.Until.UnixNano()).UTC()
	if ttl := l.o.Widen.TTL; ttl > 0 {
		wide.Until = time.Unix(0, at).Add(ttl).UTC()
	}
	d.set(keyOf(w), wide)
}

// pardonedWithin reports whether some of p was unblocked by hand within a day
// before the instant at, or after it.
func (l *Ledger) pardonedWithin(p netip.Prefix, at int64) bool {
	for k, until := range l.forgiven {
		if until > at-int64(pardonLasts) && p.Overlaps(k.prefix()) {
			return true
		}
	}
	return false
}
