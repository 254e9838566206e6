package feed

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// CheckOptions say who may ask, and how.
type CheckOptions struct {
	// Header is the one header that holds the client's address.
	Header string
	// Trusted are the peers whose header is believed; none: loopback. Whoever
	// asks by a unix socket is trusted.
	Trusted []netip.Prefix
	// Clients, when there are any, are the only peers that are answered; so is
	// only who shows Token, when there is one. All others hear 204.
	Clients []netip.Prefix
	Token   string
	// Status refuses: 403, which nginx's auth_request wants, or 429. 0: 403.
	Status int
}

// Check answers for proxies whether a client may pass: 204, or the refusing
// status with Retry-After in seconds. Raised flags are told in the header
// X-Stoplog-Flag, their names separated by ", ". The allowlist wins over blocks.
//
// Any method will do, at /check and below it. It fails open: a peer that is
// not trusted, a header that is missing, is there twice or is anything else
// than one plain address (an IPv4-mapped one is IPv4) are answered 204, and
// counted. The peer's own address is never looked up: a proxy that is not
// trusted by mistake would otherwise be refused with all its clients.
type Check struct {
	view    View
	header  string // canonical
	trusted *peers
	clients *peers
	token   token
	status  int

	passed, refused, allowed, unknown, untrusted, away atomic.Uint64
}

// CheckCounts are counted since the start.
type CheckCounts struct {
	Passed     uint64 // not blocked
	Refused    uint64
	Allowed    uint64 // on the allowlist
	Unknown    uint64 // passed, because no address could be read
	Untrusted  uint64 // passed, because the peer may not ask or is not believed
	TurnedAway uint64 // connections closed because there were too many
}

// NewCheck returns the handler. Bad options are an error.
func NewCheck(v View, o CheckOptions) (*Check, error) {
	if o.Header == "" {
		return nil, fmt.Errorf("check: no header to read the client's address from")
	}
	if o.Status == 0 {
		o.Status = http.StatusForbidden
	}
	if o.Status != http.StatusForbidden && o.Status != http.StatusTooManyRequests {
		return nil, fmt.Errorf("check: status %d: 403 or 429 is wanted", o.Status)
	}
	if len(o.Trusted) == 0 {
		o.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	trusted, err := newPeers(o.Trusted)
	if err != nil {
		return nil, fmt.Errorf("check: trusted: %w", err)
	}
	clients, err := newPeers(o.Clients)
	if err != nil {
		return nil, fmt.Errorf("check: clients: %w", err)
	}
	return &Check{view: v, header: http.CanonicalHeaderKey(o.Header), trusted: trusted, clients: clients, token: newToken(o.Token), status: o.Status}, nil
}

// Counts may be called at any time.
func (c *Check) Counts() CheckCounts {
	return CheckCounts{c.passed.Load(), c.refused.Load(), c.allowed.Load(), c.unknown.Load(), c.untrusted.Load(), c.away.Load()}
}

func (c *Check) turnedAway() { c.away.Add(1) }

func (c *Check) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/check" && !strings.HasPrefix(r.URL.Path, "/check/") {
		http.NotFound(w, r)
		return
	}
	w.Header()["Cache-Control"] = []string{"no-store"}
	if !c.trusts(r) {
		c.untrusted.Add(1)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if names := flagNames(c.view.Flags()); names != "" {
		w.Header()["X-Stoplog-Flag"] = []string{names}
	}
	until, blocked := c.judge(r.Header[c.header])
	if !blocked {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !until.IsZero() {
		w.Header()["Retry-After"] = []string{strconv.FormatInt(secondsUntil(until, time.Now()), 10)}
	}
	http.Error(w, http.StatusText(c.status), c.status)
}

func (c *Check) trusts(r *http.Request) bool {
	return c.trusted.holds(r) && (c.clients == nil || c.clients.holds(r)) && (!c.token.set || c.token.shown(r))
}

// judge looks the client up and counts.
func (c *Check) judge(values []string) (until time.Time, blocked bool) {
	addr, ok := clientAddr(values)
	if !ok {
		c.unknown.Add(1)
		return time.Time{}, false
	}
	if c.view.Allowed(addr) {
		c.allowed.Add(1)
		return time.Time{}, false
	}
	if until, blocked = c.view.Lookup(addr); blocked {
		c.refused.Add(1)
	} else {
		c.passed.Add(1)
	}
	return until, blocked
}

// clientAddr reads a header that must have been sent once, with one address
// and nothing else: what can be read in two ways is not read.
func clientAddr(values []string) (netip.Addr, bool) {
	const longest = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
	if len(values) != 1 || len(values[0]) > longest {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(values[0])
	if err != nil || a.Zone() != "" || a.Unmap().IsUnspecified() {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// secondsUntil rounds up, so that who waits as long is let in.
func secondsUntil(until, now time.Time) int64 {
	return max(1, int64((until.Sub(now)+time.Second-1)/time.Second))
}

// flagNames joins the names that a header can hold.
func flagNames(names []string) string {
	var b strings.Builder
	for _, n := range names {
		if n == "" || strings.ContainsFunc(n, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(n)
	}
	return b.String()
}
