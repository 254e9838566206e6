package bucket

import (
	"math"
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

// chunk is slots that were allocated together, and beside each how many events
// were poured since it was last empty. That number explains a breach and decides
// nothing, so it stops at its largest value.
type chunk struct {
	slots  [chunkSlots]slot
	poured [chunkSlots]uint16
}

// Table holds leaky buckets by key. It is not safe for concurrent use.
//
// Its slots lie close together in chunks, in the order in which they came; an
// index of four bytes a place, hashed and probed in line, tells the number of
// a key's slot. So a new bucket costs no moving of others, growing is one pass
// over the slots, and an empty table takes no memory.
type Table struct {
	chunks  []*chunk
	recent  int      // the slot found last
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
func (t *Table) Bytes() int { return len(t.chunks)*(chunkBytes+8) + 4*len(t.index) }

// Evicted counts the buckets that were not drained when they had to go.
func (t *Table) Evicted() uint64 { return t.evicted }

// Pour adds n events to the bucket of k at the instant at. It returns how many
// events the bucket then holds, begun ones counting whole, and whether that is
// more than its capacity. n of 0 or less only looks. The zero Key holds
// nothing.
func (t *Table) Pour(k Key, at int64, n int, l Limit) (level int, breached bool) {
	return t.PourHashed(t.seed.Hash(k), at, n, 1, l)
}

// PourHashed pours the given number of events, each weighing weight points, for a
// key that is hashed. The level it returns is in points.
func (t *Table) PourHashed(p HashedKey, at int64, n, weight int, l Limit) (level int, breached bool) {
	if n <= 0 || weight <= 0 || p.tag == 0 {
		return t.LevelHashed(p, at, l), false
	}
	at = clamp(at)
	i := t.find(p)
	known := i >= 0
	if !known {
		i = t.insert(p, at)
	}
	s := t.slot(i)
	now := max(at, s.last())
	held := max(s.empty-now, 0)
	t.count(i, n, held == 0)
	leak := l.leak()
	room := span(int64(l.Capacity), leak)
	add := span(int64(n)*int64(weight), leak)
	full := max(held, min(held+add, room+add, int64(MaxSpan)))
	s.empty = now + full
	s.meta = s.meta&^uint64(MaxSpan) | uint64(full)
	if t.latest = max(t.latest, s.empty); !known {
		t.soonest = min(t.soonest, s.empty)
	}
	return events(full, leak), full > room || full == int64(MaxSpan)
}

// Level is how many events the bucket of k holds at the instant at.
func (t *Table) Level(k Key, at int64, l Limit) int { return t.LevelHashed(t.seed.Hash(k), at, l) }

// LevelHashed is Level of a key that is hashed.
func (t *Table) LevelHashed(p HashedKey, at int64, l Limit) int {
	i := t.find(p)
	if i < 0 {
		return 0
	}
	s := t.slot(i)
	held := max(s.empty-max(clamp(at), s.last()), 0)
	return events(held, l.leak())
}

// Poured is how many events the bucket of k took since it was last empty, at
// most MaxPoured; events that have drained meanwhile count.
func (t *Table) Poured(k Key) int {
	i := t.find(t.seed.Hash(k))
	if i < 0 {
		return 0
	}
	return int(*t.poured(i))
}

// MaxPoured is the largest number that Poured tells apart from more.
const MaxPoured = math.MaxUint16

// count adds n events to what slot i took, which begins again once it was empty.
func (t *Table) count(i, n int, wasEmpty bool) {
	c := t.poured(i)
	if wasEmpty {
		*c = 0
	}
	*c = uint16(min(int(*c)+n, MaxPoured))
}

// Refill makes the bucket of k hold n events, or none, at the instant at, and
// no more than that; of the events it took at most n are remembered. The instant is kept: an event that comes late counts as
// being of then, as it would of what was taken out.
func (t *Table) Refill(k Key, at int64, n int, l Limit) {
	if k.tag == 0 {
		return
	}
	p, at := t.seed.Hash(k), clamp(at)
	i := t.find(p)
	if i < 0 {
		i = t.insert(p, at)
	}
	s := t.slot(i)
	c := t.poured(i)
	*c = uint16(min(int(*c), n))
	full := span(int64(n), l.leak())
	s.empty = at + full
	s.meta = s.meta&^uint64(MaxSpan) | uint64(full)
	t.soonest, t.latest = min(t.soonest, s.empty), max(t.latest, s.empty)
}

// home is the place of the index that a hash names, which must not be empty.
func (t *Table) home(h uint64) int { return int(uint32(h)) & (len(t.index) - 1) }

// tag is what of a hash is kept in the index beside the slot's number.
func (t *Table) tag(h uint64) uint32 { return uint32(h>>32) &^ t.numbers }

func (t *Table) slot(i int) *slot { return &t.chunks[i/chunkSlots].slots[i%chunkSlots] }

func (t *Table) poured(i int) *uint16 { return &t.chunks[i/chunkSlots].poured[i%chunkSlots] }

// move copies slot from over slot to.
func (t *Table) move(to, from int) {
	*t.slot(to), *t.poured(to) = *t.slot(from), *t.poured(from)
}

// Touch reads the place where a search for p begins, and returns what is there.
// Who is about to ask several tables touches all of them first: the reads do not
// wait for each other, as the searches would.
func (t *Table) Touch(p HashedKey) uint32 {
	if len(t.index) == 0 {
		return 0
	}
	return t.index[int(uint32(p.hash))&(len(t.index)-1)]
}

// TouchSlot reads, after Touch, the slot that the place names.
func (t *Table) TouchSlot(p HashedKey) uint32 {
	v := t.Touch(p)
	if v&t.numbers == 0 || v&^t.numbers != t.tag(p.hash) {
		return 0
	}
	return uint32(t.slot(int(v&t.numbers) - 1).lo)
}

// find returns the number of the bucket of p, -1 when there is none. Who asks for
// a level mostly pours next.
func (t *Table) find(p HashedKey) int {
	if t.recent < t.n && t.slot(t.recent).is(p.Key) {
		return t.recent
	}
	if at := t.search(p); at >= 0 {
		t.recent = int(t.index[at]&t.numbers) - 1
		return t.recent
	}
	return -1
}

// search returns the place of the index that names the bucket of p, -1 when
// there is none.
func (t *Table) search(p HashedKey) int {
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

// insert adds a drained bucket for p, which has none, making room first. It
// returns the bucket's number.
func (t *Table) insert(p HashedKey, at int64) int {
	if t.n >= t.max {
		t.shed(at)
	}
	if t.n+t.tombs >= t.limit() {
		t.widen(at)
	}
	if t.n == len(t.chunks)*chunkSlots {
		t.stretch()
	}
	i := t.n
	*t.slot(i), *t.poured(i) = slot{hi: p.hi, lo: p.lo, empty: at, meta: uint64(p.Key.tag) << spanBits}, 0
	t.enter(p.hash, i)
	t.n++
	return i
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
	at := t.search(t.seed.Hash(k))
	if at < 0 {
		return false
	}
	gone := t.index[at] & t.numbers
	t.bury(at)
	t.n--
	if last := t.n; last != int(gone)-1 { // it takes the place
		at := t.place(last)
		t.index[at] = t.index[at]&^t.numbers | gone
		t.move(int(gone)-1, last)
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

// Empty returns the instant at which the bucket of k will have drained; false when
// there is none.
func (t *Table) Empty(k Key) (int64, bool) {
	i := t.find(t.seed.Hash(k))
	if i < 0 {
		return 0, false
	}
	return t.slot(i).empty, true
}
