package bucket

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"
)

// MaxCount is the largest count that a Window or Distinct tells apart from
// more.
const MaxCount = 1 << 16

// Rolling is a count within a rolling window: more than Count events within
// Within breach, so Count 5 breaches at the sixth. Count over MaxCount-1
// counts as that; Within of less than 1 ns counts as 1 ns. Count may differ from
// pour to pour of a Window, Within may not.
type Rolling struct {
	Count  int
	Within time.Duration
}

// keep is how many of the latest events decide.
func (l Rolling) keep() int { return min(max(l.Count, 0), MaxCount-1) + 1 }

func (l Rolling) within() int64 { return max(int64(l.Within), 1) }

// Window counts events by key within a rolling window, exactly: the instants of
// the latest points are kept, 9 bytes each, as many as the count needs.
// An event of t is within the window at u while t > u − Within. It is not safe
// for concurrent use.
type Window struct {
	keys     map[Key]*series
	maxKeys  int
	maxBytes int
	bytes    int
	evicted  uint64
}

// series is the instants of one key's points, oldest first, in a ring, and which
// of them are the last of an event.
type series struct {
	at   []int64
	ends []bool
	head int
	n    int
	keep int   // the most that any pour asked to keep
	last int64 // the latest instant seen
}

// seriesBytes is what a key takes besides its instants, the map's slack
// included.
const seriesBytes = 184

// pointBytes is what a point takes.
const pointBytes = 9

// NewWindow makes a window of at most so many keys and bytes (0: 65,536 keys,
// 16 MiB).
func NewWindow(maxKeys, maxBytes int) *Window {
	if maxKeys <= 0 {
		maxKeys = 1 << 16
	}
	if maxBytes <= 0 {
		maxBytes = 16 << 20
	}
	return &Window{keys: map[Key]*series{}, maxKeys: max(maxKeys, 16), maxBytes: maxBytes}
}

// Len is the number of keys, Bytes about the memory they take, Evicted how
// many had to go while they still counted.
func (w *Window) Len() int        { return len(w.keys) }
func (w *Window) Bytes() int      { return w.bytes }
func (w *Window) Evicted() uint64 { return w.evicted }

// Pour adds n events of k at the instant at, each of weight points. It returns
// how many points the window then holds, at most Count plus weight, and whether that is
// more than Count. n or weight of 0 or less only looks.
func (w *Window) Pour(k Key, at int64, n, weight int, l Rolling) (points int, breached bool) {
	if n <= 0 || weight <= 0 || k.tag == 0 {
		return w.Count(k, at, l), false
	}
	at = clamp(at)
	s := w.keys[k]
	if s == nil {
		s = w.insert(k, at, l)
	}
	s.last = max(s.last, at)
	keep := min(l.keep()+weight-1, MaxCount)
	s.keep = max(s.keep, keep)
	s.expire(s.last - l.within())
	before := len(s.at)
	for i := min(n*weight, s.keep); i > 0; i-- {
		s.push(s.last, (i-1)%weight == 0)
	}
	w.bytes += pointBytes * (len(s.at) - before)
	// The key poured last is as new as can be: it stays whatever it takes.
	if w.bytes > w.maxBytes {
		w.shed(k, at, l)
	}
	points = min(s.n, keep)
	return points, points > l.keep()-1
}

// Events is how many events weighed the points that the window holds of k at the
// instant at.
func (w *Window) Events(k Key, at int64, l Rolling) int {
	s := w.keys[k]
	if s == nil {
		return 0
	}
	events := 0
	for i := s.n - s.count(max(clamp(at), s.last)-l.within()); i < s.n; i++ {
		if s.ends[(s.head+i)%len(s.at)] {
			events++
		}
	}
	return events
}

// Count is how many points of k the window holds at the instant at, at most
// Count+1.
func (w *Window) Count(k Key, at int64, l Rolling) int {
	s := w.keys[k]
	if s == nil {
		return 0
	}
	return min(s.count(max(clamp(at), s.last)-l.within()), l.keep())
}

func (w *Window) insert(k Key, at int64, l Rolling) *series {
	if len(w.keys) >= w.maxKeys {
		w.shed(Key{}, at, l)
	}
	s := &series{last: at}
	w.keys[k] = s
	w.bytes += seriesBytes
	return s
}

// count is how many instants are after start.
func (s *series) count(start int64) int {
	n := s.n
	for n > 0 && s.get(s.n-n) <= start {
		n--
	}
	return n
}

func (s *series) get(i int) int64 { return s.at[(s.head+i)%len(s.at)] }

// expire forgets the instants up to and including start.
func (s *series) expire(start int64) {
	for s.n > 0 && s.at[s.head] <= start {
		s.drop()
	}
}

func (s *series) drop() {
	s.head = (s.head + 1) % len(s.at)
	s.n--
}

// push adds the latest point, dropping the oldest beyond keep.
func (s *series) push(at int64, end bool) {
	if s.n == s.keep {
		s.drop()
	}
	if s.n == len(s.at) {
		s.resize(min(max(2*s.n, 4), s.keep))
	}
	i := (s.head + s.n) % len(s.at)
	s.at[i], s.ends[i] = at, end
	s.n++
}

func (s *series) resize(n int) {
	at, ends := make([]int64, n), make([]bool, n)
	for i := range s.n {
		at[i], ends[i] = s.get(i), s.ends[(s.head+i)%len(s.at)]
	}
	s.at, s.ends, s.head = at, ends, 0
}

// Sweep forgets the keys that count nothing at the instant at, and returns how
// many there were.
func (w *Window) Sweep(at int64, l Rolling) int {
	before := len(w.keys)
	for k, s := range w.keys {
		if s.n == 0 || s.get(s.n-1) <= clamp(at)-l.within() {
			w.Delete(k)
		}
	}
	return before - len(w.keys)
}

// Delete forgets k; false when it was not known.
func (w *Window) Delete(k Key) bool {
	s := w.keys[k]
	if s == nil {
		return false
	}
	w.bytes -= seriesBytes + pointBytes*len(s.at)
	delete(w.keys, k)
	return true
}

// DeleteWithin forgets the keys of prefixes within p, as Table does.
func (w *Window) DeleteWithin(p netip.Prefix) int {
	before, p := len(w.keys), p.Masked()
	for k := range w.keys {
		if p.IsValid() && k.within(p) {
			w.Delete(k)
		}
	}
	return before - len(w.keys)
}

// shed makes room: first go the keys that count nothing, then, down to fifteen
// sixteenths of keys and bytes, those that count least, of them the longest
// silent. spare stays.
func (w *Window) shed(spare Key, at int64, l Rolling) {
	w.Sweep(at, l)
	mostKeys, mostBytes := w.maxKeys-max(w.maxKeys/16, 1), w.maxBytes/16*15
	if len(w.keys) <= mostKeys && w.bytes <= mostBytes {
		return
	}
	order := make([]weighed, 0, len(w.keys))
	for k, s := range w.keys {
		order = append(order, weighed{k, s.count(max(clamp(at), s.last) - l.within()), s.last})
	}
	slices.SortFunc(order, weighed.compare)
	for _, o := range order {
		if len(w.keys) <= mostKeys && w.bytes <= mostBytes {
			return
		}
		if o.key != spare {
			w.Delete(o.key)
			w.evicted++
		}
	}
}

// weighed is a key with what decides whether it may stay.
type weighed struct {
	key   Key
	count int
	last  int64
}

func (a weighed) compare(b weighed) int {
	if c := cmp.Or(cmp.Compare(a.count, b.count), cmp.Compare(a.last, b.last)); c != 0 {
		return c
	}
	return a.key.compare(b.key)
}

// windowVersion 1 did not mark the last point of an event.
const windowVersion = 2

// AppendBinary appends the window to b.
func (w *Window) AppendBinary(b []byte) []byte {
	b = append(b, windowVersion)
	b = binary.LittleEndian.AppendUint64(b, w.evicted)
	b = binary.AppendUvarint(b, uint64(len(w.keys)))
	for k, s := range w.keys {
		b = binary.LittleEndian.AppendUint64(appendKey(b, k), uint64(s.last))
		b = binary.LittleEndian.AppendUint32(b, uint32(s.keep))
		b = binary.AppendUvarint(b, uint64(s.n))
		for i := range s.n {
			b = binary.LittleEndian.AppendUint64(b, uint64(s.get(i)))
			end := byte(0)
			if s.ends[(s.head+i)%len(s.at)] {
				end = 1
			}
			b = append(b, end)
		}
	}
	return b
}

// Restore replaces what the window holds by what AppendBinary wrote at the
// beginning of b and returns what follows. What is over the window's bounds
// goes at the next Pour. On an error the window is empty.
func (w *Window) Restore(b []byte) (rest []byte, err error) {
	r := reader{b: b}
	version := r.byte()
	keys, bytes, evicted := map[Key]*series{}, 0, r.uint64()
	for range r.count(30) {
		k, s := r.key(), &series{last: int64(r.uint64()), keep: r.uint32()}
		s.n = r.count(8)
		s.at, s.ends = make([]int64, s.n), make([]bool, s.n)
		for i := range s.at {
			s.at[i] = int64(r.uint64())
			s.ends[i] = version == 1 || r.byte() != 0
		}
		if s.n > s.keep || s.keep > MaxCount || !slices.IsSorted(s.at) || s.n > 0 && s.at[s.n-1] > s.last || s.last != clamp(s.last) {
			r.bad = true
		}
		keys[k] = s
	}
	for _, s := range keys {
		bytes += seriesBytes + pointBytes*len(s.at)
	}
	if r.bad || version == 0 || version > windowVersion {
		w.keys, w.bytes = map[Key]*series{}, 0
		return nil, errShort
	}
	w.keys, w.bytes, w.evicted = keys, bytes, evicted
	return r.b, nil
}
