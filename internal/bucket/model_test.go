package bucket

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
)

// rounds is how many random timelines a property test plays.
func rounds(n int) int {
	if os.Getenv("STOPLOG_SOAK") != "" {
		return n * 100
	}
	return n
}

// modelBucket is a leaky bucket as one would draw it: a level in nanoseconds
// of leaking, and the latest time seen.
type modelBucket struct {
	level, last int64
}

func (m modelBucket) at(t int64) int64 {
	return max(m.level-max(t-m.last, 0), 0)
}

// modelTable is a Table that does everything the slow way.
type modelTable struct {
	max     int
	buckets map[Key]modelBucket
	evicted uint64
}

func newModel(max int) *modelTable { return &modelTable{max: max, buckets: map[Key]modelBucket{}} }

func (m *modelTable) pour(k Key, at int64, n int, l Limit) (int, bool) {
	b, found := m.buckets[k]
	if n <= 0 {
		return m.level(k, at, l), false
	}
	if !found {
		if len(m.buckets) >= m.max {
			m.shed(at)
		}
		b.last = at
	}
	held, leak := b.at(at), int64(l.Leak)
	room := int64(l.Capacity) * leak
	// One event after the other, none beyond capacity + n.
	for range n {
		if next := b.at(at) + leak; next <= room+int64(n)*leak {
			held = max(held, next)
			b = modelBucket{next, max(b.last, at)}
			continue
		}
		held = max(held, room+int64(n)*leak)
		b = modelBucket{held, max(b.last, at)}
	}
	m.buckets[k] = b
	return ceil(b.level, leak), b.level > room
}

func (m *modelTable) refill(k Key, at int64, n int, l Limit) {
	if _, found := m.buckets[k]; !found && len(m.buckets) >= m.max {
		m.shed(at)
	}
	m.buckets[k] = modelBucket{int64(n) * int64(l.Leak), at}
}

func (m *modelTable) level(k Key, at int64, l Limit) int {
	return ceil(m.buckets[k].at(at), int64(l.Leak))
}

func ceil(a, b int64) int { return int((a + b - 1) / b) }

func (m *modelTable) sweep(at int64) int {
	n := len(m.buckets)
	for k, b := range m.buckets {
		if b.last+b.level <= at {
			delete(m.buckets, k)
		}
	}
	return n - len(m.buckets)
}

func (m *modelTable) shed(at int64) {
	m.sweep(at)
	most := m.max - max(m.max/8, 1)
	if len(m.buckets) <= most {
		return
	}
	n := len(m.buckets) - most
	keys := m.crowd(n)
	for _, k := range keys[:n] {
		delete(m.buckets, k)
		m.evicted++
	}
}

// crowd lists those that may go when n must, the emptiest first: those of
// networks that have more than every network could keep.
func (m *modelTable) crowd(n int) []Key {
	all := m.keys()
	for _, c := range scales {
		in, of, counts := map[uint64]int{}, map[Key]uint64{}, &census{c, make([]cell, cellsFor(len(all)))}
		for _, k := range all {
			if g, ok := c.network(&slot{hi: k.hi, lo: k.lo, meta: uint64(k.tag) << spanBits}); ok {
				in[g]++
				of[k] = g
				counts.at(g).count++
			}
		}
		share := len(all)
		for ; share > 0; share-- {
			over := 0
			for _, x := range counts.cells {
				over += max(int(x.count)-share, 0)
			}
			if over >= n {
				break
			}
		}
		if share < c.least {
			continue
		}
		some := slices.DeleteFunc(slices.Clone(all), func(k Key) bool {
			g, ok := of[k]
			return !ok || in[g] <= share
		})
		if len(some) >= n {
			return some
		}
	}
	return all
}

// keys lists what it holds, the emptiest first.
func (m *modelTable) keys() []Key {
	var keys []Key
	for k := range m.buckets {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		x, y := m.buckets[a], m.buckets[b]
		return cmp.Or(cmp.Compare(x.last+x.level, y.last+y.level), a.compare(b))
	})
	return keys
}

// timeline makes instants that mostly go on, sometimes stand still, jump or go
// back.
func timeline(r *rand.Rand, at int64, leak int64) int64 {
	switch r.IntN(10) {
	case 0:
		return at - r.Int64N(3*leak)
	case 1, 2:
		return at
	case 3:
		return at + r.Int64N(8*leak)
	}
	return at + r.Int64N(leak)
}
