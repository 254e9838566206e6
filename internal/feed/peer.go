package feed

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"go4.org/netipx"
)

// peerOf is who is at the other end of the connection. Of a unix socket that
// is nobody's address: local says so, and who may connect is decided by the
// socket's directory and mode.
func peerOf(r *http.Request) (addr netip.Addr, local bool) {
	if _, unix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); unix {
		return netip.Addr{}, true
	}
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap().WithZone(""), false
}

// peers is a list of prefixes that peers are looked up in.
type peers struct{ set *netipx.IPSet }

// newPeers makes a list; an empty one is nil.
func newPeers(ps []netip.Prefix) (*peers, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	var b netipx.IPSetBuilder
	for _, p := range ps {
		b.AddPrefix(masked(p))
	}
	set, err := b.IPSet()
	if err != nil {
		return nil, fmt.Errorf("list of peers: %w", err)
	}
	return &peers{set}, nil
}

// holds reports whether r's peer is in the list, or comes by a unix socket.
func (p *peers) holds(r *http.Request) bool {
	addr, local := peerOf(r)
	return local || p != nil && p.set.Contains(addr)
}

// token is a secret that is compared in constant time; the zero token is none.
type token struct {
	set bool
	sum [sha256.Size]byte
}

func newToken(s string) token {
	if s == "" {
		return token{}
	}
	return token{true, sha256.Sum256([]byte(s))}
}

// shown reports whether r shows the token: as a bearer token, as the password
// of basic authentication (all that some firewalls know), or as ?token=.
func (t token) shown(r *http.Request) bool {
	const bearer = "Bearer "
	if h := r.Header.Get("Authorization"); len(h) > len(bearer) && asciiFold(h[:len(bearer)], bearer) && t.is(h[len(bearer):]) {
		return true
	}
	if _, password, ok := r.BasicAuth(); ok && t.is(password) {
		return true
	}
	q := r.URL.Query()
	return q.Has("token") && t.is(q.Get("token"))
}

func (t token) is(s string) bool {
	sum := sha256.Sum256([]byte(s))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// asciiFold compares texts of the same length without regard to case.
func asciiFold(a, b string) bool {
	for i := range len(a) {
		x, y := a[i], b[i]
		if x|0x20 != y|0x20 {
			return false
		}
	}
	return true
}
