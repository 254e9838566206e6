package ledger

import (
	"iter"
	"math/bits"
	"math/rand/v2"
)

// records holds the record of each prefix. Every event looks its prefix up, and
// most are of strangers: the places, hashed and probed in line, hold half of the
// prefix's hash beside the number of the record, so that a miss reads one place.
// Records lie in pages and stay where they are until they are deleted. The zero
// records is empty.
type records struct {
	places []uint64 // 0: free; else a record's number and one, below half a hash
	pages  []*[pageRecords]record
	used   []uint64 // a bit for each record of a page; a page of none is given back
	space  int      // no page before it has room
	n      int
	seed   [2]uint64
}

const (
	fewestPlaces = 64
	pageRecords  = 36 // a page of memory; at most as many as bits of a word
	fullPage     = 1<<pageRecords - 1
	numberMask   = 1<<32 - 1
)

// hash is half a hash in the high half of a word.
func (x *records) hash(k pkey) uint64 {
	a, b := bits.Mul64(k.hi^x.seed[0], k.lo^x.seed[1]^k.n<<48)
	a, b = bits.Mul64(a^b^x.seed[1], x.seed[0]^k.n)
	return (a ^ b) &^ numberMask
}

// home is the place that a hash names.
func (x *records) home(hash uint64) int { return int(hash>>32) & (len(x.places) - 1) }

// of is the record that a place names.
func (x *records) of(place uint64) *record {
	i := uint32(place) - 1
	return &x.pages[i/pageRecords][i%pageRecords]
}

// at is where k is, or else would be.
func (x *records) at(k pkey, hash uint64) int {
	mask := len(x.places) - 1
	at := x.home(hash)
	for p := x.places[at]; p != 0 && (p&^numberMask != hash || x.of(p).k != k); p = x.places[at] {
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
	if p := x.places[x.at(k, x.hash(k))]; p != 0 {
		return x.of(p)
	}
	return nil
}

// add makes a record for k, which has none. It is zero but for its prefix.
func (x *records) add(k pkey) *record {
	if x.n >= len(x.places)/4*3 {
		x.resize(max(2*len(x.places), fewestPlaces))
	}
	number := x.take()
	h := x.hash(k)
	place := h | uint64(number) + 1
	x.places[x.at(k, h)] = place
	x.n++
	r := x.of(place)
	r.k = k
	return r
}

// take returns the number of a record that is not used.
func (x *records) take() uint32 {
	for x.space < len(x.used) && x.used[x.space] == fullPage {
		x.space++
	}
	if x.space == len(x.pages) {
		x.pages, x.used = append(x.pages, nil), append(x.used, 0)
	}
	if x.pages[x.space] == nil {
		x.pages[x.space] = new([pageRecords]record)
	}
	bit := bits.TrailingZeros64(^x.used[x.space])
	x.used[x.space] |= 1 << bit
	return uint32(x.space*pageRecords + bit)
}

// drop empties a record and gives its page back when it was the last there.
func (x *records) drop(number uint32) {
	page, bit := int(number/pageRecords), number%pageRecords
	x.pages[page][bit] = record{}
	x.used[page] &^= 1 << bit
	if x.space = min(x.space, page); x.used[page] == 0 {
		x.pages[page] = nil
	}
}

func (x *records) resize(places int) {
	if x.places == nil {
		x.seed = [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1} // strangers choose prefixes
	}
	old := x.places
	x.places = make([]uint64, places)
	for _, p := range old {
		if p == 0 {
			continue
		}
		at := x.home(p)
		for x.places[at] != 0 {
			at = (at + 1) & (places - 1)
		}
		x.places[at] = p
	}
}

// delete takes the record of k out, if there is one. Those behind it in the
// places move up. The record must not be used afterwards.
func (x *records) delete(k pkey) {
	if x.n == 0 {
		return
	}
	mask, hole := len(x.places)-1, x.at(k, x.hash(k))
	gone := x.places[hole]
	if gone == 0 {
		return
	}
	x.drop(uint32(gone) - 1)
	for at := (hole + 1) & mask; x.places[at] != 0; at = (at + 1) & mask {
		if home := x.home(x.places[at]); (at-home)&mask >= (at-hole)&mask {
			x.places[hole], hole = x.places[at], at
		}
	}
	x.places[hole] = 0
	if x.n--; len(x.places) > fewestPlaces && x.n < len(x.places)/8 {
		x.resize(len(x.places) / 2)
	}
}

// all gives every record, in no order. None may be added or deleted meanwhile.
func (x *records) all() iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for _, p := range x.places {
			if p != 0 && !yield(x.of(p)) {
				return
			}
		}
	}
}
