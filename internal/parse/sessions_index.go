package parse

// index finds a connection by its key: open addressing over a power of two of
// places, at most half full, which hold the connection's number and one. Keys
// are hashes already. It grows with what it holds.
type index struct {
	places []int32
	n      int
}

const fewestPlaces = 64

func (x *index) place(key uint64) int {
	return int((key * 0x9e3779b97f4a7c15) >> 32 & uint64(len(x.places)-1))
}

// find returns the number of the connection of key.
func (x *index) find(key uint64, conns []conn) (int32, bool) {
	if x.n == 0 {
		return 0, false
	}
	for p := x.place(key); x.places[p] != 0; p = (p + 1) & (len(x.places) - 1) {
		if i := x.places[p] - 1; conns[i].key == key {
			return i, true
		}
	}
	return 0, false
}

// put enters connection i, whose key is not in it yet.
func (x *index) put(i int32, conns []conn) {
	if 2*(x.n+1) > len(x.places) {
		old := x.places
		x.places = make([]int32, max(2*len(old), fewestPlaces))
		for _, v := range old {
			if v != 0 {
				x.enter(v-1, conns)
			}
		}
	}
	x.enter(i, conns)
	x.n++
}

func (x *index) enter(i int32, conns []conn) {
	p := x.place(conns[i].key)
	for x.places[p] != 0 {
		p = (p + 1) & (len(x.places) - 1)
	}
	x.places[p] = i + 1
}

// drop takes connection i out, and moves those up that it stood in the way of.
func (x *index) drop(i int32, conns []conn) {
	mask := len(x.places) - 1
	p := x.place(conns[i].key)
	for x.places[p] != i+1 {
		p = (p + 1) & mask
	}
	x.n--
	for q := (p + 1) & mask; x.places[q] != 0; q = (q + 1) & mask {
		// One that may not stand at p, because its own place is behind it, stays.
		home := x.place(conns[x.places[q]-1].key)
		if (q-home)&mask >= (q-p)&mask {
			x.places[p] = x.places[q]
			p = q
		}
	}
	x.places[p] = 0
}
