package session

import (
	"net/netip"
	"stoplog/internal/parse"
)

// conn is one connection, in less than a line of a processor's cache and with
// no pointer; prev and next link the order of speaking. What few connections
// have is kept apart.
type conn struct {
	key        uint64
	at         int64    // of its last line, Unix ns
	ip         [16]byte // as told by is
	counted    uint32   // attempts that were counted
	prev, next int32
	n          [fewClasses]uint32 // attempts that the first classes told of
	class      [fewClasses]uint8
	is         uint8
}

// What is known of a connection.
const (
	hasV4    = 1 << iota // an address, IPv4
	hasV6                // or IPv6
	probed               // a probe was counted
	nameless             // a line without an address told of a probe
	hasMore
	failed   // a failure was counted
	admitted // somebody logged in
)

const (
	// fewClasses is how many ways of telling most connections come by with.
	fewClasses = 2
	maxClasses = 8
)

// more is what few connections have.
type more struct {
	user  []byte // never written to
	n     [maxClasses - fewClasses]uint32
	class [maxClasses - fewClasses]uint8
}

func (c *conn) addr() netip.Addr {
	switch {
	case c.is&hasV4 != 0:
		return netip.AddrFrom4([4]byte(c.ip[:4]))
	case c.is&hasV6 != 0:
		return netip.AddrFrom16(c.ip)
	}
	return netip.Addr{}
}

// learn notes the connection's address.
func (c *conn) learn(a netip.Addr) {
	c.is &^= hasV4 | hasV6
	switch {
	case a.Is4():
		b := a.As4()
		copy(c.ip[:], b[:])
		c.is |= hasV4
	case a.IsValid():
		c.ip = a.As16()
		c.is |= hasV6
	}
}

func (c *conn) countProbe(ev *parse.Event) {
	switch {
	case !ev.Addr.IsValid():
		ev.Count = 0
		c.is |= nameless
	case c.is&probed != 0 || c.counted > 0:
		ev.Count = 0
	default:
		ev.Count = 1
		c.is = c.is&^nameless | probed
	}
}

// moreOf gives what else is known of connection i, to be written to.
func (s *Joiner) moreOf(i int32) *more {
	if s.conns[i].is&hasMore == 0 {
		s.more[i] = &more{}
		s.conns[i].is |= hasMore
	}
	return s.more[i]
}

// forget begins connection i again.
func (s *Joiner) forget(i int32) {
	c := &s.conns[i]
	if c.is&hasMore != 0 {
		delete(s.more, i)
	}
	*c = conn{key: c.key, at: c.at, prev: c.prev, next: c.next}
}

// tally returns how many attempts the k-th class of lines told of.
func (s *Joiner) tally(i int32, k int) (class uint8, n uint32) {
	c := &s.conns[i]
	switch {
	case k < fewClasses:
		return c.class[k], c.n[k]
	case c.is&hasMore == 0 || k >= maxClasses:
		return 0, 0
	}
	m := s.more[i]
	return m.class[k-fewClasses], m.n[k-fewClasses]
}

func (s *Joiner) setTally(i int32, k int, class uint8, n uint32) {
	if k < fewClasses {
		s.conns[i].class[k], s.conns[i].n[k] = class, n
		return
	}
	m := s.moreOf(i)
	m.class[k-fewClasses], m.n[k-fewClasses] = class, n
}

// add tallies n attempts of class. Beyond eight classes the last is shared.
func (s *Joiner) add(i int32, class uint8, n uint32) {
	for k := range maxClasses {
		was, sum := s.tally(i, k)
		if sum > 0 && was != class && k < maxClasses-1 {
			continue
		}
		if class >= parse.ClassOnce {
			sum = max(sum, 1)
		} else {
			sum = min(sum+n, 1<<30)
		}
		s.setTally(i, k, class, sum)
		return
	}
}

// most is the largest tally.
func (s *Joiner) most(i int32) uint32 {
	c := &s.conns[i]
	m := max(c.n[0], c.n[1])
	if c.is&hasMore != 0 {
		for _, n := range s.more[i].n {
			m = max(m, n)
		}
	}
	return m
}
