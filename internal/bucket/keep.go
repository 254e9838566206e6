package bucket

// keep drops every bucket that want refuses, and gives memory back when few
// are left. It returns how many were dropped.
func (t *Table) keep(want func(*slot) bool) int {
	gone, n := t.refused(want)
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

// refused lists the slots that want refuses, and bounds the others.
func (t *Table) refused(want func(*slot) bool) (gone set, n int) {
	gone = make(set, (t.n+63)/64)
	t.soonest, t.latest = never, -never
	for from := 0; from < t.n; from += chunkSlots {
		slots := t.chunks[from/chunkSlots][:min(t.n-from, chunkSlots)]
		for i := range slots {
			s := &slots[i]
			if !want(s) {
				gone[(from+i)/64] |= 1 << ((from + i) % 64)
				n++
				continue
			}
			t.soonest, t.latest = min(t.soonest, s.empty), max(t.latest, s.empty)
		}
	}
	return gone, n
}

// compact moves the slots together over many that are gone, and makes the
// index anew, smaller if it can be.
func (t *Table) compact(gone set) {
	next := 0
	for i := range t.n {
		if !gone.has(i) {
			*t.slot(next) = *t.slot(i)
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
		*t.slot(hole) = *t.slot(i)
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
