package bucket

import (
	"encoding/binary"
	"errors"
	"slices"
)

// errShort is of saved bytes that end too early or make no sense. Whoever
// stores them checks their sum; this only keeps a bug from becoming a panic.
var errShort = errors.New("saved buckets are corrupt")

// tableVersion 1 lacked the number of events poured.
const tableVersion = 2

// SavedBytes is how many bytes AppendBinary appends for each bucket.
const SavedBytes = slotBytes + 2

// AppendBinary appends the table to b: a version, the number of buckets, and
// SavedBytes each. It can be restored into a table of any seed and maximum.
func (t *Table) AppendBinary(b []byte) []byte {
	b = append(b, tableVersion)
	b = binary.LittleEndian.AppendUint64(b, t.evicted)
	b = binary.AppendUvarint(b, uint64(t.n))
	b = slices.Grow(b, t.n*SavedBytes)
	for i := range t.n {
		s := t.slot(i)
		for _, w := range [...]uint64{s.hi, s.lo, uint64(s.empty), s.meta} {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		b = binary.LittleEndian.AppendUint16(b, *t.poured(i))
	}
	return b
}

// Restore replaces the table's buckets by those that AppendBinary wrote at
// the beginning of b and returns what follows them. Buckets beyond the
// table's maximum go as they would in a flood. On an error the table is empty.
func (t *Table) Restore(b []byte) (rest []byte, err error) {
	t.Reset()
	r := reader{b: b}
	version := r.byte()
	if version == 0 || version > tableVersion {
		return nil, errShort
	}
	evicted, n := r.uint64(), r.count(slotBytes)
	if r.bad {
		return nil, errShort
	}
	for range n {
		s := slot{r.uint64(), r.uint64(), int64(r.uint64()), r.uint64()}
		if s.meta>>spanBits == 0 || s.empty != clampEmpty(s.empty) {
			t.Reset()
			return nil, errShort
		}
		poured := uint16(1)
		if version > 1 {
			poured = r.uint16()
		}
		p := t.seed.Hash(s.key())
		to := t.find(p)
		if to < 0 {
			to = t.insert(p, -maxAt)
		}
		*t.slot(to), *t.poured(to) = s, poured
		t.soonest, t.latest = min(t.soonest, s.empty), max(t.latest, s.empty)
	}
	t.evicted = evicted
	return r.b, nil
}

// clampEmpty bounds what Pour can have stored.
func clampEmpty(e int64) int64 { return min(max(e, -maxAt), maxAt+int64(MaxSpan)) }

// Bucket is one bucket as Fullest shows it.
type Bucket struct {
	Key   Key
	Empty int64 // when it would be empty, Unix ns
	Last  int64 // when it was last poured
}

// Fullest gives the n buckets that take longest to drain, the fullest first,
// leaving out the drained.
func (t *Table) Fullest(n int, at int64) []Bucket {
	if n <= 0 || t.n == 0 {
		return nil
	}
	first := slot{empty: -maxAt - 1}
	if n < t.n {
		first = t.nth(t.n-n+1, nil, t.n)
	}
	var out []Bucket
	t.all(func(s *slot) {
		if s.empty > at && compareSlots(s, &first) >= 0 {
			out = append(out, Bucket{s.key(), s.empty, s.last()})
		}
	})
	slices.SortFunc(out, func(a, b Bucket) int {
		if a.Empty != b.Empty {
			if a.Empty > b.Empty {
				return -1
			}
			return 1
		}
		return a.Key.compare(b.Key)
	})
	return out
}

// Range calls f with every bucket, in no set order, until it returns false.
// f must not change the table.
func (t *Table) Range(f func(Bucket) bool) {
	for i := range t.n {
		if s := t.slot(i); !f(Bucket{s.key(), s.empty, s.last()}) {
			return
		}
	}
}

// reader takes saved values off the front of b. After the first that is not
// there it is bad and gives zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) byte() byte {
	if p := r.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if p := r.take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if p := r.take(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

func (r *reader) uint32() int {
	if p := r.take(4); p != nil {
		return int(binary.LittleEndian.Uint32(p))
	}
	return 0
}

// count reads a number of things of at least size bytes each, which must be
// able to follow.
func (r *reader) count(size int) int {
	v, n := binary.Uvarint(r.b)
	if r.take(max(n, -1)); n <= 0 || r.bad || v > uint64(len(r.b)/size) {
		r.bad = true
		return 0
	}
	return int(v)
}

func (r *reader) key() Key {
	k := Key{hi: r.uint64(), lo: r.uint64(), tag: r.byte()}
	r.bad = r.bad || k.tag == 0
	return k
}

func appendKey(b []byte, k Key) []byte {
	b = binary.LittleEndian.AppendUint64(b, k.hi)
	b = binary.LittleEndian.AppendUint64(b, k.lo)
	return append(b, k.tag)
}
