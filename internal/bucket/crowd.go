package bucket

import (
	"math/bits"
	"slices"
)

// A flood of sources comes from somewhere: however many addresses somebody
// has, they lie in few networks. So a full table first looks for the networks
// that hold most of its buckets, and takes the emptiest of those; whoever else
// is filling stays, however full the flood's buckets are. Only when no
// networks stand out, the emptiest of all go.

// scale is how coarsely networks are told apart.
type scale struct {
	v4, v6 int // bits that are cut off: of an IPv4 address, of the first 64 of IPv6
	least  int // of so many buckets, a network stands out
}

// scales are tried in this order: /20 and /48, then /12 and /32.
var scales = [...]scale{{12, 16, 8}, {20, 32, 64}}

// network names the network that a bucket's key lies in; false for keys that
// name no prefix, which anybody can choose.
func (c scale) network(s *slot) (uint64, bool) {
	switch tag := s.tag(); {
	case tag >= tagText:
		return 0, false
	case tag == tagPairV4:
		return s.hi>>c.v4 | 1<<63, true
	case tag >= tagV4 && tag < tagPairV4:
		return s.lo>>c.v4 | 1<<63, true
	}
	return s.hi >> c.v6, true // the highest bit is free, c.v6 being more than 0
}

// crowd is the slots of the networks that stand out when n are to go: those of
// more buckets than every network could keep. Nil when none stand out.
func (t *Table) crowd(n int) (set, int) {
	for _, c := range scales {
		s := t.census(c)
		share := s.share(n)
		if share < c.least {
			continue
		}
		if in, size := t.crowded(s, share); size >= n {
			return in, size
		}
	}
	return nil, t.n
}

// census is how many buckets each network has. Networks may meet in a cell, by
// a function that does not depend on the seed, for neither may what goes.
type census struct {
	scale
	cells []cell
}

type cell struct {
	network uint64 // the first
	count   uint32 // of all
	mixed   bool   // there are others
}

// cellsFor is how many cells there are for so many buckets.
func cellsFor(n int) int { return 1 << min(max(bits.Len(uint(n)), 12), 20) }

func (s *census) at(network uint64) *cell {
	hi, lo := bits.Mul64(network^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return &s.cells[int((hi^lo)*0xbf58476d1ce4e5b9>>40)&(len(s.cells)-1)]
}

func (t *Table) census(c scale) *census {
	s := &census{c, make([]cell, cellsFor(t.n))}
	t.all(func(b *slot) {
		if g, ok := c.network(b); ok {
			x := s.at(g)
			if x.count++; x.count == 1 {
				x.network = g
			}
			x.mixed = x.mixed || x.network != g
		}
	})
	return s
}

// share is the most that each network can keep when n buckets go from those
// that have more; 0 when less than what makes a network stand out.
func (s *census) share(n int) int {
	var counts []int
	over := 0
	for i := range s.cells {
		if k := int(s.cells[i].count); k > s.least {
			counts = append(counts, k)
			over += k - s.least
		}
	}
	if over < n {
		return 0
	}
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	sum := 0 // of the largest
	for i, k := range counts {
		sum += k
		next := s.least
		if i+1 < len(counts) {
			next = counts[i+1]
		}
		if sum-(i+1)*next >= n { // the others keep all they have
			return (sum - n) / (i + 1)
		}
	}
	return 0
}

// crowded lists the slots of networks that have more than share buckets, and
// how many they are. One that only shares its cell with such a network is not
// among them: otherwise whoever finds two that meet could drag a stranger in.
func (t *Table) crowded(s *census, share int) (in set, size int) {
	exact := map[uint64]int{} // of networks that meet
	t.all(func(b *slot) {
		if g, ok := s.network(b); ok {
			if x := s.at(g); x.mixed && int(x.count) > share {
				exact[g]++
			}
		}
	})
	in = make(set, (t.n+63)/64)
	t.each(nil, func(i int, b *slot) {
		g, ok := s.network(b)
		if !ok {
			return
		}
		if x := s.at(g); int(x.count) > share && (!x.mixed || exact[g] > share) {
			in[i/64] |= 1 << (i % 64)
			size++
		}
	})
	return in, size
}
