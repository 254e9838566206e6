package ledger

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/addr"
)

const (
	// remember is how long what ended is kept to judge late lines by.
	remember = int64(10 * time.Minute)
	// maxSpans bounds the earlier blocks of a prefix that are kept for that.
	maxSpans = 8
	// lease is how long the walls get a block that has no end; it is renewed
	// when half of it is over.
	lease = 14 * day

	ruleDeny  = "deny"
	ruleWiden = "widen"
)

// adopt enters a block into the ledger, by hand ones replacing what stands.
func (l *Ledger) adopt(b Block) {
	k := keyOf(b.Prefix)
	r := l.blocks.get(k)
	fresh := r == nil
	if fresh {
		l.room()
		r = l.blocks.add(k)
		r.fill(&b, &l.common)
		l.lengths.add(k)
		l.join(r)
	} else if b.By != "" && b.Since.UnixNano() >= r.since {
		r.replace(b)
	} else {
		r.merge(b)
	}
	l.noteExcept(r)
	l.moved(r, fresh)
	l.keepEvidence(k, r)
	l.wake(r)
}

// wake has Expire look at a record when something is due.
func (l *Ledger) wake(r *record) {
	at := r.until
	if r.forever {
		at -= int64(lease / 2)
	}
	l.ends.push(at, r)
	if len(l.ends) > 2*l.blocks.len()+1024 {
		l.compact()
	}
}

// compact drops the ends that something later took the place of.
func (l *Ledger) compact() {
	l.ends = l.ends[:0]
	for r := range l.blocks.all() {
		at := r.until
		switch {
		case r.ended:
			at += remember
		case r.forever:
			at -= int64(lease / 2)
		}
		l.ends = append(l.ends, due[*record]{at, r})
	}
	l.ends.order()
}

// standing is the block of k as the walls should hold it at now: the record's
// or one that waits to be found again, whichever lasts longer.
func (l *Ledger) standing(k pkey, now int64) (Block, bool) {
	r, p := l.blocks.get(k), l.waiting[k]
	found := r != nil && r.until > now
	if p != nil && p.Until.UnixNano() > now && (!found || p.Until.UnixNano() > r.until) {
		return *p, true
	}
	if !found {
		return Block{}, false
	}
	return r.block(), true
}

// stands reports whether the walls should hold a block of k at now.
func (l *Ledger) stands(k pkey, now int64) bool {
	if r := l.blocks.get(k); r != nil && r.until > now {
		return true
	}
	p := l.waiting[k]
	return p != nil && p.Until.UnixNano() > now
}

// change passes to the walls what became of k, before being how it stood.
func (l *Ledger) change(k pkey, before Block, stood bool, now int64) {
	after, stands := l.standing(k, now)
	switch {
	case stands && !stood:
		l.out = append(l.out, Change{Set, after, true})
		l.stats.Set++
	case stands && (!after.Until.Equal(before.Until) || after.Action != before.Action || !slices.Equal(after.Ports, before.Ports) || after.Cut != before.Cut):
		l.out = append(l.out, Change{Set, after, false})
	case stood && !stands:
		l.out = append(l.out, Change{Lift, before, false})
	}
}

// cut ends the block of k at an instant: late lines of before still fall into
// it, and what waits to be found again loses its strikes.
func (l *Ledger) cut(k pkey, at int64) {
	if r := l.blocks.get(k); r != nil && r.until > at {
		r.until = max(at, r.since)
		r.ended, r.lifted, r.forever = true, true, false
		l.moved(r, false)
	}
	delete(l.waiting, k)
	for _, p := range l.pendingOf[k] {
		if p.Since.UnixNano() <= at {
			p.Strikes, p.Forever = 0, false
			p.Until = time.Unix(0, min(p.Until.UnixNano(), max(at, p.Since.UnixNano()))).UTC()
		}
	}
}

// forget drops the record of k.
func (l *Ledger) forget(k pkey) {
	r := l.blocks.get(k)
	if r == nil {
		return
	}
	l.spared(r)
	l.leave(r)
	l.blocks.delete(k)
	delete(l.excepting, k)
	l.lengths.remove(k)
}

// due is an instant at which something has to be looked at.
type due[T any] struct {
	at int64
	of T
}

// agenda is a heap, the soonest first.
type agenda[T any] []due[T]

func (h *agenda[T]) push(at int64, of T) {
	*h = append(*h, due[T]{at, of})
	h.up(len(*h) - 1)
}

// next is when the soonest is due; never when there is none.
func (h agenda[T]) next() int64 {
	if len(h) == 0 {
		return never
	}
	return h[0].at
}

const never = int64(math.MaxInt64)

// pop takes the soonest out.
func (h *agenda[T]) pop() due[T] {
	d := *h
	x, last := d[0], len(d)-1
	d[0], d[last] = d[last], due[T]{}
	*h = d[:last]
	h.down(0)
	return x
}

func (h agenda[T]) order() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h agenda[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

func (h agenda[T]) down(i int) {
	for {
		soonest := 2*i + 1
		if soonest >= len(h) {
			return
		}
		if right := soonest + 1; right < len(h) && h[right].at < h[soonest].at {
			soonest = right
		}
		if h[i].at <= h[soonest].at {
			return
		}
		h[i], h[soonest] = h[soonest], h[i]
		i = soonest
	}
}

// expireBlocks ends the blocks that have ended by now, renews leases, and
// drops what ended long enough ago.
func (l *Ledger) expireBlocks(now int64) {
	for min(l.ends.next(), l.waits.next()) <= now {
		var k pkey
		if l.waits.next() <= l.ends.next() {
			k = l.waits.pop().of
		} else {
			k = l.ends.pop().of.k
		}
		r := l.blocks.get(k)
		if l.stands(k, now) {
			if r != nil && r.forever {
				l.renew(r, now)
			}
			continue
		}
		if p := l.waiting[k]; p != nil {
			l.out = append(l.out, Change{Op: Lift, Block: *p})
			delete(l.waiting, k)
		}
		l.expireRecord(k, r, now)
	}
}

func (l *Ledger) expireRecord(k pkey, r *record, now int64) {
	switch {
	case r == nil:
		return
	case r.forever: // its lease ran out while nobody was there to renew it
		l.renew(r, now)
		return
	case !r.ended:
		r.ended = true
		l.moved(r, false)
		l.stats.Expired++
		if !l.past {
			l.out = append(l.out, Change{Op: Lift, Block: r.block()})
		}
	}
	switch {
	case r.until+remember > now:
		l.ends.push(r.until+remember, r)
	case !l.recovering: // else RecoveryDone does it
		l.forget(k)
	}
}

// renew prolongs a block without an end when less than half its lease is left.
func (l *Ledger) renew(r *record, now int64) {
	if r.until-now <= int64(lease/2) {
		r.until = now + int64(lease)
		r.ended = false
		l.moved(r, false)
		l.out = append(l.out, Change{Op: Set, Block: r.block()})
	}
	l.wake(r)
}

// Each calls f for every block that stands at now, in no order: f must not keep
// or change it. Reason, Key and Evidence are left out.
func (l *Ledger) Each(now time.Time, f func(*Block)) {
	l.each(now.UnixNano(), func(r *record, p *Block) {
		if r != nil {
			b := r.brief()
			p = &b
		}
		f(p)
	})
}

// each calls f for every block that stands at now, in no order: with its
// record, or with one that waits to be found again.
func (l *Ledger) each(now int64, f func(r *record, p *Block)) {
	for r := range l.blocks.all() {
		k := r.k
		if p := l.waiting[k]; p != nil && p.Until.UnixNano() > now && (r.until <= now || p.Until.UnixNano() > r.until) {
			f(nil, p)
		} else if r.until > now {
			f(r, nil)
		}
	}
	for k, p := range l.waiting {
		if l.blocks.get(k) == nil && p.Until.UnixNano() > now {
			f(nil, p)
		}
	}
}

// sorted lists the blocks that stand at now and that want wants, by prefix.
func (l *Ledger) sorted(now int64, want func(netip.Prefix) bool) []Block {
	var found []netip.Prefix
	l.each(now, func(r *record, p *Block) {
		prefix := netip.Prefix{}
		if r != nil {
			prefix = r.prefix()
		} else {
			prefix = p.Prefix
		}
		if want(prefix) {
			found = append(found, prefix)
		}
	})
	slices.SortFunc(found, comparePrefixes)
	out := make([]Block, len(found))
	for i, p := range found {
		out[i], _ = l.standing(keyOf(p), now)
	}
	return out
}

// List gives the blocks standing at now, sorted by prefix. Their slices are
// shared: read only.
func (l *Ledger) List(now time.Time) []Block {
	return l.sorted(now.UnixNano(), func(netip.Prefix) bool { return true })
}

// Covering gives the blocks standing at now that cover a, or the IPv4 client
// that it stands for, widest first.
func (l *Ledger) Covering(a netip.Addr, now time.Time) []Block {
	a = addr.Of(a)
	return l.around(netip.PrefixFrom(a, a.BitLen()), now.UnixNano())
}

// around gives the blocks that cover p, widest first.
func (l *Ledger) around(p netip.Prefix, now int64) []Block {
	var out []Block
	for n := range p.Bits() + 1 {
		if b, stands := l.standing(keyAt(p.Addr(), n), now); stands {
			out = append(out, b)
		}
	}
	return out
}
