package metrics

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWhoMayScrape(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if err := os.WriteFile(good, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nets := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for _, c := range []struct {
		name, peer, method, path, auth string
		opt                            Options
		want                           int
	}{
		{"open", "192.0.2.1:99", "GET", "/metrics", "", Options{}, 200},
		{"HEAD", "192.0.2.1:99", "HEAD", "/metrics", "", Options{}, 200},
		{"POST", "192.0.2.1:99", "POST", "/metrics", "", Options{}, 405},
		{"elsewhere", "192.0.2.1:99", "GET", "/", "", Options{}, 404},
		{"a client", "192.0.2.1:99", "GET", "/metrics", "", Options{Clients: nets}, 200},
		{"a mapped client", "[::ffff:192.0.2.1]:99", "GET", "/metrics", "", Options{Clients: nets}, 200},
		{"a client by IPv6", "[2001:db8::1%eth0]:99", "GET", "/metrics", "", Options{Clients: nets}, 200},
		{"no client", "198.51.100.1:99", "GET", "/metrics", "", Options{Clients: nets}, 403},
		{"no address", "@", "GET", "/metrics", "", Options{Clients: nets}, 403},
		{"a unix socket", "@", "GET", "/metrics", "", Options{Clients: nets}, 200},
		{"the token", "192.0.2.1:99", "GET", "/metrics", "Bearer s3cret", Options{TokenFile: good}, 200},
		{"its scheme in small letters", "192.0.2.1:99", "GET", "/metrics", "bearer s3cret", Options{TokenFile: good}, 200},
		{"no token", "192.0.2.1:99", "GET", "/metrics", "", Options{TokenFile: good}, 401},
		{"a wrong one", "192.0.2.1:99", "GET", "/metrics", "Bearer s3cre", Options{TokenFile: good}, 401},
		{"another scheme", "192.0.2.1:99", "GET", "/metrics", "Basic s3cret", Options{TokenFile: good}, 401},
		{"the token, but no client", "198.51.100.1:99", "GET", "/metrics", "Bearer s3cret", Options{TokenFile: good, Clients: nets}, 403},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.RemoteAddr = c.peer
		r.Header.Set("Authorization", c.auth)
		if c.name == "a unix socket" {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{}))
		}
		w := httptest.NewRecorder()
		h, err := Handler(fixed(full(), nil), c.opt)
		if err != nil {
			t.Fatal(err)
		}
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.name, w.Code, c.want)
		}
		if c.want != 200 && strings.Contains(w.Body.String(), "stoplog_") {
			t.Errorf("%s: metrics in the refusal", c.name)
		}
	}
}

// TestServe goes through a real unix socket.
func TestServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, fixed(full(), nil), Options{}) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	a, err := client.Get("http://stoplog/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if b := body(t, a.Body); !strings.Contains(b, "stoplog_up 1") {
		t.Errorf("got %s", b)
	}
	// A client that says nothing does not keep the end waiting for long.
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it does not end")
	}
}

func TestServeWantsItsToken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	err = Serve(t.Context(), l, fixed(full(), nil), Options{TokenFile: "/none"})
	if err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("%v, want the file's name", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

// TestScrapesAreBounded: a third at once is sent away, not queued.
func TestScrapesAreBounded(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	h, err := Handler(New(func(context.Context) (Reading, error) {
		entered <- true
		<-leave
		return full(), nil
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	codes := make(chan int)
	ask := func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		codes <- w.Code
	}
	for range maxInFlight {
		go ask()
		<-entered
	}
	go ask()
	if got := <-codes; got != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d, want 503", got)
	}
	for range maxInFlight {
		leave <- true
		if got := <-codes; got != http.StatusOK {
			t.Errorf("those before: %d, want 200", got)
		}
	}
}

// TestScrapeHasAnEnd: a daemon that never answers is shown as down, in time
// for Prometheus' own limit of ten seconds.
func TestScrapeHasAnEnd(t *testing.T) {
	var limit time.Duration
	got := scrape(t, New(func(ctx context.Context) (Reading, error) {
		at, ok := ctx.Deadline()
		if ok {
			limit = time.Until(at)
		}
		return Reading{}, context.DeadlineExceeded
	}))
	if !strings.Contains(got, "stoplog_up 0\n") || limit <= 0 || limit > 8*time.Second {
		t.Errorf("limit %s, shown:\n%s", limit, got)
	}
}

// TestHostileRequests over a real connection: the server says no, and lives.
func TestHostileRequests(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, fixed(full(), nil), Options{}) }()
	for name, c := range map[string]struct{ send, want string }{
		"endless headers": {"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431"},
		"no HTTP":         {"\x16\x03\x01 nonsense\r\n\r\n", "400"},
		"two hosts":       {"GET /metrics HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400"},
		"another path":    {"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "404 307"},
		"a good one":      {"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200"},
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = conn.Write([]byte(c.send)) // it may be cut off before all is sent
		b := make([]byte, 64)
		n, err := conn.Read(b)
		conn.Close()
		status := strings.Fields(string(b[:n]) + " - -")[1]
		if err != nil || !strings.Contains(c.want, status) {
			t.Errorf("%s: %q %v, want %s", name, b[:n], err, c.want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}
