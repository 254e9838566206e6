package feed

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"stoplog/internal/export"
	"stoplog/internal/firewall"
	"stoplog/internal/httpd"
)

// CheckOptions say who may ask, and how.
type CheckOptions struct {
	// Header is the one header that holds the client's address.
	Header string
	// Trusted are the peers whose header is believed; none: loopback. Whoever
	// asks by a unix socket is trusted.
	Trusted []netip.Prefix
	// Clients, when there are any, are the only peers that are answered; so is
	// only who shows a token of TokenFile, when there is one (see
	// httpd.NewGate). All others hear 204.
	Clients   []netip.Prefix
	TokenFile string
	// Problem gets what is wrong with TokenFile, and nil when it is read again.
	Problem func(error)
	// Status refuses: 403, which nginx's auth_request wants, or 429. 0: 403.
	Status int
	// Guard is what the proxy guards: blocks that close none of it let pass.
	// The zero Guard is export.WebPorts.
	Guard export.Guard
	// PortHeader, when set, is the header in which the proxy says to which port
	// the client came; it replaces Guard. The proxy must set it: a client's own
	// would let them past.
	PortHeader string
}

// Check answers for proxies whether a client may pass: 204, or the refusing
// status with Retry-After in seconds, or 429 to clients that are only slowed. Raised flags are told in the header
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
	trusted *httpd.Peers
	gate    *httpd.Gate
	status  int
	guard   export.Guard
	port    string // canonical header; "": none

	passed, refused, slowed, allowed, unknown, untrusted, away atomic.Uint64
}

// CheckCounts are counted since the start.
type CheckCounts struct {
	Passed     uint64 // not blocked
	Refused    uint64
	Slowed     uint64 // 429, because a block only slows them
	Allowed    uint64 // on the allowlist
	Unknown    uint64 // passed, because no address could be read
	Untrusted  uint64 // passed, because the peer may not ask or is not believed
	TurnedAway uint64 // connections closed because there were too many
}

// NewCheck returns the handler. Bad options are an error.
func NewCheck(v View, o CheckOptions) (*Check, error) {
	if o.Header == "" {
		return nil, fmt.Errorf("no header is configured for the client's address")
	}
	if o.Guard.IsZero() {
		o.Guard = export.WebPorts()
	}
	if o.Status == 0 {
		o.Status = http.StatusForbidden
	}
	if o.Status != http.StatusForbidden && o.Status != http.StatusTooManyRequests {
		return nil, fmt.Errorf("status %d: expected 403 or 429", o.Status)
	}
	if len(o.Trusted) == 0 {
		o.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	trusted, err := httpd.NewPeers(o.Trusted)
	if err != nil {
		return nil, fmt.Errorf("trusted: %w", err)
	}
	gate, err := httpd.NewGate(o.Clients, o.TokenFile, o.Problem)
	if err != nil {
		return nil, err
	}
	return &Check{view: v, header: http.CanonicalHeaderKey(o.Header), trusted: trusted, gate: gate, status: o.Status, guard: o.Guard, port: http.CanonicalHeaderKey(o.PortHeader)}, nil
}

// Guard is what the proxy guards, unless it names a port.
func (c *Check) Guard() export.Guard { return c.guard }

// Counts may be called at any time.
func (c *Check) Counts() CheckCounts {
	return CheckCounts{c.passed.Load(), c.refused.Load(), c.slowed.Load(), c.allowed.Load(), c.unknown.Load(), c.untrusted.Load(), c.away.Load()}
}

// checkLimits: proxies hand on the headers of their clients, and have many
// connections open; who is not trusted needs none.
var checkLimits = httpd.Limits{Conns: 1024, PerHost: 16, Header: 64 << 10, Write: 10 * time.Second, Idle: 2 * time.Minute, Goodbye: 2 * time.Second}

// Serve answers on l until ctx ends, then returns nil. It closes l.
func (c *Check) Serve(ctx context.Context, l net.Listener) error {
	return httpd.Server{Handler: c, Limits: checkLimits, Trusted: c.trusted.Holds, TurnedAway: func() { c.away.Add(1) }}.Serve(ctx, l)
}

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
	v := c.judge(r)
	if v.status == http.StatusNoContent {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if v.retry > 0 {
		w.Header()["Retry-After"] = []string{strconv.FormatInt(v.retry, 10)}
	}
	http.Error(w, http.StatusText(v.status), v.status)
}

func (c *Check) trusts(r *http.Request) bool { return c.trusted.HoldsPeer(r) && c.gate.Knows(r) }

// verdict is an answer, and after how many seconds to ask again, 0 for not said.
type verdict struct {
	status int
	retry  int64
}

// judge looks the client up and counts.
func (c *Check) judge(r *http.Request) verdict {
	pass := verdict{status: http.StatusNoContent}
	addr, ok := clientAddr(r.Header[c.header])
	if !ok {
		c.unknown.Add(1)
		return pass
	}
	if c.view.Allowed(addr) {
		c.allowed.Add(1)
		return pass
	}
	g, now := c.guards(r), time.Now()
	if until, blocked := c.view.Lookup(addr, func(l export.Limit) bool { return l == export.Limit{} || g.Closes(l) }); blocked {
		c.refused.Add(1)
		v := verdict{status: c.status}
		if !until.IsZero() {
			v.retry = secondsUntil(until, now)
		}
		return v
	}
	rate := 0
	slows := func(l export.Limit) bool {
		if !g.Slows(l) {
			return false
		}
		rate = max(rate, l.Rate)
		return true
	}
	if _, slowed := c.view.Lookup(addr, slows); slowed {
		c.slowed.Add(1)
		return verdict{http.StatusTooManyRequests, int64((60 + rate - 1) / rate)}
	}
	c.passed.Add(1)
	return pass
}

// guards is what the client came for: the port that the proxy names, or all
// that it guards when it names none that can be read in one way.
func (c *Check) guards(r *http.Request) export.Guard {
	if c.port == "" {
		return c.guard
	}
	values := r.Header[c.port]
	if len(values) != 1 {
		return c.guard
	}
	n, err := strconv.ParseUint(values[0], 10, 16)
	if err != nil || n == 0 {
		return c.guard
	}
	return export.Guard{Ports: []firewall.Ports{{Proto: "tcp", From: uint16(n), To: uint16(n)}}}
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
