package bucket

// keep drops every bucket that want refuses. It returns how many they were.
func (t *Table) keep(want func(*slot) bool) int {
	gone := make(set, (t.n+63)/64)
	t.each(nil, func(i int, s *slot) {
		if !want(s) {
			gone[i/64] |= 1 << (i % 64)
		}
	})
	return t.drop(gone)
}

// drop drops the buckets in gone, and gives memory back when few are left. It
// returns how many they were.
func (t *Table) drop(gone set) int {
	n := t.bound(gone)
	switch {
	case n == 0:
	case n == t.n:
		t.Reset()
	case n > t.n/4:
		t.compact(gone)
	default:
		t.thin(gone, n)
	}
	return n
}

// set is a set of slots' numbers.
type set []uint64

func (s set) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }

// bound bounds when the buckets drain that are not gone, and counts the others.
func (t *Table) bound(gone set) (n int) {
	t.soonest, t.latest = never, -never
	t.each(nil, func(i int, s *slot) {
		if gone.has(i) {
			n++
			return
		}
		t.soonest, t.latest = min(t.soonest, s.empty), max(t.latest, s.empty)
	})
	return n
}

// compact moves the slots together over many that are gone, and makes the
// index again, smaller if it can be.
func (t *Table) compact(gone set) {
	next := 0
	for i := range t.n {
		if !gone.has(i) {
			t.move(next, i)
			next++
		}
	}
	t.n = next
	t.trim()
	places := len(t.index)
	for places > fewestPlaces && t.n < places/16*3 {
		places /= 2
	}
	t.reindex(places)
}

// thin fills the places of n slots that are gone from behind, in one pass over
// the index in its own order.
func (t *Table) thin(gone set, n int) {
	left := t.n - n
	moved := make([]uint32, n) // of the slots from left on: their new number and one
	hole := 0
	for i := left; i < t.n; i++ {
		if gone.has(i) {
			continue
		}
		for !gone.has(hole) {
			hole++
		}
		t.move(hole, i)
		moved[i-left] = uint32(hole + 1)
		hole++
	}
	for at, v := range t.index {
		i := int(v&t.numbers) - 1
		switch {
		case i < 0:
		case gone.has(i):
			t.bury(at)
		case i >= left:
			t.index[at] = v&^t.numbers | moved[i-left]
		}
	}
	t.n = left
	t.trim()
}
