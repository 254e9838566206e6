package replay

import "hash/maphash"

// table finds values by their keys. Beside the number of a value, its index holds
// half of the key's hash, so that a search for a key that is not there mostly
// reads one place; values stay where they are, and hold no pointers that a
// collection of garbage would follow. It never forgets.
type table[K comparable, V any] struct {
	seed   maphash.Seed
	places []uint64 // 0: free; else a value's number and one, below half a hash
	pages  []*[pageValues]entry[K, V]
	n      int
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

const pageValues = 256

func newTable[K comparable, V any]() *table[K, V] {
	return &table[K, V]{seed: maphash.MakeSeed(), places: make([]uint64, 1024)}
}

// at is the value of a number.
func (t *table[K, V]) at(i uint32) *entry[K, V] {
	return &t.pages[i/pageValues][i%pageValues]
}

// place is where k is, or else would be.
func (t *table[K, V]) place(k K) (at int, hash uint64) {
	hash = maphash.Comparable(t.seed, k) &^ (1<<32 - 1)
	mask := len(t.places) - 1
	for at = int(hash>>32) & mask; t.places[at] != 0; at = (at + 1) & mask {
		if v := t.places[at]; v&^(1<<32-1) == hash && t.at(uint32(v)-1).key == k {
			break
		}
	}
	return at, hash
}

// find returns the number and the value of k; nil when there is none.
func (t *table[K, V]) find(k K) (number uint32, v *V) {
	at, _ := t.place(k)
	if t.places[at] == 0 {
		return 0, nil
	}
	number = uint32(t.places[at]) - 1
	return number, &t.at(number).value
}

// add adds a zero value for k, which has none.
func (t *table[K, V]) add(k K) (number uint32, v *V) {
	if t.n >= len(t.places)/4*3 {
		t.grow()
	}
	if t.n == len(t.pages)*pageValues {
		t.pages = append(t.pages, new([pageValues]entry[K, V]))
	}
	at, hash := t.place(k)
	number = uint32(t.n)
	t.n++
	t.places[at] = hash | uint64(number) + 1
	e := t.at(number)
	e.key = k
	return number, &e.value
}

func (t *table[K, V]) grow() {
	old := t.places
	t.places = make([]uint64, 2*len(old))
	mask := len(t.places) - 1
	for _, v := range old {
		if v == 0 {
			continue
		}
		at := int(v>>32) & mask
		for t.places[at] != 0 {
			at = (at + 1) & mask
		}
		t.places[at] = v
	}
}
