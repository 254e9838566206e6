package feed

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"stoplog/internal/export"
	"stoplog/internal/httpd"
)

// Options say who may fetch the feed. With both, both are asked for.
type Options struct {
	// Clients, when there are any, are the only peers that are answered.
	Clients []netip.Prefix
	// TokenFile, when set, holds the tokens of which one must be shown; see
	// httpd.NewGate.
	TokenFile string
	// Guard is which limited blocks are listed as whole ones unless ?ports= says
	// otherwise; see export.Options.
	Guard export.Guard
	// Problem gets what is wrong with TokenFile, and nil when it is read again.
	Problem func(error)
}

// Feed serves the list of what is blocked: /blocklist.txt is plain, and
// /blocklist.NAME the format of that name. ?cap=N gives at most N prefixes;
// how many a cap left out is in X-Stoplog-Left-Out. ?ports=any or ?ports=22,80 lists
// limited blocks too, as export.Guard says; what is left out of those is in
// X-Stoplog-Left-Out-Ports. Answers have a weak
// ETag and are compressed for who accepts gzip.
type Feed struct {
	gate  *httpd.Gate
	guard export.Guard
	lists cache

	served, unchanged, refused, slow, away atomic.Uint64
	lastSlow                               atomic.Pointer[string]
}

// Counts are counted since the start.
type Counts struct {
	Served     uint64 // lists that were sent whole, and HEAD
	Unchanged  uint64 // 304
	Refused    uint64 // by address or token
	Slow       uint64 // readers that were given up
	LastSlow   string // address and port of the last of those
	TurnedAway uint64 // connections closed because there were too many
}

// Guard is what lists are for unless a reader asks for another.
func (f *Feed) Guard() export.Guard { return f.guard }

// Counts may be called at any time.
func (f *Feed) Counts() Counts {
	c := Counts{Served: f.served.Load(), Unchanged: f.unchanged.Load(), Refused: f.refused.Load(), Slow: f.slow.Load(), TurnedAway: f.away.Load()}
	if who := f.lastSlow.Load(); who != nil {
		c.LastSlow = *who
	}
	return c
}

// New returns the handler. Bad options are an error.
func New(v View, o Options) (*Feed, error) {
	gate, err := httpd.NewGate(o.Clients, o.TokenFile, o.Problem)
	if err != nil {
		return nil, err
	}
	return &Feed{gate: gate, guard: o.Guard, lists: cache{view: v}}, nil
}

func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.gate.Admit(w, r) {
		f.refused.Add(1)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Use GET or HEAD.", http.StatusMethodNotAllowed)
		return
	}
	k, status := f.which(r)
	if status != http.StatusOK {
		http.Error(w, http.StatusText(status), status)
		return
	}
	text, err := f.lists.get(k, accepts(r.Header.Values("Accept-Encoding"), "gzip"), time.Now())
	if err != nil {
		http.Error(w, "writing the list", http.StatusInternalServerError)
		return
	}
	f.answer(w, r, text)
}

// which reads what is asked for.
func (f *Feed) which(r *http.Request) (key, int) {
	name, ok := strings.CutPrefix(r.URL.Path, "/blocklist.")
	if !ok {
		return key{}, http.StatusNotFound
	}
	if name == "txt" {
		name = "plain"
	}
	if _, err := export.Find(name); err != nil {
		return key{}, http.StatusNotFound
	}
	k := key{format: name}
	if c := r.URL.Query().Get("cap"); c != "" {
		n, err := strconv.Atoi(c)
		if err != nil || n < 1 || n > 10_000_000 {
			return key{}, http.StatusBadRequest
		}
		k.cap = n
	}
	if p := r.URL.Query().Get("ports"); p != "" {
		g, err := export.ParseGuard(p)
		if err != nil {
			return key{}, http.StatusBadRequest
		}
		k.ports = g.String()
	} else if !f.guard.IsZero() {
		k.ports = f.guard.String()
	}
	return k, http.StatusOK
}

func (f *Feed) answer(w http.ResponseWriter, r *http.Request, t text) {
	h := w.Header()
	h.Set("ETag", t.etag)
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Vary", "Accept-Encoding")
	if t.left > 0 {
		h.Set("X-Stoplog-Left-Out", strconv.Itoa(t.left))
	}
	if t.limited > 0 {
		h.Set("X-Stoplog-Left-Out-Ports", export.LeftOut(t.limited))
	}
	h.Set("Content-Type", t.mime)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(t.body)))
	if t.gzip {
		h.Set("Content-Encoding", "gzip")
	}
	r.Header.Del("Range") // half of one list and half of the next is none
	p := &patient{ResponseWriter: w, last: time.Now().Add(longest)}
	http.ServeContent(p, r, "", time.Time{}, bytes.NewReader(t.body))
	switch {
	case errors.Is(p.err, os.ErrDeadlineExceeded):
		who := r.RemoteAddr
		f.lastSlow.Store(&who)
		f.slow.Add(1)
	case p.err != nil: // went away by itself
	case p.status == http.StatusNotModified:
		f.unchanged.Add(1)
	default:
		f.served.Add(1)
	}
}

// A reader must take each write within patience, and all within longest.
const (
	patience = 15 * time.Second
	longest  = 5 * time.Minute
)

// patient gives each write its own deadline; a reader that misses one is given
// up, which the server does when a write fails.
type patient struct {
	http.ResponseWriter
	last   time.Time
	status int
	err    error
}

func (p *patient) WriteHeader(status int) {
	p.status = status
	p.Header().Set("Accept-Ranges", "none") // ServeContent promises others
	p.ResponseWriter.WriteHeader(status)
}

func (p *patient) Write(b []byte) (int, error) {
	if d := time.Now().Add(patience); d.Before(p.last) {
		_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(d) // writers of tests have none
	}
	n, err := p.ResponseWriter.Write(b)
	if err != nil {
		p.err = err
	}
	return n, err
}

// limits: readers are few, and may be slow as long as they read on.
var limits = httpd.Limits{Conns: 64, PerHost: 8, Header: 16 << 10, Write: 10 * time.Second, Idle: 2 * time.Minute, Goodbye: 2 * time.Second}

// Serve answers on l until ctx ends, then returns nil. It closes l.
func (f *Feed) Serve(ctx context.Context, l net.Listener) error {
	return httpd.Server{Handler: f, Limits: limits, TurnedAway: func() { f.away.Add(1) }}.Serve(ctx, l)
}
