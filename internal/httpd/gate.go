package httpd

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"go4.org/netipx"
)

// Peer is who is at the other end of the connection. Of a unix socket that is
// nobody's address: local says so, and who may connect is decided by the
// socket's directory and mode.
func Peer(r *http.Request) (addr netip.Addr, local bool) {
	if _, unix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); unix {
		return netip.Addr{}, true
	}
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap().WithZone(""), false
}

// Peers is a list of prefixes that peers are looked up in. Nil is empty.
type Peers struct{ set *netipx.IPSet }

// NewPeers makes a list; of no prefixes it is nil.
func NewPeers(ps []netip.Prefix) (*Peers, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	var b netipx.IPSetBuilder
	for _, p := range ps {
		if !p.IsValid() {
			return nil, fmt.Errorf("%s is not an IP address or prefix", p)
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		b.AddPrefix(p.Masked())
	}
	set, err := b.IPSet()
	if err != nil {
		return nil, fmt.Errorf("list of peers: %w", err)
	}
	return &Peers{set}, nil
}

// Holds reports whether addr is in the list.
func (p *Peers) Holds(addr netip.Addr) bool { return p != nil && p.set.Contains(addr) }

// HoldsPeer reports whether r's peer is in the list, or comes by a unix socket.
func (p *Peers) HoldsPeer(r *http.Request) bool {
	addr, local := Peer(r)
	return local || p.Holds(addr)
}

// Gate says who may use a listener: its clients, if there are any, and who
// shows a token, if there is a file of them. It may be used from several
// goroutines.
type Gate struct {
	clients *Peers
	file    string
	wrong   *Guesses
	problem func(error)
}

// NewGate returns the gate of these clients (none: anybody) and this file of
// tokens ("": none is asked for). The file is read at each request, so that
// what is changed in it holds at once; while it cannot be read nobody is let
// in, and problem, when not nil, gets the error. A file that cannot be read
// now is an error too.
func NewGate(clients []netip.Prefix, file string, problem func(error)) (*Gate, error) {
	ps, err := NewPeers(clients)
	if err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	if problem == nil {
		problem = func(error) {}
	}
	if file != "" {
		if _, err := readSecrets(file); err != nil {
			return nil, err
		}
	}
	return &Gate{clients: ps, file: file, wrong: NewGuesses(), problem: problem}, nil
}

// Client reports whether the peer may use the listener at all.
func (g *Gate) Client(r *http.Request) bool { return g.clients == nil || g.clients.HoldsPeer(r) }

// Knows reports whether r comes from a client and shows a token, as far as
// these are asked for.
func (g *Gate) Knows(r *http.Request) bool { return g.Client(r) && g.shown(r) }

// shown reports whether r shows a token: as a bearer token, as the password of
// basic authentication (all that some firewalls know), or as ?token=.
func (g *Gate) shown(r *http.Request) bool {
	if g.file == "" {
		return true
	}
	ts, err := readSecrets(g.file)
	if err != nil {
		g.problem(err)
		return false
	}
	g.problem(nil)
	if scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") && ts.holds(strings.TrimSpace(secret)) {
		return true
	}
	if _, password, ok := r.BasicAuth(); ok && ts.holds(password) {
		return true
	}
	return ts.holds(r.URL.Query().Get("token"))
}

// Admit reports whether r may go on. Else it has answered: 403 to who is no
// client, 401 to who shows no right token, and 429 to a host that guesses. A
// right token is let in whatever was shown before it.
func (g *Gate) Admit(w http.ResponseWriter, r *http.Request) bool {
	if !g.Client(r) {
		http.Error(w, "Your address is not allowed here.", http.StatusForbidden)
		return false
	}
	if g.shown(r) {
		return true
	}
	if !offers(r) {
		unauthorized(w)
		return false
	}
	if wait := g.wrong.Wrong(r, time.Now()); wait > 0 {
		TooMany(w, wait)
		http.Error(w, "Too many wrong tokens from your address.", http.StatusTooManyRequests)
		return false
	}
	unauthorized(w)
	return false
}

// offers reports whether r shows any token at all.
func offers(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.URL.Query().Has("token")
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="stoplog"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="stoplog"`)
	http.Error(w, "A token is required.", http.StatusUnauthorized)
}

// TooMany sets the headers of an answer to who must wait.
func TooMany(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	w.Header().Set("Connection", "close")
}

// Bounds of wrong tokens: so many at once from one host, and one more each
// guessLeak.
const (
	maxGuesses = 5
	guessLeak  = 12 * time.Second
	maxHosts   = 1000
)

// Guesses are leaky buckets of wrong tokens by host: an instant each, when the
// bucket would be empty. Over a thousand hosts the new ones share one.
type Guesses struct {
	mu    sync.Mutex
	empty map[netip.Addr]time.Time
}

// NewGuesses returns a table without any.
func NewGuesses() *Guesses { return &Guesses{empty: map[netip.Addr]time.Time{}} }

// Wrong counts a wrong token of r's peer and returns how long the peer should
// wait before the next, 0 for not at all. Who still shows a right one is to be
// let in: it is for the caller to look at the token first.
func (g *Guesses) Wrong(r *http.Request, now time.Time) time.Duration {
	addr, _ := Peer(r)
	g.mu.Lock()
	defer g.mu.Unlock()
	host := g.room(sameHost(addr), now)
	until := g.empty[host]
	if until.Before(now) {
		until = now
	}
	if wait := until.Add(-(maxGuesses - 1) * guessLeak).Sub(now); wait > 0 {
		return wait // what is over does not count: a host that waits may try again
	}
	g.empty[host] = until.Add(guessLeak)
	return 0
}

// room is the bucket that a host is counted in; those that are empty make room.
func (g *Guesses) room(host netip.Addr, now time.Time) netip.Addr {
	if _, ok := g.empty[host]; ok || len(g.empty) < maxHosts {
		return host
	}
	for k, t := range g.empty {
		if !t.After(now) {
			delete(g.empty, k)
		}
	}
	if len(g.empty) < maxHosts {
		return host
	}
	return netip.Addr{}
}
