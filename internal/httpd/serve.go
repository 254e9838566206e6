package httpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Limits bound a server. All of them must be set.
type Limits struct {
	// Conns is how many connections are open at once, PerHost how many of them
	// one host may hold (of IPv6, one /64). What is over is closed at once: a
	// proxy that waits is worse off than one that hears nothing. Unix sockets
	// know no hosts.
	Conns, PerHost int
	Header         int // bytes of a request's header
	// Write and Idle bound an answer and the time between requests. The header
	// of a request has 5 s, all of it 10 s.
	Write, Idle time.Duration
	Goodbye     time.Duration // for answers that run when the server ends
}

// Server is a handler with its limits.
type Server struct {
	Handler http.Handler
	Limits  Limits
	// Trusted peers may hold all connections; nil: nobody.
	Trusted func(netip.Addr) bool
	// TurnedAway, when set, is called for each connection closed because there
	// were too many.
	TurnedAway func()
	// ErrorLog gets what peers do wrong; nil: it is no news.
	ErrorLog *log.Logger
	// ConnContext is that of http.Server.
	ConnContext func(context.Context, net.Conn) context.Context
}

// Serve answers on l until ctx ends, then lets running answers end and returns
// nil. It closes l.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	if s.ErrorLog == nil {
		s.ErrorLog = log.New(io.Discard, "", 0)
	}
	srv := &http.Server{
		Handler: s.Handler, MaxHeaderBytes: s.Limits.Header,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: s.Limits.Write, IdleTimeout: s.Limits.Idle,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     s.ErrorLog, ConnContext: s.ConnContext,
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Limits.Goodbye)
		defer cancel()
		if srv.Shutdown(late) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(newBounded(l, s))
	if !stop() {
		<-ended
		return nil
	}
	return fmt.Errorf("serving on %s: %w", l.Addr(), errors.Join(err, srv.Close()))
}

// bounded is a listener that keeps the limits. Package netutil's blocks when
// it is full, and knows no hosts: one of them could shut all others out.
type bounded struct {
	net.Listener
	conns, each int
	trusted     func(netip.Addr) bool
	away        func()

	mu   sync.Mutex // guards the rest
	open int
	by   map[netip.Addr]int
}

func newBounded(l net.Listener, s Server) *bounded {
	b := &bounded{Listener: l, conns: s.Limits.Conns, each: s.Limits.PerHost, trusted: s.Trusted, away: s.TurnedAway, by: map[netip.Addr]int{}}
	if b.away == nil {
		b.away = func() {}
	}
	if b.trusted == nil {
		b.trusted = func(netip.Addr) bool { return false }
	}
	return b
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
			from = t.AddrPort().Addr().Unmap().WithZone("")
		}
		each := b.each
		if b.trusted(from) {
			each = b.conns
		}
		host := sameHost(from)
		if b.enter(host, each) {
			return &boundedConn{Conn: c, leave: func() { b.leave(host) }}, nil
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

func (b *bounded) enter(host netip.Addr, each int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open >= b.conns || host.IsValid() && b.by[host] >= each {
		return false
	}
	b.open++
	b.by[host]++
	return true
}

func (b *bounded) leave(host netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	if b.by[host]--; b.by[host] == 0 {
		delete(b.by, host)
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

// NetConn is the connection below, for what looks at its socket.
func (c *boundedConn) NetConn() net.Conn { return c.Conn }
