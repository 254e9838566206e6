package ledger

import (
	"container/heap"
	"net/netip"
	"time"
)

// Newest gives the blocks standing at now that want takes, the newest first
// and by prefix among equals: limit of them from the offset'th on. matches is
// how many want takes, total how many stand. It copies no more than it gives,
// however many stand; slices of blocks are shared: read only.
func (l *Ledger) Newest(now time.Time, want func(*Block) bool, offset, limit int) (page []Block, matches, total int) {
	at, most := now.UnixNano(), max(offset, 0)+max(limit, 0)
	var kept oldestFirst
	see := func(r *record, b *Block) {
		if r != nil {
			full := r.block()
			b = &full
		}
		total++
		if !want(b) {
			return
		}
		matches++
		a := age{b.Since.UnixNano(), b.Prefix}
		switch {
		case len(kept) < most:
			heap.Push(&kept, a)
		case most > 0 && kept[0].older(a):
			kept[0] = a
			heap.Fix(&kept, 0)
		}
	}
	l.each(at, see)
	page = make([]Block, max(0, len(kept)-max(offset, 0)))
	for i := len(page) - 1; i >= 0; i-- {
		page[i], _ = l.standing(keyOf(heap.Pop(&kept).(age).prefix), at)
	}
	return page, matches, total
}

// age is what blocks are ordered by.
type age struct {
	since  int64
	prefix netip.Prefix
}

func (a age) older(b age) bool {
	if a.since != b.since {
		return a.since < b.since
	}
	return comparePrefixes(a.prefix, b.prefix) > 0
}

// oldestFirst is a heap whose first is the one to let go.
type oldestFirst []age

func (h oldestFirst) Len() int           { return len(h) }
func (h oldestFirst) Less(i, j int) bool { return h[i].older(h[j]) }
func (h oldestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *oldestFirst) Push(x any)        { *h = append(*h, x.(age)) }
func (h *oldestFirst) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
