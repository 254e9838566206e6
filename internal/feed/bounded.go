package feed

import (
	"net"
	"net/netip"
	"sync"
)

// bounded is a listener that has at most so many connections open at once,
// and so many of one address. It closes those that are over.
type bounded struct {
	net.Listener
	conns, each int
	away        func() // is told of each that is closed

	mu   sync.Mutex // guards the rest
	open int
	by   map[netip.Addr]int
}

func newBounded(l net.Listener, conns, each int) *bounded {
	return &bounded{Listener: l, conns: conns, each: each, away: func() {}, by: map[netip.Addr]int{}}
}

// Accept waits for a connection that there is room for.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var from netip.Addr // of a unix socket: none
		if t, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			from = sameHost(t.AddrPort().Addr().Unmap())
		}
		if b.enter(from) {
			return &boundedConn{Conn: c, leave: func() { b.leave(from) }}, nil
		}
		c.Close()
		b.away()
	}
}

// sameHost is equal for the addresses that one host can choose from.
func sameHost(a netip.Addr) netip.Addr {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

func (b *bounded) enter(from netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open >= b.conns || from.IsValid() && b.by[from] >= b.each {
		return false
	}
	b.open++
	b.by[from]++
	return true
}

func (b *bounded) leave(from netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	if b.by[from]--; b.by[from] == 0 {
		delete(b.by, from)
	}
}

type boundedConn struct {
	net.Conn
	once  sync.Once
	leave func()
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.leave)
	return err
}
