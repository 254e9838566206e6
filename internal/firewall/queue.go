package firewall

import (
	"context"
	"net/netip"
	"slices"
	"sync"
)

// Queue holds what is to be done to a wall until the wall has time for it. Of
// several orders for one prefix only the last is kept, so that its size is
// bounded by the number of prefixes, and a slow wall never holds up who puts.
// It is safe for use from several goroutines. Make it with NewQueue.
type Queue struct {
	wake chan struct{} // holds one token when something may be there

	mu      sync.Mutex
	pending map[netip.Prefix]order // guarded by mu
	seq     []netip.Prefix         // guarded by mu: the order of first mention
}

// order is an entry to block, or a prefix to unblock.
type order struct {
	entry   Entry
	unblock bool
}

// Batch is what Next hands on: orders that do not touch each other's prefixes.
type Batch struct {
	Block   []Entry
	Unblock []netip.Prefix
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{wake: make(chan struct{}, 1), pending: map[netip.Prefix]order{}}
}

// Block puts entries. It does not wait.
func (q *Queue) Block(es ...Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range es {
		q.put(e.Prefix, order{entry: e})
	}
}

// Unblock puts prefixes. It does not wait.
func (q *Queue) Unblock(ps ...netip.Prefix) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range ps {
		q.put(p, order{unblock: true})
	}
}

func (q *Queue) put(p netip.Prefix, o order) {
	if _, there := q.pending[p]; !there {
		q.seq = append(q.seq, p)
	}
	q.pending[p] = o
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Retry puts back what failed, unless something newer was put for its prefix.
func (q *Queue) Retry(b Batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	again := func(p netip.Prefix, o order) {
		if _, newer := q.pending[p]; !newer {
			q.put(p, o)
		}
	}
	for _, e := range b.Block {
		again(e.Prefix, order{entry: e})
	}
	for _, p := range b.Unblock {
		again(p, order{unblock: true})
	}
}

// Len is how many orders wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending)
}

// Next waits until something is there, and takes up to max orders, the oldest
// first. While the wall works on one batch the next one gathers: no timer
// holds anything back.
func (q *Queue) Next(ctx context.Context, max int) (Batch, error) {
	for {
		if b, any := q.take(max); any {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		case <-q.wake:
		}
	}
}

func (q *Queue) take(max int) (Batch, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var b Batch
	n := min(max, len(q.seq))
	for _, p := range q.seq[:n] {
		o := q.pending[p]
		delete(q.pending, p)
		if o.unblock {
			b.Unblock = append(b.Unblock, p)
		} else {
			b.Block = append(b.Block, o.entry)
		}
	}
	q.seq = slices.Delete(q.seq, 0, n)
	return b, n > 0
}
