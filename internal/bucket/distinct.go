package bucket

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Spread is a count of different values within a rolling window: more than
// Over values breach, so Over 10 breaches at the eleventh. Within of less than
// 1 ns counts as 1 ns.
type Spread struct {
	Over   int
	Within time.Duration
}

func (l Spread) within() int64 { return max(int64(l.Within), 1) }

// Value is one of the values that came up with a key.
type Value struct {
	Key   Key
	Count int   // events since it came up without ever falling out of the window
	Last  int64 // its latest event, Unix ns
}

// Distinct counts the different values that come up with a key within a
// rolling window. It is exact up to its cap of values a key; above, it counts
// as at least the cap, because the values kept are those seen latest. It is
// not safe for concurrent use.
type Distinct struct {
	rings   []ring   // 0 is not used
	index   []uint32 // the number of a key's ring, hashed and probed in line; 0: free
	seed    Seed
	unused  uint32           // the first free ring
	n       int              // keys
	many    map[named]uint32 // the values of keys with many
	nodes   []node           // 0 is not used
	free    uint32
	held    int // values
	cap     int
	maxKeys int
	max     int
	evicted uint64
}

// named is a value of the key of a ring.
type named struct {
	value Key
	ring  uint32
}

// ring is a key and its values, linked from the latest to the oldest. A free
// one has no key, and newest is the next free one.
type ring struct {
	key            Key
	newest, oldest uint32
	n              int32
	indexed        bool // its values are in many
	last           int64
}

// few values of a key are looked through; more are looked up.
const fewValues = 8

type node struct {
	named
	newer, older uint32
	mark         uint32 // of all its events, 0 when they had several or none
	count        int32
	last         int64
}

// NewDistinct makes a Distinct of at most cap values a key (0: 1,024), so many
// keys (0: 65,536) and values altogether (0: 262,144; some 80 bytes each).
func NewDistinct(valuesPerKey, maxKeys, maxValues int) *Distinct {
	pick := func(n, def, least int) int {
		if n <= 0 {
			n = def
		}
		return max(n, least)
	}
	d := &Distinct{
		cap:     min(pick(valuesPerKey, 1024, 1), MaxCount),
		maxKeys: pick(maxKeys, 1<<16, 16),
		seed:    NewSeed(rand.Uint64()), // no answer depends on it
	}
	d.max = pick(maxValues, 1<<18, max(16, 2*d.cap))
	d.clear()
	return d
}

func (d *Distinct) clear() {
	d.rings, d.index, d.unused, d.n = make([]ring, 1), nil, 0, 0
	d.many, d.nodes, d.free, d.held = map[named]uint32{}, make([]node, 1), 0, 0
}

// Len is the number of keys, Values of values of all keys, Evicted of values
// that still counted and had to go with their key.
func (d *Distinct) Len() int        { return d.n }
func (d *Distinct) Values() int     { return d.held }
func (d *Distinct) Evicted() uint64 { return d.evicted }

// Cap is how many values of a key are told apart.
func (d *Distinct) Cap() int { return d.cap }

// Pour adds n events of value with key k at the instant at. It returns how
// many different values the window then holds, at most Cap, and whether that
// is more than Over. n of 0 or less only looks.
func (d *Distinct) Pour(k, value Key, at int64, n int, l Spread) (distinct int, breached bool) {
	return d.PourMarked(k, value, 0, at, n, l)
}

// PourMarked is Pour of events with a mark, such as of the account they named.
// A value keeps it as long as all its events have the same; 0 is none.
func (d *Distinct) PourMarked(k, value Key, mark uint32, at int64, n int, l Spread) (distinct int, breached bool) {
	if n <= 0 || k.tag == 0 || value.tag == 0 {
		return d.Count(k, at, l), false
	}
	at = clamp(at)
	r := d.find(k)
	if r == nil {
		r = d.insert(k, at, l)
	}
	r.last = max(r.last, at)
	d.expire(r, r.last-l.within())
	i := d.lookup(r, value)
	if i != 0 {
		d.unlink(r, i)
	} else {
		if d.held >= d.max {
			d.shed(k, at, l)
		}
		if int(r.n) >= d.cap {
			d.drop(r, r.oldest)
		}
		i = d.take(r, value)
		d.nodes[i].mark = mark
	}
	v := &d.nodes[i]
	if v.mark != mark {
		v.mark = 0
	}
	v.count = int32(min(int(v.count)+n, 1<<30))
	v.last = r.last
	d.link(r, i)
	return int(r.n), int(r.n) > l.Over
}

// Count is how many different values of k the window holds at the instant at.
func (d *Distinct) Count(k Key, at int64, l Spread) int {
	n := 0
	if r := d.find(k); r != nil {
		start := max(clamp(at), r.last) - l.within()
		for i := r.newest; i != 0 && d.nodes[i].last > start; i = d.nodes[i].older {
			n++
		}
	}
	return n
}

// List gives the values of k that the window holds at the instant at, and that
// came up at least each times, those with most events first.
func (d *Distinct) List(k Key, at int64, l Spread, each int) []Value {
	r := d.find(k)
	if r == nil {
		return nil
	}
	var out []Value
	start := max(clamp(at), r.last) - l.within()
	for i := r.newest; i != 0 && d.nodes[i].last > start; i = d.nodes[i].older {
		if v := &d.nodes[i]; int(v.count) >= each {
			out = append(out, Value{v.value, int(v.count), v.last})
		}
	}
	slices.SortFunc(out, func(a, b Value) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return a.Key.compare(b.Key)
	})
	return out
}

// place is where the index names the ring of k, or else would.
func (d *Distinct) place(k Key) int {
	mask := len(d.index) - 1
	at := int(d.seed.hash(k.hi, k.lo, k.tag)) & mask
	for d.index[at] != 0 && d.rings[d.index[at]].key != k {
		at = (at + 1) & mask
	}
	return at
}

// find returns the ring of k, nil when there is none. It is valid until a key
// is added.
func (d *Distinct) find(k Key) *ring {
	if d.n == 0 {
		return nil
	}
	if i := d.index[d.place(k)]; i != 0 {
		return &d.rings[i]
	}
	return nil
}

// number is the number of a ring.
func (d *Distinct) number(r *ring) uint32 { return d.index[d.place(r.key)] }

func (d *Distinct) insert(k Key, at int64, l Spread) *ring {
	if d.n >= d.maxKeys {
		d.shed(Key{}, at, l)
	}
	return d.add(k, at)
}

// add adds a ring for k, which has none.
func (d *Distinct) add(k Key, at int64) *ring {
	if d.n >= len(d.index)/4*3 {
		d.index = make([]uint32, max(2*len(d.index), 64))
		for i := range d.rings {
			if d.rings[i].key.tag != 0 {
				d.index[d.place(d.rings[i].key)] = uint32(i)
			}
		}
	}
	i := d.unused
	if i != 0 {
		d.unused = d.rings[i].newest
	} else {
		i = uint32(len(d.rings))
		d.rings = append(d.rings, ring{})
	}
	d.index[d.place(k)] = i
	d.rings[i] = ring{key: k, last: at}
	d.n++
	return &d.rings[i]
}

// remove takes a ring without values away. Those behind it in the index move up.
func (d *Distinct) remove(r *ring) {
	mask, hole := len(d.index)-1, d.place(r.key)
	i := d.index[hole]
	for at := (hole + 1) & mask; d.index[at] != 0; at = (at + 1) & mask {
		k := d.rings[d.index[at]].key
		if home := int(d.seed.hash(k.hi, k.lo, k.tag)) & mask; (at-home)&mask >= (at-hole)&mask {
			d.index[hole], hole = d.index[at], at
		}
	}
	d.index[hole] = 0
	*r = ring{newest: d.unused}
	d.unused = i
	d.n--
}

// expire drops the values last seen at start or before.
func (d *Distinct) expire(r *ring, start int64) {
	for r.oldest != 0 && d.nodes[r.oldest].last <= start {
		d.drop(r, r.oldest)
	}
}

// lookup returns the number of a value of r, 0 when it is not there.
func (d *Distinct) lookup(r *ring, value Key) uint32 {
	if r.indexed {
		return d.many[named{value, d.number(r)}]
	}
	i := r.newest
	for i != 0 && d.nodes[i].value != value {
		i = d.nodes[i].older
	}
	return i
}

// take makes a node for a new value of r.
func (d *Distinct) take(r *ring, value Key) uint32 {
	i := d.free
	if i != 0 {
		d.free = d.nodes[i].older
	} else {
		i = uint32(len(d.nodes))
		d.nodes = append(d.nodes, node{})
	}
	d.nodes[i] = node{named: named{value, d.number(r)}}
	d.held++
	switch {
	case r.indexed:
		d.many[d.nodes[i].named] = i
	case r.n >= fewValues:
		r.indexed = true
		d.many[d.nodes[i].named] = i
		for o := r.newest; o != 0; o = d.nodes[o].older {
			d.many[d.nodes[o].named] = o
		}
	}
	return i
}

func (d *Distinct) drop(r *ring, i uint32) {
	d.unlink(r, i)
	if r.indexed {
		delete(d.many, d.nodes[i].named)
		r.indexed = r.n > 0
	}
	d.nodes[i] = node{older: d.free}
	d.free = i
	d.held--
}

func (d *Distinct) link(r *ring, i uint32) {
	v := &d.nodes[i]
	v.newer, v.older = 0, r.newest
	if r.newest != 0 {
		d.nodes[r.newest].newer = i
	} else {
		r.oldest = i
	}
	r.newest = i
	r.n++
}

func (d *Distinct) unlink(r *ring, i uint32) {
	v := &d.nodes[i]
	if v.newer != 0 {
		d.nodes[v.newer].older = v.older
	} else {
		r.newest = v.older
	}
	if v.older != 0 {
		d.nodes[v.older].newer = v.newer
	} else {
		r.oldest = v.newer
	}
	r.n--
}

// each calls f with the ring of every key. f may delete that key and no other.
func (d *Distinct) each(f func(r *ring)) {
	for i := range d.rings {
		if r := &d.rings[i]; r.key.tag != 0 {
			f(r)
		}
	}
}

// Delete forgets k and its values; false when it was not known.
func (d *Distinct) Delete(k Key) bool {
	r := d.find(k)
	if r != nil {
		d.forget(r)
	}
	return r != nil
}

func (d *Distinct) forget(r *ring) {
	for r.oldest != 0 {
		d.drop(r, r.oldest)
	}
	d.remove(r)
}

// DeleteMarked forgets a value of k if all its events had this mark, and reports
// whether it did. A mark of 0 is nobody's.
func (d *Distinct) DeleteMarked(k, value Key, mark uint32) bool {
	r := d.find(k)
	if r == nil || mark == 0 {
		return false
	}
	i := d.lookup(r, value)
	if i == 0 || d.nodes[i].mark != mark {
		return false
	}
	d.drop(r, i)
	return true
}

// DeleteValuesWithin forgets the values of k that are prefixes within p.
func (d *Distinct) DeleteValuesWithin(k Key, p netip.Prefix) {
	if r := d.find(k); r != nil {
		d.dropWithin(r, p)
	}
}

func (d *Distinct) dropWithin(r *ring, p netip.Prefix) {
	for i := r.oldest; i != 0; {
		newer := d.nodes[i].newer
		if d.nodes[i].value.within(p) {
			d.drop(r, i)
		}
		i = newer
	}
}

// DeleteWithin forgets the keys of prefixes within p, and everywhere the
// values that are prefixes within p. It returns how many keys there were.
func (d *Distinct) DeleteWithin(p netip.Prefix) int {
	before, p := d.n, p.Masked()
	if !p.IsValid() {
		return 0
	}
	d.each(func(r *ring) {
		if r.key.within(p) {
			d.forget(r)
		} else {
			d.dropWithin(r, p)
		}
	})
	return before - d.n
}

// Sweep forgets the keys that have no value at the instant at, and returns how
// many there were.
func (d *Distinct) Sweep(at int64, l Spread) int {
	before, start := d.n, clamp(at)-l.within()
	d.each(func(r *ring) {
		if r.n == 0 || d.nodes[r.newest].last <= start {
			d.forget(r)
		}
	})
	return before - d.n
}
