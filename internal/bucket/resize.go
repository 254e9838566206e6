package bucket

import (
	"math/bits"
	"net/netip"
	"unsafe"
)

const (
	slotBytes  = int(unsafe.Sizeof(slot{}))
	chunkBytes = int(unsafe.Sizeof(chunk{}))
)

// chunkSlots is how many slots lie in a chunk: a page of memory.
const chunkSlots = 128

// The index is at most three quarters full and at least three eighths once it
// has grown, so that a bucket takes 40 to 47 bytes.
const fewestPlaces = 64

// limit is how many buckets the table takes before its index grows.
func (t *Table) limit() int { return len(t.index) / 4 * 3 }

// widen makes room for one more: by dropping what has long drained, if that is
// worth the pass, and else by growing.
func (t *Table) widen(at int64) {
	if late := clamp(at) - t.late; t.late > 0 && t.soonest <= late {
		t.Sweep(late)
	}
	if t.n >= t.limit()/8*7 {
		t.reindex(max(2*len(t.index), fewestPlaces))
	} else if t.n+t.tombs >= t.limit() {
		t.reindex(len(t.index))
	}
}

// reindex rebuilds the index with that many places.
func (t *Table) reindex(places int) {
	if places == len(t.index) {
		clear(t.index)
	} else {
		t.index = make([]uint32, places)
	}
	t.tombs = 0
	i := 0
	t.all(func(s *slot) {
		t.enter(t.seed.hash(s.hi, s.lo, s.tag()), i)
		i++
	})
}

// stretch makes room for a sixteenth more slots, which come in one piece; those
// of a small table take a page.
func (t *Table) stretch() {
	more := max(len(t.chunks)/16, 1)
	piece := make([]chunk, more)
	for i := range piece {
		t.chunks = append(t.chunks, &piece[i])
	}
}

// trim gives back the chunks that hold nothing.
func (t *Table) trim() {
	used := (t.n + chunkSlots - 1) / chunkSlots
	clear(t.chunks[used:])
	t.chunks = t.chunks[:used]
}

// all calls f with every slot, in the order of their numbers.
func (t *Table) all(f func(*slot)) {
	left := t.n
	for _, c := range t.chunks {
		slots := c.slots[:min(left, chunkSlots)]
		for i := range slots {
			f(&slots[i])
		}
		left -= len(slots)
	}
}

// each calls f with the slots of a set and their numbers, in order; nil is all.
func (t *Table) each(in set, f func(int, *slot)) {
	if in == nil {
		i := 0
		t.all(func(s *slot) {
			f(i, s)
			i++
		})
		return
	}
	for w, word := range in {
		for ; word != 0; word &= word - 1 {
			i := w*64 + bits.TrailingZeros64(word)
			f(i, t.slot(i))
		}
	}
}

// Sweep drops the buckets that are drained at the instant at, and returns how
// many there were. A late event, of before at, may then find its bucket gone
// where it would have found a rest; sweep with an instant in the past where
// that matters.
func (t *Table) Sweep(at int64) int {
	if at = clamp(at); t.soonest > at {
		return 0
	}
	return t.keep(func(s *slot) bool { return s.empty > at })
}

// DeleteWithin empties the buckets of the prefixes that lie within p, and of
// the pairs of such a prefix and a text. It returns how many there were.
func (t *Table) DeleteWithin(p netip.Prefix) int {
	if p = p.Masked(); !p.IsValid() {
		return 0
	}
	return t.keep(func(s *slot) bool { return !s.key().within(p) })
}

// Reset empties the table and gives its memory back.
func (t *Table) Reset() {
	t.n, t.tombs, t.chunks, t.index, t.soonest, t.latest = 0, 0, nil, nil, never, -never
}
