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
// Its slots lie close together in chunks, in the order in which they came; an
// index of four bytes a place, hashed and probed in line, tells the number of
// a key's slot. So a new bucket costs no moving of others, growing is one pass
// over the slots, and an empty table takes no memory.
type Table struct {
	chunks  []*[chunkSlots]slot
	index   []uint32 // 0: free; else a slot's number and one, and above numbers a tag of its hash
	tombs   int      // places of the index whose slot is gone: a tag and no number
	numbers uint32   // mask of the number in an index's place
	n       int
	max     int
	seed    Seed
	late    int64 // 0: never sweeps by itself
	soonest int64 // no bucket drains before it
	latest  int64 // nor after it
	evicted uint64
	looks   uint32 // keeps looks from being left out
}

// NewTable makes a table of at most so many buckets (0: DefaultMax; at least 16).
// seed should be random where keys come from strangers; answers do not depend
// on it. A table starts empty and grows.
func NewTable(most int, seed uint64) *Table {
	if most <= 0 {
		most = DefaultMax
	}
	most = min(max(most, 16), 1<<31-1)
	return &Table{max: most, seed: NewSeed(seed), numbers: 1<<bits.Len(uint(most)) - 1, soonest: never, latest: -never}
}

// never is later than any bucket drains.
const never = int64(1<<63 - 1)

// SweepLate lets the table drop drained buckets by itself before it grows:
// those that were drained late before the event that wants room. An event that
// comes later than that may find its bucket gone. Without it (or with 0) only
// a full table drops any.
func (t *Table) SweepLate(late time.Duration) { t.late = int64(late) }

// Len is the number of buckets, drained ones not yet swept included.
func (t *Table) Len() int { return t.n }

// Max is the most buckets it will hold.
func (t *Table) Max() int { return t.max }

// Bytes is the memory the table takes.
func (t *Table) Bytes() int { return len(t.chunks)*(chunkSlots*slotBytes+8) + 4*len(t.index) }

// Evicted counts the buckets that were not drained when they had to go.
func (t *Table) Evicted() uint64 { return t.evicted }

// Pour adds n events to the bucket of k at the instant at. It returns how many
// events the bucket then holds, begun ones counting whole, and whether that is
// more than its capacity. n of 0 or less only looks. The zero Key holds
// nothing.
func (t *Table) Pour(k Key, at int64, n int, l Limit) (level int, breached bool) {
	return t.PourSpot(t.seed.Spot(k), at, n, l)
}

// PourSpot is Pour of a key whose spot is known.
func (t *Table) PourSpot(p Spot, at int64, n int, l Limit) (level int, breached bool) {
	if n <= 0 || p.tag == 0 {
		return t.Level(p.Key, at, l), false
	}
	at = clamp(at)
	s := t.find(p)
	known := s != nil
	if !known {
		s = t.insert(p, at)
	}
	now := max(at, s.last())
	held := max(s.empty-now, 0)
	leak := l.leak()
	room := span(int64(l.Capacity), leak)
	add := span(int64(n), leak)
	full := max(held, min(held+add, room+add, int64(MaxSpan)))
	s.empty = now + full
	s.meta = s.meta&^uint64(MaxSpan) | uint64(full)
	if t.latest = max(t.latest, s.empty); !known {
		t.soonest = min(t.soonest, s.empty)
	}
	return events(full, leak), full > room || full == int64(MaxSpan)
}

// Level is how many events the bucket of k holds at the instant at.
func (t *Table) Level(k Key, at int64, l Limit) int {
	s := t.find(t.seed.Spot(k))
	if s == nil {
		return 0
	}
	held := max(s.empty-max(clamp(at), s.last()), 0)
	return events(held, l.leak())
}

// Refill makes the bucket of k hold n events, or none, at the instant at, and
// no more than that. The instant is kept: an event that comes late counts as
// being of then, as it would of what was taken out.
func (t *Table) Refill(k Key, at int64, n int, l Limit) {
	if k.tag == 0 {
		return
	}
	p, at := t.seed.Spot(k), clamp(at)
	s := t.find(p)
	if s == nil {
		s = t.insert(p, at)
	}
	full := span(int64(n), l.leak())
	s.empty = at + full
	s.meta = s.meta&^uint64(MaxSpan) | uint64(full)
	t.soonest, t.latest = min(t.soonest, s.empty), max(t.latest, s.empty)
}

// home is the place of the index that a hash names, which must not be empty.
func (t *Table) home(h uint64) int { return int(uint32(h)) & (len(t.index) - 1) }

// tag is what of a hash is kept in the index beside the slot's number.
func (t *Table) tag(h uint64) uint32 { return uint32(h>>32) &^ t.numbers }

func (t *Table) slot(i int) *slot { return &t.chunks[i/chunkSlots][i%chunkSlots] }

// find returns the bucket of p, nil when there is none.
func (t *Table) find(p Spot) *slot {
	if at := t.search(p); at >= 0 {
		return t.slot(int(t.index[at]&t.numbers) - 1)
	}
	return nil
}

// search returns the place of the index that names the bucket of p, -1 when
// there is none.
func (t *Table) search(p Spot) int {
	if t.n == 0 {
		return -1
	}
	mask, tag := len(t.index)-1, t.tag(p.hash)
	for at := t.home(p.hash); t.index[at] != 0; at = (at + 1) & mask {
		v := t.index[at]
		if v&^t.numbers == tag && v&t.numbers != 0 && t.slot(int(v&t.numbers)-1).is(p.Key) {
			return at
		}
	}
	return -1
}

// place is where the index names slot i.
func (t *Table) place(i int) int {
	s := t.slot(i)
	at := t.home(t.seed.hash(s.hi, s.lo, s.tag()))
	for int(t.index[at]&t.numbers)-1 != i {
		at = (at + 1) & (len(t.index) - 1)
	}
	return at
}

// insert adds a drained bucket for p, which has none, making room first.
func (t *Table) insert(p Spot, at int64) *slot {
	if t.n >= t.max {
		t.shed(at)
	}
	if t.n+t.tombs >= t.limit() {
		t.widen(at)
	}
	if t.n == len(t.chunks)*chunkSlots {
		t.stretch()
	}
	s := t.slot(t.n)
	*s = slot{hi: p.hi, lo: p.lo, empty: at, meta: uint64(p.Key.tag) << spanBits}
	t.enter(p.hash, t.n)
	t.n++
	return s
}

// enter names slot i in the index, which has room.
func (t *Table) enter(h uint64, i int) {
	at := t.home(h)
	for t.index[at]&t.numbers != 0 {
		at = (at + 1) & (len(t.index) - 1)
	}
	if t.index[at] != 0 {
		t.tombs--
	}
	t.index[at] = uint32(i+1) | t.tag(h)
}

// Delete empties the bucket of k; false when there was none.
func (t *Table) Delete(k Key) bool {
	at := t.search(t.seed.Spot(k))
	if at < 0 {
		return false
	}
	gone := t.index[at] & t.numbers
	t.bury(at)
	t.n--
	if last := t.n; last != int(gone)-1 { // it takes the place
		at := t.place(last)
		t.index[at] = t.index[at]&^t.numbers | gone
		*t.slot(int(gone) - 1) = *t.slot(last)
	}
	t.trim()
	return true
}

// bury leaves at a place of the index that its slot is gone: a search goes on
// behind it, and the next to come that way takes it.
func (t *Table) bury(at int) {
	t.index[at] = ^t.numbers
	t.tombs++
}
