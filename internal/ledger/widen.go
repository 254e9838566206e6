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

// join notes that r is there, for its network.
func (l *Ledger) join(r *record) {
	w, ok := l.network(r.k)
	if !ok {
		return
	}
	first := l.members[keyOf(w)]
	if r.next, r.prev = first, nil; first != nil {
		first.prev = r
	}
	l.members[keyOf(w)] = r
}

func (l *Ledger) leave(r *record) {
	w, ok := l.network(r.k)
	if !ok {
		return
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	switch {
	case r.prev != nil:
		r.prev.next = r.next
	case r.next != nil:
		l.members[keyOf(w)] = r.next
	default:
		delete(l.members, keyOf(w))
	}
	r.next, r.prev = nil, nil
}

// rejoin does it all again, for other options.
func (l *Ledger) rejoin() {
	clear(l.members)
	for r := range l.blocks.all() {
		r.next, r.prev = nil, nil
		l.join(r)
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
	for r := l.members[keyOf(w)]; r != nil; r = r.next {
		if r.byRule() && r.since <= at && at < r.until {
			n++
		}
	}
	if n < l.o.Widen.Count || l.allow.touches(w, d.now) || l.pardonedWithin(w, at) {
		return
	}
	if r := l.blocks.get(keyOf(w)); r != nil && r.since <= at && at < r.until {
		return
	}
	wide := *b
	wide.Prefix, wide.Rule, wide.Evidence, wide.Partial, wide.Count, wide.Points, wide.Strikes = w, ruleWiden, nil, true, n, n, 0
	wide.Reason = fmt.Sprintf("%d prefixes in it are blocked", n)
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
