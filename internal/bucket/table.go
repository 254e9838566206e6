package bucket

import (
	"math/bits"
	"time"
)

// DefaultMax is how many buckets a Table holds when it is not told.
const DefaultMax = 1 << 20

// slot is one bucket, or free when its tag is 0. 32 bytes and no pointer.
type slot struct {
	hi, lo uint64
	empty  int64 // when the bucket would be empty, Unix ns
	// meta is the key's tag in the highest 8 bits and how long before empty
	// the last event was in the others, which hold MaxSpan.
	meta uint64
}

const spanBits = 56

func (s *slot) tag() uint8    { return uint8(s.meta >> spanBits) }
func (s *slot) span() int64   { return int64(s.meta & uint64(MaxSpan)) }
func (s *slot) last() int64   { return s.empty - s.span() }
func (s *slot) key() Key      { return Key{s.hi, s.lo, s.tag()} }
func (s *slot) is(k Key) bool { return s.lo == k.lo && s.hi == k.hi && s.tag() == k.tag }

// Table holds leaky buckets by key. It is not safe for concurrent use.
//
// Its slots are in the order of their keys' hashes: a bucket is at or shortly
// behind the place that its hash names, so that a search can stop early, the
// table can be nearly full, and growing is one pass.
type Table struct {
	slots   []slot
	homes   uint64 // places that a hash can name; the slots behind take the overflow
	n       int
	max     int
	seed    [2]uint64
	late    int64 // 0: never sweeps by itself
	evicted uint64
}

// NewTable makes a table of at most so many buckets (0: DefaultMax; at least 16).
// seed should be random where keys come from strangers; answers do not depend
// on it. A table starts small and grows.
func NewTable(most int, seed uint64) *Table {
	if most <= 0 {
		most = DefaultMax
	}
	t := &Table{max: max(most, 16), seed: spread(seed)}
	t.alloc(16)
	return t
}

// spread makes two odd, unequal words of a seed.
func spread(seed uint64) [2]uint64 {
	a, b := bits.Mul64(seed^0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9)
	c, d := bits.Mul64(a^b^0x94d049bb133111eb, 0xd6e8feb86659fd93)
	return [2]uint64{a ^ b ^ seed | 1, c ^ d ^ 0xa0761d6478bd642e | 1}
}

// SweepLate lets the table drop drained buckets by itself before it grows:
// those that were drained late before the event that wants room. An event that
// comes later than that may find its bucket gone. Without it (or with 0) only
// a full table drops any.
func (t *Table) SweepLate(late time.Duration) { t.late = int64(late) }

// Touch looks at where k is or would be, so that a Pour soon after finds it in
// the processor's cache: over many keys the waits overlap. What it returns
// means nothing, but must be used for the look to happen.
func (t *Table) Touch(k Key) uint64 {
	return t.slots[t.home(t.hash(k.hi, k.lo, k.tag))].meta
}

// Len is the number of buckets, drained ones not yet swept included.
func (t *Table) Len() int { return t.n }

// Max is the most buckets it will hold.
func (t *Table) Max() int { return t.max }

// Bytes is the memory the table takes.
func (t *Table) Bytes() int { return len(t.slots) * slotBytes }

// Evicted counts the buckets that were not drained when they had to go.
func (t *Table) Evicted() uint64 { return t.evicted }

// Pour adds n events to the bucket of k at the instant at. It returns how many
// events the bucket then holds, begun ones counting whole, and whether that is
// more than its capacity. n of 0 or less only looks. The zero Key holds
// nothing.
func (t *Table) Pour(k Key, at int64, n int, l Limit) (level int, breached bool) {
	if n <= 0 || k.tag == 0 {
		return t.Level(k, at, l), false
	}
	at = clamp(at)
	i, found := t.find(k)
	if !found {
		i = t.insert(k, at, i)
	}
	s := &t.slots[i]
	now := max(at, s.last())
	held := max(s.empty-now, 0)
	leak := l.leak()
	room := span(int64(l.Capacity), leak)
	add := span(int64(n), leak)
	full := max(held, min(held+add, room+add, int64(MaxSpan)))
	s.empty = now + full
	s.meta = s.meta&^uint64(MaxSpan) | uint64(full)
	return events(full, leak), full > room || full == int64(MaxSpan)
}

// Level is how many events the bucket of k holds at the instant at.
func (t *Table) Level(k Key, at int64, l Limit) int {
	i, found := t.find(k)
	if !found {
		return 0
	}
	s := &t.slots[i]
	held := max(s.empty-max(clamp(at), s.last()), 0)
	return events(held, l.leak())
}

// hash mixes a key with the seed.
func (t *Table) hash(hi, lo uint64, tag uint8) uint64 {
	a, b := bits.Mul64(hi^t.seed[0], lo^t.seed[1]^uint64(tag)<<56^uint64(tag))
	a, b = bits.Mul64(a^b^t.seed[1], t.seed[0]^uint64(tag)*0x9e3779b97f4a7c15)
	return a ^ b
}

// home is the place that a hash names: hashes in order give places in order.
func (t *Table) home(h uint64) int {
	p, _ := bits.Mul64(h, t.homes)
	return int(p)
}

// glance is how many slots are compared before their order is looked at: most
// pours are of a key that is there, and its order costs a hash a slot.
const glance = 6

// find returns where k is, or where it belongs.
func (t *Table) find(k Key) (int, bool) {
	h := t.hash(k.hi, k.lo, k.tag)
	home := t.home(h)
	for i := home; i < min(home+glance, len(t.slots)); i++ {
		if s := &t.slots[i]; s.is(k) {
			return i, true
		} else if s.meta>>spanBits == 0 {
			break
		}
	}
	for i := home; i < len(t.slots); i++ {
		s := &t.slots[i]
		if s.is(k) {
			return i, true
		}
		if s.meta>>spanBits == 0 || t.after(s, h, k) {
			return i, false
		}
	}
	return len(t.slots), false
}

// after reports whether s comes behind a key k of hash h.
func (t *Table) after(s *slot, h uint64, k Key) bool {
	sh := t.hash(s.hi, s.lo, s.tag())
	return sh > h || sh == h && s.key().compare(k) > 0
}

// insert puts a drained bucket for k at place i, making room first, and
// returns where it came to be.
func (t *Table) insert(k Key, at int64, i int) int {
	if t.n >= t.max {
		t.shed(at)
		i, _ = t.find(k)
	}
	if t.n >= t.limit() {
		t.widen(at)
		i, _ = t.find(k)
	}
	end, ok := t.free(i)
	for !ok {
		t.grow()
		i, _ = t.find(k)
		end, ok = t.free(i)
	}
	copy(t.slots[i+1:end+1], t.slots[i:end])
	t.slots[i] = slot{hi: k.hi, lo: k.lo, empty: at, meta: uint64(k.tag) << spanBits}
	t.n++
	return i
}

// free finds the first free slot at or behind i.
func (t *Table) free(i int) (int, bool) {
	for ; i < len(t.slots); i++ {
		if t.slots[i].meta>>spanBits == 0 {
			return i, true
		}
	}
	return 0, false
}

// Delete empties the bucket of k; false when there was none.
func (t *Table) Delete(k Key) bool {
	i, found := t.find(k)
	if !found {
		return false
	}
	j := i + 1
	// Whoever stands at its own place, and all behind, may stay.
	for ; j < len(t.slots); j++ {
		s := &t.slots[j]
		if s.meta>>spanBits == 0 || t.home(t.hash(s.hi, s.lo, s.tag())) == j {
			break
		}
	}
	copy(t.slots[i:j-1], t.slots[i+1:j])
	t.slots[j-1] = slot{}
	t.n--
	return true
}
