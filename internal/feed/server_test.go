package feed

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stoplog/internal/export"
)

// server is a Feed or a Check.
type server interface {
	Serve(ctx context.Context, l net.Listener) error
}

// tokenFile writes a file of one token.
func tokenFile(t testing.TB, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve runs Serve on a port of loopback until the test ends.
func serve(t testing.TB, h server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, h)
	return l.Addr().String()
}

func serveOn(t testing.TB, l net.Listener, h server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v, want nil after its context ended", err)
		}
	})
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// exchange sends text and reads one answer.
func exchange(t testing.TB, c net.Conn, text string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

const getList = "GET /blocklist.cidr HTTP/1.1\r\nHost: x\r\n\r\n"

func TestServe(t *testing.T) {
	var s Snapshot
	s.Set(block("192.0.2.0/28", time.Hour))
	addr := serve(t, newFeed(t, &s, Options{}))
	for range 2 { // the connection stays open
		resp := exchange(t, dial(t, addr), getList)
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "192.0.2.0/28\n" {
			t.Errorf("%q, %v", b, err)
		}
	}
	for text, want := range map[string]int{
		"GET /blocklist.cidr HTTP/1.1\r\n\r\n":                                                      400, // no Host
		"GET /blocklist.cidr HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n": 431,
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                                                     405,
		"\x16\x03\x01\x02\x00\r\n\r\n":                                                              400,
	} {
		if resp := exchange(t, dial(t, addr), text); resp.StatusCode != want {
			t.Errorf("%.40q: %d, want %d", text, resp.StatusCode, want)
		}
	}
}

// TestCheckTakesBigHeaders: proxies pass a client's cookies on, and a refusal
// of those would be a refusal of the client.
func TestCheckTakesBigHeaders(t *testing.T) {
	addr := serve(t, newCheck(t, &Snapshot{}, CheckOptions{}))
	resp := exchange(t, dial(t, addr), "GET /check HTTP/1.1\r\nHost: x\r\nX-Real-IP: 192.0.2.1\r\nCookie: "+strings.Repeat("x", 40<<10)+"\r\n\r\n")
	if resp.StatusCode != 204 {
		t.Errorf("%d, want 204", resp.StatusCode)
	}
}

// TestSlowReaders: eight readers that never read do not keep a ninth from
// another address waiting, and one more of their own is closed at once.
func TestSlowReaders(t *testing.T) {
	f := newFeed(t, filled(200_000), Options{})
	addr := serve(t, f)
	for range 8 {
		if _, err := io.WriteString(dial(t, addr), getList); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, addr)
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the ninth connection of an address: %v, want it closed", err)
	}
	if got := f.Counts().TurnedAway; got != 1 {
		t.Errorf("turned away %d, want 1", got)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	resp := exchange(t, other, getList)
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < 1_000_000 || n != resp.ContentLength {
		t.Errorf("the other reader got %d bytes, %v", n, err)
	}
}

// pipes is a listener of pipes, whose time is that of a bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipe"} }

// TestPatience measures how long the server bears with those who are slow, in
// the time of a bubble.
func TestPatience(t *testing.T) {
	for name, x := range map[string]struct {
		text     string
		swallow  int // bytes that are read every second
		min, max time.Duration
	}{
		"says nothing":       {"", 4096, 4 * time.Second, 11 * time.Second},
		"half a header":      {"GET /blocklist.cidr HTTP/1.1\r\nHost: x\r\nX: ", 4096, 4 * time.Second, 11 * time.Second},
		"idle":               {"HEAD /blocklist.cidr HTTP/1.1\r\nHost: x\r\n\r\n", 4096, 100 * time.Second, 130 * time.Second},
		"never reads":        {getList, 0, 10 * time.Second, 16 * time.Second},
		"reads drop by drop": {getList, 1, 10 * time.Second, 5*time.Minute + 16*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &pipes{make(chan net.Conn), make(chan struct{})}
				f := newFeed(t, filled(20_000), Options{})
				serveOn(t, l, f)
				client, server := net.Pipe()
				var reader sync.WaitGroup
				defer reader.Wait()
				defer client.Close()
				closed := make(chan time.Time, 1)
				l.conns <- noticed{server, closed}
				start := time.Now()
				if _, err := io.WriteString(client, x.text); err != nil {
					t.Fatal(err)
				}
				reader.Go(func() {
					for b := make([]byte, x.swallow); x.swallow > 0; time.Sleep(time.Second) {
						if _, err := client.Read(b); err != nil {
							return
						}
					}
				})
				defer func() {
					synctest.Wait() // the server closes before the handler knows
					if c := f.Counts(); (c.Slow == 1) != (x.text == getList) || (c.LastSlow != "") != (c.Slow == 1) {
						t.Errorf("counts %+v", c)
					}
				}()
				if took := (<-closed).Sub(start); took < x.min || took > x.max {
					t.Errorf("closed after %s, want %s to %s", took, x.min, x.max)
				}
			})
		})
	}
}

// noticed reports when it is closed.
type noticed struct {
	net.Conn
	closed chan<- time.Time
}

func (n noticed) Close() error {
	select {
	case n.closed <- time.Now():
	default:
	}
	return n.Conn.Close()
}

func TestServeEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := newFeed(t, &Snapshot{}, Options{}).Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("a dead listener: %v, want an error with its address", err)
	}
}

// TestByUnixSocket: whoever may open the socket is trusted.
func TestByUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "check.sock")
	var s Snapshot
	s.Set(block("192.0.2.0/28", time.Hour))
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, newCheck(t, &s, CheckOptions{Clients: prefixes("10.0.0.0/8")}))
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if resp := exchange(t, c, "GET /check HTTP/1.1\r\nHost: x\r\nX-Real-IP: 192.0.2.1\r\n\r\n"); resp.StatusCode != 403 {
		t.Errorf("by the socket: %d, want 403", resp.StatusCode)
	}
}

// BenchmarkCheckHTTP asks over connections that stay open, one a goroutine.
func BenchmarkCheckHTTP(b *testing.B) {
	s := filled(100_000)
	addr := serve(b, newCheck(b, s, CheckOptions{}))
	request := "GET /check HTTP/1.1\r\nHost: x\r\nX-Real-IP: 192.0.2.1\r\n\r\n"
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		buf := make([]byte, 4096)
		for pb.Next() {
			if _, err := io.WriteString(c, request); err != nil {
				b.Error(err)
				return
			}
			if n, err := c.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 204 ") {
				b.Errorf("%q, %v", buf[:n], err)
				return
			}
		}
	})
}

// BenchmarkFeed fetches a list of 100,000 that has not changed, and one that has.
func BenchmarkFeed(b *testing.B) {
	s := filled(100_000)
	f := newFeed(b, s, Options{})
	b.Run("same", func(b *testing.B) {
		for b.Loop() {
			ask(f, "GET", "/blocklist.txt", "127.0.0.1:1", "Accept-Encoding", "gzip")
		}
	})
	b.Run("changed", func(b *testing.B) {
		for b.Loop() {
			s.Set(export.Entry{Prefix: prefixes("192.0.2.0/28")[0], Until: time.Now().Add(time.Hour)})
			ask(f, "GET", "/blocklist.txt", "127.0.0.1:1", "Accept-Encoding", "gzip")
		}
	})
}
