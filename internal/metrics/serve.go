package metrics

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"stoplog/internal/httpd"
)

// Options say who may ask; see httpd.NewGate.
type Options struct {
	TokenFile string
	Clients   []netip.Prefix
	// Problem gets what is wrong with TokenFile, and nil when it is read again.
	Problem func(error)
}

// maxInFlight is how many scrapes run at once.
const maxInFlight = 2

var limits = httpd.Limits{Conns: 64, PerHost: 8, Header: 8 << 10, Write: 3 * readTime, Idle: time.Minute, Goodbye: time.Second}

// registry holds nothing but the collector: Go's own metrics would cost more
// than they tell.
func registry(c *Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(c) // fails only on descriptions that contradict each other
	return r
}

// Handler answers GET /metrics to those whom the options let in. A file of
// tokens that cannot be read is an error.
func Handler(c *Collector, o Options) (http.Handler, error) {
	gate, err := httpd.NewGate(o.Clients, o.TokenFile, o.Problem)
	if err != nil {
		return nil, err
	}
	show := promhttp.HandlerFor(registry(c), promhttp.HandlerOpts{MaxRequestsInFlight: maxInFlight, Timeout: 2 * readTime, ErrorHandling: promhttp.ContinueOnError})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", show)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gate.Admit(w, r) {
			mux.ServeHTTP(w, r)
		}
	}), nil
}

// Serve answers on l until ctx ends, then returns nil. It closes l.
func Serve(ctx context.Context, l net.Listener, c *Collector, o Options) error {
	h, err := Handler(c, o)
	if err != nil {
		l.Close()
		return err
	}
	return httpd.Server{Handler: h, Limits: limits}.Serve(ctx, l)
}
