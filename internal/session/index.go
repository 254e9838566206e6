package session

// index finds a connection by its key: open addressing over a power of two of
// places, at most half full. A place holds the connection's number and one,
// and above it half of the key's hash, so that others' connections need not be
// looked at. It grows with what it holds.
type index struct {
	places []uint64
	n      int
}

const fewestPlaces = 64

// hashOf is the half of the hash that a place keeps; maxSessions is small
// enough for it to name every place.
func hashOf(key uint64) uint32 { return uint32((key * 0x9e3779b97f4a7c15) >> 32) }

func (x *index) home(hash uint32) int { return int(hash) & (len(x.places) - 1) }

// find returns the number of the connection of key.
func (x *index) find(key uint64, conns []conn) (int32, bool) {
	if x.n == 0 {
		return 0, false
	}
	hash := hashOf(key)
	for p := x.home(hash); x.places[p] != 0; p = (p + 1) & (len(x.places) - 1) {
		if v := x.places[p]; uint32(v>>32) == hash {
			if i := int32(uint32(v)) - 1; conns[i].key == key {
				return i, true
			}
		}
	}
	return 0, false
}

// put enters connection i of key, which is not in it yet.
func (x *index) put(i int32, key uint64) {
	if 2*x.n >= len(x.places) {
		old := x.places
		x.places = make([]uint64, max(2*len(old), fewestPlaces))
		for _, v := range old {
			if v != 0 {
				x.enter(v)
			}
		}
	}
	x.enter(uint64(hashOf(key))<<32 | uint64(i+1))
	x.n++
}

func (x *index) enter(v uint64) {
	p := x.home(uint32(v >> 32))
	for x.places[p] != 0 {
		p = (p + 1) & (len(x.places) - 1)
	}
	x.places[p] = v
}

// drop takes connection i of key out, and moves those up that it stood in the
// way of.
func (x *index) drop(i int32, key uint64) {
	mask := len(x.places) - 1
	hash := hashOf(key)
	gone := uint64(hash)<<32 | uint64(i+1)
	p := x.home(hash)
	for x.places[p] != gone {
		p = (p + 1) & mask
	}
	x.n--
	for q := (p + 1) & mask; x.places[q] != 0; q = (q + 1) & mask {
		// One that may not stand at p, because its own place is behind it, stays.
		home := x.home(uint32(x.places[q] >> 32))
		if (q-home)&mask >= (q-p)&mask {
			x.places[p] = x.places[q]
			p = q
		}
	}
	x.places[p] = 0
}
