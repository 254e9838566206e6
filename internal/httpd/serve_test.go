package httpd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve runs s on a port of loopback until the test ends.
func serve(t *testing.T, s Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v, want nil after its context ended", err)
		}
	})
	return l.Addr().String()
}

// dialFrom connects from an address of loopback.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

var small = Limits{Conns: 6, PerHost: 2, Header: 4 << 10, Write: 10 * time.Second, Idle: time.Minute, Goodbye: time.Second}

// TestOneHostCannotShutOutOthers: over its share a host's connections are
// closed at once, while others are answered; a trusted one has no share.
func TestOneHostCannotShutOutOthers(t *testing.T) {
	var away atomic.Int32
	addr := serve(t, Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }),
		Limits:  small, TurnedAway: func() { away.Add(1) },
		Trusted: func(a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.9") },
	})
	for range 2 { // these say nothing, and stay
		dialFrom(t, "127.0.0.1", addr)
	}
	over := dialFrom(t, "127.0.0.1", addr)
	if _, err := over.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the third connection of a host: %v, want it closed", err)
	}
	if n := away.Load(); n != 1 {
		t.Errorf("turned away %d, want 1", n)
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.9", "127.0.0.9", "127.0.0.9"} {
		c := dialFrom(t, from, addr)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 200 {
			t.Errorf("from %s: %v", from, err)
		}
	}
	last := dialFrom(t, "127.0.0.3", addr)
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection over the whole: %v, want it closed", err)
	}
}

func TestBounded(t *testing.T) {
	b := newBounded(nil, Server{Limits: Limits{Conns: 3, PerHost: 2}})
	addr := func(s string) netip.Addr { return sameHost(netip.MustParseAddr(s)) }
	for _, x := range []struct {
		from string
		want bool
	}{{"192.0.2.1", true}, {"192.0.2.1", true}, {"192.0.2.1", false}, {"2001:db8::1", true}, {"192.0.2.2", false}} {
		if got := b.enter(addr(x.from), 2); got != x.want {
			t.Errorf("%s enters: %v, want %v", x.from, got, x.want)
		}
	}
	b.leave(addr("192.0.2.1"))
	if !b.enter(addr("2001:db8::2"), 2) || b.enter(addr("192.0.2.3"), 2) {
		t.Error("one left, so that one may enter")
	}
	b.leave(addr("192.0.2.1"))
	if b.enter(addr("2001:db8::3"), 2) {
		t.Error("a third of one /64 entered")
	}
	b.leave(addr("2001:db8::9"))
	b.leave(addr("2001:db8::9"))
	if b.open != 0 || len(b.by) != 0 {
		t.Errorf("all left: %d open, %v", b.open, b.by)
	}
}

func TestServeEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := (Server{Limits: small}).Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("a dead listener: %v, want an error with its address", err)
	}
}
