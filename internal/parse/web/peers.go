package web

import "net/netip"

// What makes a peer look like a proxy: of a good number of requests lately it
// carried nearly all.
const (
	peerSlots   = 16
	peerEnough  = 1000
	peerShare   = 0.9
	peerHorizon = 1 << 16
)

// PeerCount finds a peer that carries nearly all traffic: probably a proxy
// whose clients are in a header that nobody told us of, so that a block would
// hit everybody. It keeps a fixed number of counters (Misra and Gries, 1982),
// so that a counter is too low by at most one part in seventeen of the total,
// never too high; old traffic weighs less and less. The zero value is ready.
type PeerCount struct {
	total uint64
	peers [peerSlots]struct {
		addr netip.Addr
		n    uint64
	}
}

// Add counts one request that addr delivered.
func (c *PeerCount) Add(addr netip.Addr) {
	c.total++
	free := -1
	for i := range c.peers {
		switch s := &c.peers[i]; {
		case s.n > 0 && s.addr == addr:
			s.n++
			c.age()
			return
		case s.n == 0:
			free = i
		}
	}
	if free >= 0 {
		c.peers[free].addr, c.peers[free].n = addr, 1
	} else {
		for i := range c.peers {
			c.peers[i].n--
		}
	}
	c.age()
}

// age halves all counts at the horizon, so that a proxy put in front of a
// server that ran for years is seen.
func (c *PeerCount) age() {
	if c.total < peerHorizon {
		return
	}
	c.total /= 2
	for i := range c.peers {
		c.peers[i].n /= 2
	}
}

// Suspect returns the peer that carries at least nine tenths of the requests,
// with a lower bound of its share, once there were enough of them to say so.
func (c *PeerCount) Suspect() (addr netip.Addr, share float64, ok bool) {
	if c.total < peerEnough {
		return netip.Addr{}, 0, false
	}
	for _, s := range c.peers {
		if part := float64(s.n) / float64(c.total); part > share {
			addr, share = s.addr, part
		}
	}
	if share < peerShare {
		return netip.Addr{}, 0, false
	}
	return addr, share, true
}
