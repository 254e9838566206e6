package metrics

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

// Door says where the listener is and who may ask.
type Door struct {
	Addr      string         // host:port, or the absolute path of a unix socket
	TokenFile string         // holds the bearer token; "" = none is asked for
	Clients   []netip.Prefix // none: anybody who reaches it
}

// Bounds of the listener.
const (
	maxConns    = 16
	maxInFlight = 2
	maxToken    = 4 << 10
	goodbye     = time.Second
)

// registry holds nothing but the collector: Go's own metrics would cost more
// than they tell.
func registry(c *Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(c) // fails only on descriptions that contradict each other
	return r
}

// Listen opens the door's address. A stale unix socket is replaced; one that
// answers is an error.
func (d Door) Listen() (net.Listener, error) {
	if !strings.HasPrefix(d.Addr, "/") {
		return net.Listen("tcp", d.Addr)
	}
	if fi, err := os.Lstat(d.Addr); err == nil && fi.Mode().Type() == os.ModeSocket {
		if c, err := net.Dial("unix", d.Addr); err == nil {
			c.Close()
			return nil, fmt.Errorf("%s: somebody listens there", d.Addr)
		}
		_ = os.Remove(d.Addr) // listening says what is wrong
	}
	l, err := net.Listen("unix", d.Addr)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(d.Addr, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Handler answers GET /metrics to whom the door lets in. The token's file is
// read anew for each request: it may change, and while it cannot be read
// nobody gets in.
func Handler(c *Collector, d Door) http.Handler {
	show := promhttp.HandlerFor(registry(c), promhttp.HandlerOpts{MaxRequestsInFlight: maxInFlight, Timeout: 2 * readTime, ErrorHandling: promhttp.ContinueOnError})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", show)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !d.knows(r.RemoteAddr):
			http.Error(w, "not for you", http.StatusForbidden)
		case d.TokenFile != "" && !d.opens(r.Header.Get("Authorization")):
			w.Header().Set("WWW-Authenticate", `Bearer realm="stoplog"`)
			http.Error(w, "a token is wanted", http.StatusUnauthorized)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// knows reports whether the peer may ask. A unix socket's peers have no
// address; its permissions decide.
func (d Door) knows(remote string) bool {
	if len(d.Clients) == 0 || strings.HasPrefix(d.Addr, "/") {
		return true
	}
	p, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	for _, c := range d.Clients {
		if c.Contains(p.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// opens compares in constant time.
func (d Door) opens(header string) bool {
	want, err := token(d.TokenFile)
	scheme, got, _ := strings.Cut(header, " ")
	if err != nil || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(strings.TrimSpace(got)))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func token(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", err
	}
	t := strings.TrimSpace(string(b))
	if t == "" {
		return "", fmt.Errorf("%s: no token in it", path)
	}
	return t, nil
}

// Serve answers on l until ctx ends, then returns nil. It closes l. An error
// says why the listener failed, or that the token's file cannot be read.
func Serve(ctx context.Context, l net.Listener, c *Collector, d Door) error {
	if d.TokenFile != "" {
		if _, err := token(d.TokenFile); err != nil {
			l.Close()
			return fmt.Errorf("token: %w", err)
		}
	}
	s := &http.Server{
		Handler: Handler(c, d), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 3 * readTime, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		if s.Shutdown(ending) != nil {
			s.Close()
		}
	})
	defer stop()
	err := s.Serve(netutil.LimitListener(l, maxConns))
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
