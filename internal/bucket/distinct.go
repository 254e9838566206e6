package bucket

import (
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
	keys    map[Key]*ring
	values  map[pair]uint32
	nodes   []node // 0 is not used
	free    uint32
	cap     int
	maxKeys int
	max     int
	evicted uint64
}

type pair struct{ key, value Key }

// ring is the values of one key, linked from the latest to the oldest.
type ring struct {
	newest, oldest uint32
	n              int
	last           int64
}

type node struct {
	pair
	newer, older uint32
	count        int
	last         int64
}

// NewDistinct makes a Distinct of at most cap values a key (0: 1,024), so many
// keys (0: 65,536) and values altogether (0: 262,144; some 250 bytes each).
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
	}
	d.max = pick(maxValues, 1<<18, max(16, 2*d.cap))
	d.clear()
	return d
}

func (d *Distinct) clear() {
	d.keys, d.values, d.nodes, d.free = map[Key]*ring{}, map[pair]uint32{}, make([]node, 1), 0
}

// Len is the number of keys, Values of values of all keys, Evicted of values
// that still counted and had to go with their key.
func (d *Distinct) Len() int        { return len(d.keys) }
func (d *Distinct) Values() int     { return len(d.values) }
func (d *Distinct) Evicted() uint64 { return d.evicted }

// Cap is how many values of a key are told apart.
func (d *Distinct) Cap() int { return d.cap }

// Pour adds n events of value with key k at the instant at. It returns how
// many different values the window then holds, at most Cap, and whether that
// is more than Over. n of 0 or less only looks.
func (d *Distinct) Pour(k, value Key, at int64, n int, l Spread) (distinct int, breached bool) {
	if n <= 0 || k.tag == 0 || value.tag == 0 {
		return d.Count(k, at, l), false
	}
	at = clamp(at)
	r := d.keys[k]
	if r == nil {
		r = d.insert(k, at, l)
	}
	r.last = max(r.last, at)
	d.expire(r, r.last-l.within())
	p := pair{k, value}
	i, found := d.values[p]
	if found {
		d.unlink(r, i)
	} else {
		if len(d.values) >= d.max {
			d.shed(k, at, l)
		}
		if r.n >= d.cap {
			d.drop(r, r.oldest)
		}
		i = d.take(p)
	}
	d.nodes[i].count = min(d.nodes[i].count+n, 1<<30)
	d.nodes[i].last = r.last
	d.link(r, i)
	return r.n, r.n > l.Over
}

// Count is how many different values of k the window holds at the instant at.
func (d *Distinct) Count(k Key, at int64, l Spread) int {
	n := 0
	if r := d.keys[k]; r != nil {
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
	r := d.keys[k]
	if r == nil {
		return nil
	}
	var out []Value
	start := max(clamp(at), r.last) - l.within()
	for i := r.newest; i != 0 && d.nodes[i].last > start; i = d.nodes[i].older {
		if v := &d.nodes[i]; v.count >= each {
			out = append(out, Value{v.value, v.count, v.last})
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

func (d *Distinct) insert(k Key, at int64, l Spread) *ring {
	if len(d.keys) >= d.maxKeys {
		d.shed(Key{}, at, l)
	}
	r := &ring{last: at}
	d.keys[k] = r
	return r
}

// expire drops the values last seen at start or before.
func (d *Distinct) expire(r *ring, start int64) {
	for r.oldest != 0 && d.nodes[r.oldest].last <= start {
		d.drop(r, r.oldest)
	}
}

func (d *Distinct) take(p pair) uint32 {
	i := d.free
	if i != 0 {
		d.free = d.nodes[i].older
	} else {
		i = uint32(len(d.nodes))
		d.nodes = append(d.nodes, node{})
	}
	d.nodes[i] = node{pair: p}
	d.values[p] = i
	return i
}

func (d *Distinct) drop(r *ring, i uint32) {
	d.unlink(r, i)
	delete(d.values, d.nodes[i].pair)
	d.nodes[i] = node{older: d.free}
	d.free = i
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

// Delete forgets k and its values; false when it was not known.
func (d *Distinct) Delete(k Key) bool {
	r := d.keys[k]
	if r == nil {
		return false
	}
	for r.oldest != 0 {
		d.drop(r, r.oldest)
	}
	delete(d.keys, k)
	return true
}

// DeleteWithin forgets the keys of prefixes within p, and everywhere the
// values that are prefixes within p. It returns how many keys there were.
func (d *Distinct) DeleteWithin(p netip.Prefix) int {
	before, p := len(d.keys), p.Masked()
	if !p.IsValid() {
		return 0
	}
	for k, r := range d.keys {
		if k.within(p) {
			d.Delete(k)
			continue
		}
		for i := r.oldest; i != 0; {
			newer := d.nodes[i].newer
			if d.nodes[i].value.within(p) {
				d.drop(r, i)
			}
			i = newer
		}
	}
	return before - len(d.keys)
}

// Sweep forgets the keys that have no value at the instant at, and returns how
// many there were.
func (d *Distinct) Sweep(at int64, l Spread) int {
	before := len(d.keys)
	for k, r := range d.keys {
		if r.n == 0 || d.nodes[r.newest].last <= clamp(at)-l.within() {
			d.Delete(k)
		}
	}
	return before - len(d.keys)
}

// shed makes room: first go the keys without values, then, down to fifteen
// sixteenths of keys and values, those with the fewest, of them the longest
// silent. spare stays.
func (d *Distinct) shed(spare Key, at int64, l Spread) {
	order := make([]weighed, 0, len(d.keys))
	for k, r := range d.keys {
		d.expire(r, max(clamp(at), r.last)-l.within())
		if r.n == 0 && k != spare {
			d.Delete(k)
			continue
		}
		order = append(order, weighed{k, r.n, r.last})
	}
	mostKeys, most := d.maxKeys-max(d.maxKeys/16, 1), d.max/16*15
	if len(d.keys) <= mostKeys && len(d.values) <= most {
		return
	}
	slices.SortFunc(order, weighed.compare)
	for _, o := range order {
		if len(d.keys) <= mostKeys && len(d.values) <= most {
			return
		}
		if o.key != spare {
			d.evicted += uint64(o.count)
			d.Delete(o.key)
		}
	}
}
