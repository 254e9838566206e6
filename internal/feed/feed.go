package feed

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"stoplog/internal/export"
)

// Options say who may fetch the feed. With both, both are asked for.
type Options struct {
	// Clients, when there are any, are the only peers that are answered.
	Clients []netip.Prefix
	// Token, when set, must be shown: as a bearer token, as the password of
	// basic authentication, or as ?token=.
	Token string
}

// Feed serves the list of what is blocked: /blocklist.txt is plain, and
// /blocklist.NAME the format of that name. ?cap=N gives at most N prefixes;
// how many a cap left out is told in X-Stoplog-Left-Out. Answers have a weak
// ETag and are compressed for who accepts gzip.
type Feed struct {
	clients *peers
	token   token
	lists   cache

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

// Counts may be called at any time.
func (f *Feed) Counts() Counts {
	c := Counts{Served: f.served.Load(), Unchanged: f.unchanged.Load(), Refused: f.refused.Load(), Slow: f.slow.Load(), TurnedAway: f.away.Load()}
	if who := f.lastSlow.Load(); who != nil {
		c.LastSlow = *who
	}
	return c
}

func (f *Feed) turnedAway() { f.away.Add(1) }

// New returns the handler. Bad options are an error.
func New(v View, o Options) (*Feed, error) {
	clients, err := newPeers(o.Clients)
	if err != nil {
		return nil, fmt.Errorf("feed: clients: %w", err)
	}
	return &Feed{clients: clients, token: newToken(o.Token), lists: cache{view: v}}, nil
}

func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.clients != nil && !f.clients.holds(r) {
		f.refused.Add(1)
		http.Error(w, "your address may not fetch the feed", http.StatusForbidden)
		return
	}
	if f.token.set && !f.token.shown(r) {
		f.refused.Add(1)
		w.Header().Set("WWW-Authenticate", `Bearer realm="stoplog"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="stoplog"`)
		http.Error(w, "the feed's token is wanted", http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "GET or HEAD is wanted", http.StatusMethodNotAllowed)
		return
	}
	k, status := which(r)
	if status != http.StatusOK {
		http.Error(w, http.StatusText(status), status)
		return
	}
	text, err := f.lists.get(k, accepts(r.Header.Values("Accept-Encoding"), "gzip"), time.Now())
	if err != nil {
		http.Error(w, "the list cannot be written", http.StatusInternalServerError)
		return
	}
	f.answer(w, r, text)
}

// which reads what is asked for.
func which(r *http.Request) (key, int) {
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
	if matches(r.Header.Values("If-None-Match"), t.etag) {
		f.unchanged.Add(1)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", t.mime)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(t.body)))
	if t.gzip {
		h.Set("Content-Encoding", "gzip")
	}
	if r.Method != http.MethodHead {
		if err := send(w, t.body); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				who := r.RemoteAddr
				f.lastSlow.Store(&who)
				f.slow.Add(1)
			}
			return // others went away by themselves
		}
	}
	f.served.Add(1)
}

// A reader must take a chunk within patience, and all within longest.
const (
	chunk    = 64 << 10
	patience = 15 * time.Second
	longest  = 5 * time.Minute
)

// send writes body as fast as the peer reads; one that does not is given up,
// which the server does when a write fails.
func send(w http.ResponseWriter, body []byte) error {
	c := http.NewResponseController(w)
	last := time.Now().Add(longest)
	for len(body) > 0 {
		n := min(chunk, len(body))
		if d := time.Now().Add(patience); d.Before(last) {
			_ = c.SetWriteDeadline(d) // writers of tests have none
		}
		if _, err := w.Write(body[:n]); err != nil {
			return err
		}
		body = body[n:]
	}
	return nil
}
