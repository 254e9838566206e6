package ledger

import (
	"cmp"
	"container/heap"
	"net/netip"
	"slices"
	"time"
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

// record is the last block of a prefix, and the spans of those before it that
// late lines may still fall into.
type record struct {
	// First what every event of the prefix asks for.
	k            pkey
	since, until int64 // of Block, Unix ns
	past         int64 // where the last of spans ends
	spans        []span
	ended        bool // the walls were told
	lifted       bool // until was cut short by hand
	Block
}

// span is when a block stood, for one service or, if that is "", for all.
type span struct {
	since, until int64
	service      string
}

func (s span) covers(at int64, service string) bool {
	return s.since <= at && at < s.until && (s.service == "" || s.service == service)
}

// scope is the service whose events a block stops; "" for all.
func (b *Block) scope() string {
	if len(b.Ports) == 0 {
		return ""
	}
	return cmp.Or(b.Service, "\x00") // by hand and with ports: of no known service
}

func (r *record) span() span { return span{r.since, r.until, r.scope()} }

func (r *record) covers(at int64, service string) bool {
	if r.since <= at && at < r.until && (len(r.Ports) == 0 || r.scope() == service) {
		return true
	}
	return at < r.past && slices.ContainsFunc(r.spans, func(s span) bool { return s.covers(at, service) })
}

// replace makes b the prefix's block; what was is kept as a span up to then.
func (r *record) replace(b Block) {
	if r.until > r.since {
		old := r.span()
		old.until = min(old.until, b.Since.UnixNano())
		r.remember(old)
	}
	r.Block, r.since, r.until, r.ended, r.lifted = b, b.Since.UnixNano(), b.Until.UnixNano(), false, false
}

func (r *record) remember(s span) {
	if s.until <= s.since {
		return
	}
	r.past = max(r.past, s.until)
	if len(r.spans) >= maxSpans {
		r.spans = slices.Delete(r.spans, 0, 1)
	}
	r.spans = append(r.spans, s)
}

// merge brings a block of a rule into a record: an earlier one that is found
// again only leaves its span; one within the standing block prolongs it; a
// later one takes its place.
func (r *record) merge(b Block) {
	since, until := b.Since.UnixNano(), b.Until.UnixNano()
	switch {
	case since < r.since:
		r.remember(span{since, min(until, r.since), b.scope()})
		if r.By == "" && until > r.until && until > r.since && !r.lifted {
			r.until, r.Until, r.ended = until, b.Until, false
		}
	case since >= r.until || r.until == r.since:
		r.replace(b)
	default:
		r.prolong(b, until)
	}
}

// prolong keeps since, and what reaches further of the rest.
func (r *record) prolong(b Block, until int64) {
	if len(r.Ports) > 0 && len(b.Ports) == 0 {
		r.remember(r.span())
		r.Ports = nil
	}
	if r.Action == "slow" {
		r.Action = b.Action
	}
	r.Cut = r.Cut || b.Cut
	if r.Forever || until <= r.until {
		return
	}
	action, ports, cut, since := r.Action, r.Ports, r.Cut, r.Since
	r.Block, r.until, r.ended = b, until, false
	r.Action, r.Ports, r.Cut, r.Since = action, ports, cut, since
}

// adopt enters a block into the ledger, by hand ones replacing what stands.
func (l *Ledger) adopt(b Block) {
	k := keyOf(b.Prefix)
	r := l.blocks[k]
	if r == nil {
		l.room()
		r = &record{k: k, Block: b, since: b.Since.UnixNano(), until: b.Until.UnixNano()}
		l.blocks[k] = r
		l.roster.put(r)
		l.lengths.add(k)
		l.join(k)
	} else if b.By != "" && b.Since.UnixNano() >= r.since {
		r.replace(b)
	} else {
		r.merge(b)
	}
	l.keepEvidence(k, r)
	l.wake(k, r)
}

// wake has Expire look at k when something is due.
func (l *Ledger) wake(k pkey, r *record) {
	at := r.until
	if r.Forever {
		at -= int64(lease / 2)
	}
	heap.Push(&l.ends, end{at, k})
	if len(l.ends) > 4*(len(l.blocks)+len(l.waiting))+1024 {
		l.compact()
	}
}

// compact drops the ends that something later took the place of.
func (l *Ledger) compact() {
	l.ends = l.ends[:0]
	for k, r := range l.blocks {
		at := r.until
		switch {
		case r.ended:
			at += remember
		case r.Forever:
			at -= int64(lease / 2)
		}
		l.ends = append(l.ends, end{at, k})
	}
	for k, b := range l.waiting {
		l.ends = append(l.ends, end{b.Until.UnixNano(), k})
	}
	heap.Init(&l.ends)
}

// standing is the block of k as the walls should hold it at now: the record's
// or one that waits to be found again, whichever lasts longer.
func (l *Ledger) standing(k pkey, now int64) (Block, bool) {
	r, p := l.blocks[k], l.waiting[k]
	found := r != nil && r.until > now
	if p != nil && p.Until.UnixNano() > now && (!found || p.Until.UnixNano() > r.until) {
		return *p, true
	}
	if !found {
		return Block{}, false
	}
	return r.Block, true
}

// change tells the walls what became of k, before being how it stood.
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
	if r := l.blocks[k]; r != nil && r.until > at {
		r.until = max(at, r.since)
		r.Until = time.Unix(0, r.until).UTC()
		r.ended, r.lifted, r.Forever = true, true, false
	}
	delete(l.waiting, k)
	for _, p := range l.pendingOf[k] {
		if p.Since.UnixNano() <= at {
			p.Strikes, p.Forever = 0, false
			p.Until = time.Unix(0, min(p.Until.UnixNano(), max(at, p.Since.UnixNano()))).UTC()
		}
	}
}

// room makes room for one more record: first go those that ended, then the
// sixty-fourth that ends soonest, by hand ones last.
func (l *Ledger) room() {
	if len(l.blocks) < l.o.MaxBlocks {
		return
	}
	keys := make([]pkey, 0, len(l.blocks))
	for k := range l.blocks {
		keys = append(keys, k)
	}
	rank := func(k pkey) int {
		switch r := l.blocks[k]; {
		case r.ended:
			return 0
		case r.By == "":
			return 1
		}
		return 2
	}
	slices.SortFunc(keys, func(a, b pkey) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(l.blocks[a].until, l.blocks[b].until), comparePrefixes(a.prefix(), b.prefix()))
	})
	for _, k := range keys[:max(len(keys)/64, 1)] {
		if r := l.blocks[k]; !r.ended {
			l.stats.Evicted++
			delete(l.waiting, k)
			l.out = append(l.out, Change{Op: Lift, Block: r.Block})
		}
		l.forget(k)
	}
}

// forget drops the record of k.
func (l *Ledger) forget(k pkey) {
	if l.blocks[k] == nil {
		return
	}
	delete(l.blocks, k)
	l.roster.drop(k)
	l.lengths.remove(k)
	l.leave(k)
}

// end is an instant at which something about k has to be looked at.
type end struct {
	at int64
	k  pkey
}

type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

// expireBlocks ends the blocks that have ended by now, renews leases, and
// drops what ended long enough ago.
func (l *Ledger) expireBlocks(now int64) {
	for len(l.ends) > 0 && l.ends[0].at <= now {
		k := heap.Pop(&l.ends).(end).k
		r := l.blocks[k]
		if _, stands := l.standing(k, now); stands {
			if r != nil && r.Forever {
				l.renew(k, r, now)
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
	case r.Forever: // its lease ran out while nobody was there to renew it
		l.renew(k, r, now)
		return
	case !r.ended:
		r.ended = true
		l.stats.Expired++
		l.out = append(l.out, Change{Op: Lift, Block: r.Block})
	}
	switch {
	case r.until+remember > now:
		heap.Push(&l.ends, end{r.until + remember, k})
	case !l.recovering: // else RecoveryDone does it
		l.forget(k)
	}
}

// renew prolongs a block without an end when less than half its lease is left.
func (l *Ledger) renew(k pkey, r *record, now int64) {
	if r.until-now <= int64(lease/2) {
		r.until = now + int64(lease)
		r.Until, r.ended = time.Unix(0, r.until).UTC(), false
		l.out = append(l.out, Change{Op: Set, Block: r.Block})
	}
	l.wake(k, r)
}

// Each calls f for every block that stands at now, in no order and without
// copying any: f must not keep or change it.
func (l *Ledger) Each(now time.Time, f func(*Block)) { l.each(now.UnixNano(), f) }

func (l *Ledger) each(now int64, f func(*Block)) {
	for k, r := range l.blocks {
		if p := l.waiting[k]; p != nil && p.Until.UnixNano() > now && (r.until <= now || p.Until.UnixNano() > r.until) {
			f(p)
		} else if r.until > now {
			f(&r.Block)
		}
	}
	for k, p := range l.waiting {
		if l.blocks[k] == nil && p.Until.UnixNano() > now {
			f(p)
		}
	}
}

// sorted lists the blocks that stand at now and that want wants, by prefix.
func (l *Ledger) sorted(now int64, want func(netip.Prefix) bool) []Block {
	var found []*Block
	l.each(now, func(b *Block) {
		if want(b.Prefix) {
			found = append(found, b)
		}
	})
	slices.SortFunc(found, func(a, b *Block) int { return comparePrefixes(a.Prefix, b.Prefix) })
	out := make([]Block, len(found))
	for i, b := range found {
		out[i] = *b
	}
	return out
}

// List gives the blocks standing at now, sorted by prefix. Their slices are
// shared: read only.
func (l *Ledger) List(now time.Time) []Block {
	return l.sorted(now.UnixNano(), func(netip.Prefix) bool { return true })
}

// Covering gives the blocks standing at now that cover addr, widest first.
func (l *Ledger) Covering(addr netip.Addr, now time.Time) []Block {
	return l.around(netip.PrefixFrom(addr, addr.BitLen()), now.UnixNano())
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
