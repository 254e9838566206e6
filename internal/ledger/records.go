package ledger

import (
	"iter"
	"math/bits"
	"math/rand/v2"
)

// records holds the record of each prefix. Every event looks its prefix up, and
// most are of strangers: the places, hashed and probed in line, hold a sum of the
// prefix beside the record, so that a miss reads one place. The zero records is
// empty.
type records struct {
	places []place
	n      int
	seed   [2]uint64
}

// place holds nothing when r is nil.
type place struct {
	hash uint64
	r    *record
}

const fewestPlaces = 64

func (x *records) hash(k pkey) uint64 {
	a, b := bits.Mul64(k.hi^x.seed[0], k.lo^x.seed[1]^k.n<<48)
	a, b = bits.Mul64(a^b^x.seed[1], x.seed[0]^k.n)
	return a ^ b
}

// at is where k is, or else would be.
func (x *records) at(k pkey, hash uint64) int {
	mask := len(x.places) - 1
	at := int(hash) & mask
	for p := &x.places[at]; p.r != nil && (p.hash != hash || p.r.k != k); p = &x.places[at] {
		at = (at + 1) & mask
	}
	return at
}

// len is the number of records.
func (x *records) len() int { return x.n }

// get returns the record of k, nil when there is none.
func (x *records) get(k pkey) *record {
	if x.n == 0 {
		return nil
	}
	return x.places[x.at(k, x.hash(k))].r
}

// put adds r, or puts it in the place of the record of the same prefix.
func (x *records) put(r *record) {
	if x.n >= len(x.places)/4*3 {
		x.resize(max(2*len(x.places), fewestPlaces))
	}
	h := x.hash(r.k)
	p := &x.places[x.at(r.k, h)]
	if p.r == nil {
		x.n++
	}
	*p = place{h, r}
}

func (x *records) resize(places int) {
	if x.places == nil {
		x.seed = [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1} // strangers choose prefixes
	}
	old := x.places
	x.places = make([]place, places)
	for _, p := range old {
		if p.r != nil {
			x.places[x.at(p.r.k, p.hash)] = p
		}
	}
}

// delete takes the record of k out, if there is one. Those behind it move up.
func (x *records) delete(k pkey) {
	if x.n == 0 {
		return
	}
	mask, hole := len(x.places)-1, x.at(k, x.hash(k))
	if x.places[hole].r == nil {
		return
	}
	for at := (hole + 1) & mask; x.places[at].r != nil; at = (at + 1) & mask {
		if home := int(x.places[at].hash) & mask; (at-home)&mask >= (at-hole)&mask {
			x.places[hole], hole = x.places[at], at
		}
	}
	x.places[hole] = place{}
	if x.n--; len(x.places) > fewestPlaces && x.n < len(x.places)/8 {
		x.resize(len(x.places) / 2)
	}
}

// all gives every record, in no order. None may be added or deleted meanwhile.
func (x *records) all() iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for _, p := range x.places {
			if p.r != nil && !yield(p.r) {
				return
			}
		}
	}
}
