package bucket

import (
	"math/bits"
	"slices"
)

// shed makes room in a full table: first go the drained, then, if less than a
// sixteenth is free, the emptiest.
func (t *Table) shed(at int64) {
	at = clamp(at)
	drained := 0
	for i := range t.slots {
		if s := &t.slots[i]; s.meta>>spanBits != 0 && s.empty <= at {
			drained++
		}
	}
	most := t.max - max(t.max/16, 1)
	if t.n-drained <= most {
		t.Sweep(at)
		return
	}
	// The drained are the first in order: they go along.
	t.evicted += uint64(t.evict(t.n-most) - drained)
}

// evict drops the n buckets that would drain first and returns n; among equals
// the order of keys decides, so that it never depends on the seed.
func (t *Table) evict(n int) int {
	last := t.nth(n)
	return t.keep(func(s slot) bool { return compareSlots(&s, &last) > 0 })
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
		return uint64(s.empty) ^ 1<<63
	case 1:
		return s.hi
	case 2:
		return s.lo
	}
	return uint64(s.tag())
}

// few is how many slots are worth sorting.
const few = 4096

// nth returns the n-th slot in order, counted from 1. It counts into ranges
// that get narrower, so it needs no memory to speak of and a few passes even
// when a million buckets were poured in the same second.
func (t *Table) nth(n int) slot {
	var lo, hi [slotWords]uint64
	for i := range hi {
		hi[i] = ^uint64(0)
	}
	for w := range slotWords {
		var count, before int
		for count, lo[w], hi[w] = t.extent(w, &lo, &hi); count > few && lo[w] < hi[w]; n -= before {
			lo[w], hi[w], before, count = t.narrow(w, n, &lo, &hi)
		}
		if count <= few {
			break
		} // else a tie of more than few: the next word decides
	}
	return t.pick(n, &lo, &hi)
}

// inRange reports whether every word of s lies within its bounds.
func inRange(s *slot, lo, hi *[slotWords]uint64) bool {
	if s.meta>>spanBits == 0 {
		return false
	}
	for i := range slotWords {
		if x := s.word(i); x < lo[i] || x > hi[i] {
			return false
		}
	}
	return true
}

// extent counts the slots in range and tells the bounds of their word w.
func (t *Table) extent(w int, lo, hi *[slotWords]uint64) (count int, low, high uint64) {
	low = ^uint64(0)
	for i := range t.slots {
		if s := &t.slots[i]; inRange(s, lo, hi) {
			x := s.word(w)
			low, high, count = min(low, x), max(high, x), count+1
		}
	}
	return count, low, high
}

// narrow divides the range of word w into up to 4096 parts and returns the
// bounds of the one that the n-th slot is in, how many come before it and how
// many are in it.
func (t *Table) narrow(w, n int, lo, hi *[slotWords]uint64) (low, high uint64, before, count int) {
	var parts [4096]int
	shift := max(bits.Len64(hi[w]-lo[w])-12, 0)
	for i := range t.slots {
		if s := &t.slots[i]; inRange(s, lo, hi) {
			parts[(s.word(w)-lo[w])>>shift]++
		}
	}
	p := 0
	for ; before+parts[p] < n; p++ {
		before += parts[p]
	}
	low = lo[w] + uint64(p)<<shift
	return low, min(low+(1<<shift-1), hi[w]), before, parts[p]
}

// pick sorts the slots in range and returns the n-th.
func (t *Table) pick(n int, lo, hi *[slotWords]uint64) slot {
	var in []slot
	for i := range t.slots {
		if s := &t.slots[i]; inRange(s, lo, hi) {
			in = append(in, *s)
		}
	}
	slices.SortFunc(in, func(a, b slot) int { return compareSlots(&a, &b) })
	return in[n-1]
}
