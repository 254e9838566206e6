package bucket

import (
	"net/netip"
	"unsafe"
)

const slotBytes = int(unsafe.Sizeof(slot{}))

// A table grows when it is fuller than 52/64 and then is 45/64 full, so that a
// bucket takes 39 to 46 bytes.
const (
	fullest  = 52
	emptiest = 45
	of       = 64
)

// limit is how many buckets the table takes before it grows.
func (t *Table) limit() int { return int(t.homes) * fullest / of }

func (t *Table) alloc(homes int) {
	t.homes = uint64(homes)
	t.slots = make([]slot, homes+min(8+homes/64, 1024))
}

// widen makes room for one more: by dropping what has long drained, if that is
// worth the pass, and else by growing.
func (t *Table) widen(at int64) {
	if t.late > 0 {
		t.Sweep(clamp(at) - t.late)
	}
	if t.n >= t.limit()*7/8 {
		t.grow()
	}
}

// grow makes room for more. Both arrays live while it runs.
func (t *Table) grow() {
	t.rebuild(max(t.n*of/emptiest, int(t.homes)+int(t.homes)/64, 16) + 1)
}

// rebuild moves all buckets into a new array, still in order.
func (t *Table) rebuild(homes int) {
	old := t.slots
	for {
		t.alloc(homes)
		if t.place(old) {
			return
		}
		homes += homes/16 + 16 // the overflow at the end was too long
	}
}

func (t *Table) place(old []slot) bool {
	next := 0
	for i := range old {
		s := &old[i]
		if s.meta>>spanBits == 0 {
			continue
		}
		next = max(next, t.home(t.hash(s.hi, s.lo, s.tag())))
		if next >= len(t.slots) {
			return false
		}
		t.slots[next] = *s
		next++
	}
	return true
}

// keep drops every bucket that want refuses, in one pass and in place, and
// gives memory back when few are left. It returns how many were dropped.
func (t *Table) keep(want func(slot) bool) int {
	before, next := t.n, 0
	t.n = 0
	for i := range t.slots {
		s := t.slots[i]
		if s.meta>>spanBits == 0 {
			continue
		}
		t.slots[i] = slot{}
		if !want(s) {
			continue
		}
		// Never behind i: those before it have not become more.
		next = max(next, t.home(t.hash(s.hi, s.lo, s.tag())))
		t.slots[next] = s
		next++
		t.n++
	}
	if t.n < int(t.homes)/2 && t.homes > 16 {
		t.rebuild(max(t.n*of/emptiest, 16))
	}
	return before - t.n
}

// Sweep drops the buckets that are drained at the instant at, and returns how
// many there were. A late event, of before at, may then find its bucket gone
// where it would have found a rest; sweep with an instant in the past where
// that matters.
func (t *Table) Sweep(at int64) int {
	return t.keep(func(s slot) bool { return s.empty > clamp(at) })
}

// DeleteWithin empties the buckets of the prefixes that lie within p, and of
// the pairs of such a prefix and a text. It returns how many there were.
func (t *Table) DeleteWithin(p netip.Prefix) int {
	if p = p.Masked(); !p.IsValid() {
		return 0
	}
	return t.keep(func(s slot) bool { return !s.key().within(p) })
}

// Reset empties the table and gives its memory back.
func (t *Table) Reset() {
	t.n = 0
	t.alloc(16)
}
