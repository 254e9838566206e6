package bucket

import (
	"math/bits"
	"slices"
)

// shed makes room in a full table: first go the drained, then, if less than an
// eighth is free, the emptiest of the networks that hold most of them.
func (t *Table) shed(at int64) {
	t.Sweep(at)
	most := t.max - max(t.max/8, 1)
	if t.n > most {
		t.evicted += uint64(t.evict(t.n - most))
	}
}

// evict drops n buckets: of the crowd, or of all when there is none, those
// that would drain first. Among equals the order of keys decides, so that it
// never depends on the seed.
func (t *Table) evict(n int) int {
	in, size := t.crowd(n)
	last := t.nth(n, in, size)
	gone := make(set, (t.n+63)/64)
	t.each(in, func(i int, s *slot) {
		if s.empty < last.empty || s.empty == last.empty && compareSlots(s, &last) <= 0 {
			gone[i/64] |= 1 << (i % 64)
		}
	})
	return t.drop(gone)
}

// compareSlots orders by emptiness and then by key.
func compareSlots(a, b *slot) int {
	for i := range slotWords {
		if x, y := a.word(i), b.word(i); x != y {
			if x < y {
				return -1
			}
			return 1
		}
	}
	return 0
}

const slotWords = 4

// word is the i-th thing that slots are ordered by.
func (s *slot) word(i int) uint64 {
	switch i {
	case 0:
		return ordered(s.empty)
	case 1:
		return s.hi
	case 2:
		return s.lo
	}
	return uint64(s.tag())
}

// few is how many slots are worth sorting.
const few = 4096

// nth returns the n-th slot in order, counted from 1, of the size slots that
// are in a set. It counts into ranges that get narrower, so it needs no memory
// to speak of and a few passes even when a million buckets were poured in the
// same second.
func (t *Table) nth(n int, in set, size int) slot {
	r := bounds{in: in}
	for i := range r.hi {
		r.hi[i] = ^uint64(0)
	}
	r.lo[0], r.hi[0] = ordered(t.soonest), ordered(t.latest)
	count := size
	for w := range slotWords {
		if w > 0 {
			count = t.extent(w, &r)
		}
		for before := 0; count > few && r.lo[w] < r.hi[w]; n -= before {
			before, count = t.narrow(w, n, &r)
		}
		if count <= few {
			break
		} // else a tie of more than few: the next word decides
	}
	return t.pick(n, &r)
}

// ordered is an instant as a word that orders likewise.
func ordered(at int64) uint64 { return uint64(at) ^ 1<<63 }

// bounds are what the words of slots lie within, from lo to hi, and the set of
// slots that are looked at.
type bounds struct {
	lo, hi [slotWords]uint64
	in     set
}

// holds reports whether every word of s lies within them. Most slots fail by
// the first word.
func (r *bounds) holds(s *slot) bool {
	if x := ordered(s.empty); x < r.lo[0] || x > r.hi[0] {
		return false
	}
	for i := 1; i < slotWords; i++ {
		if x := s.word(i); x < r.lo[i] || x > r.hi[i] {
			return false
		}
	}
	return true
}

// extent counts the slots in range and draws the bounds of word w to them.
func (t *Table) extent(w int, r *bounds) (count int) {
	low, high := ^uint64(0), uint64(0)
	t.each(r.in, func(_ int, s *slot) {
		if r.holds(s) {
			x := s.word(w)
			low, high, count = min(low, x), max(high, x), count+1
		}
	})
	r.lo[w], r.hi[w] = low, high
	return count
}

// narrow divides the range of word w into up to 4096 parts, draws the bounds
// to the one that the n-th slot is in, and says how many come before it and
// how many are in it.
func (t *Table) narrow(w, n int, r *bounds) (before, count int) {
	var parts [4096]int
	low := r.lo[w]
	shift := max(bits.Len64(r.hi[w]-low)-12, 0)
	t.each(r.in, func(_ int, s *slot) {
		if x := ordered(s.empty); w == 0 && x >= low && x <= r.hi[0] {
			parts[(x-low)>>shift&4095]++
		} else if w > 0 && r.holds(s) {
			parts[(s.word(w)-low)>>shift&4095]++
		}
	})
	p := 0
	for ; before+parts[p] < n; p++ {
		before += parts[p]
	}
	r.lo[w] = low + uint64(p)<<shift
	r.hi[w] = min(r.lo[w]+(1<<shift-1), r.hi[w])
	return before, parts[p]
}

// pick sorts the slots in range and returns the n-th.
func (t *Table) pick(n int, r *bounds) slot {
	var in []slot
	t.each(r.in, func(_ int, s *slot) {
		if r.holds(s) {
			in = append(in, *s)
		}
	})
	slices.SortFunc(in, func(a, b slot) int { return compareSlots(&a, &b) })
	return in[n-1]
}
