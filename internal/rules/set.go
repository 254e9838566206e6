// Package rules turns YAML into checked, compiled rules. Every mistake of a
// file is reported at once with its place and the nearest right word; what it
// hands on has no mistake left in it. One table describes every key: checking,
// the JSON Schema and the reference are made from it.
package rules

import (
	"fmt"
	"net/netip"
	"time"

	"stoplog/internal/addr"
)

// Set is a whole configuration, checked. It is not changed after Load and may
// be read from several goroutines.
type Set struct {
	Name     string // of the file it came from
	Sources  []Source
	Prefix   Lens // what a bucket's key and a block are cut to
	Floor    Lens // no wider prefix is ever blocked
	Networks []Network
	Allow    List
	Deny     List
	Protect  Protect
	Block    Escalation
	Widen    Widen
	Firewall Firewall
	Flags    Flags
	Limits   Limits
	Privacy  Privacy
	Listen   Listen
	Notify   []Notify
	Exports  []Export
	// ReloadOnChange asks for a reload when one of Files changes.
	ReloadOnChange bool
	Rules          []*Rule
	// Ready names the ready rules that are on, in order.
	Ready []string
	// Files are the files this Set was read from, absolute: the rules, rules.d,
	// tiers. The globs of Allow and Deny are not among them.
	Files []string
	// Warnings are what is allowed but hardly meant.
	Warnings []Problem
}

// Lens are prefix lengths, by family.
type Lens struct{ V4, V6 int }

// Of returns the length for addr's family.
func (l Lens) Of(a netip.Addr) int {
	if a.Is4() {
		return l.V4
	}
	return l.V6
}

// String writes the lengths that are set: "/56", "/24 and /56".
func (l Lens) String() string {
	switch {
	case l.V4 == 0:
		return fmt.Sprintf("/%d", l.V6)
	case l.V6 == 0:
		return fmt.Sprintf("/%d", l.V4)
	}
	return fmt.Sprintf("/%d and /%d", l.V4, l.V6)
}

// Cut returns the prefix by which the client at a is counted, masked: of that
// length, or as long as tells apart the clients of a translator or tunnel.
func (l Lens) Cut(a netip.Addr) netip.Prefix {
	a = addr.Of(a)
	p, err := a.Prefix(addr.Bits(a, l.V4, l.V6))
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// CutExactly is Cut without a special case for translators and tunnels: the
// length was chosen for the network that a lies in.
func (l Lens) CutExactly(a netip.Addr) netip.Prefix {
	a = addr.Of(a)
	p, err := a.Prefix(l.Of(a))
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// SourceKind is a kind of place that lines come from.
type SourceKind uint8

const (
	// Auth is sshd, PAM and their kin: the journal, or else the first of
	// /var/log/auth.log and /var/log/secure; never both.
	Auth SourceKind = iota
	File
	Journal
	Stdin
	Pipe
)

func (k SourceKind) String() string {
	return [...]string{"auth", "file", "journal", "stdin", "pipe"}[k]
}

// Source is one element of `sources`.
type Source struct {
	Kind    SourceKind
	Path    string   // File: a glob; Pipe: the path. Absolute.
	Exclude []string // globs of files that Path would take
	Service string   // hint of what writes it, empty to sniff
	Format  string   // "", "combined", "json", a log_format string…
	Client  Client
	// Fields tells, for the formats json and logfmt, by which dotted path a
	// field of the event is found; none: the usual names are tried.
	Fields map[string]string
	Zone   *time.Location // of stamps that name none; nil: the machine's
	// Units, Identifiers, Containers and Matches restrict the journal.
	Units, Identifiers, Containers, Matches []string
	// Ready is the ready rule that brought it, empty when the file names it.
	Ready string
	Line  int // in the rules file
}

// Client says who the client is when a proxy stands before the server.
type Client struct {
	Header  string         // lower case: x-forwarded-for, forwarded, cf-connecting-ip…
	Trusted []netip.Prefix // peers whose header is believed
}

// Network gives a range its own prefix length and room.
type Network struct {
	Prefix netip.Prefix
	Len    int // of keys and blocks inside it; 0: the rule's
	// Room multiplies the capacity of each bucket; 0: as it is.
	Room int
	// Capacity replaces it; 0: as it is.
	Capacity int
}

// Holds is the room inside n of what holds usual elsewhere; n may be nil.
func (n *Network) Holds(usual int) int {
	switch {
	case n == nil:
	case n.Capacity > 0:
		return n.Capacity
	case n.Room > 1:
		return usual * n.Room
	}
	return usual
}

// List is `allow` or `deny`: prefixes, and files of them that are re-read
// when they change.
type List struct {
	Prefixes []netip.Prefix
	Files    []string // absolute globs
}

// Protect says who is never blocked beside the allowlist.
type Protect struct {
	KnownGood time.Duration // how long a login makes its source known; 0: off
	SSHPeers  bool          // the exact peers of authenticated SSH sessions
	Own       bool          // the machine's addresses, gateways and resolvers
}

// Escalation is how long a block holds: TTL, then TTL×Multiply for each
// earlier strike, up to Max. A strike is forgotten Decay after its block ended.
type Escalation struct {
	TTL      time.Duration
	Multiply float64
	Max      time.Duration
	Decay    time.Duration
}

// Widen blocks a whole network once more than Over of its prefixes stand
// blocked.
type Widen struct {
	On   bool
	Lens Lens
	Over int
	TTL  time.Duration // 0: the configured one
}

// Firewall is which walls, and what they do.
type Firewall struct {
	Backends []string // "auto", or names of walls, all of them used
	Action   string   // drop, reject, slow
	Hook     string   // input, prerouting
	Forward  bool     // forwarded and containers' traffic too
	Ports    []Ports  // none: all
	Cut      bool     // running connections of a blocked prefix end too
	SlowRate int      // new connections a minute that `slow` lets through
	MaxRules int      // of the plain iptables wall
	MaxSet   int      // elements of a set
	Sets     Sets
	Exec     ExecWall
	// HostsDeny is the file of the hosts.deny wall.
	HostsDeny string
}

// Sets names sets of the administrator's own for the set-only wall.
type Sets struct {
	Kind   string // ipset, nft
	Table  string // nft: "inet filter"
	V4, V6 string
}

// ExecWall is a wall made of the administrator's programs: argument lists, no
// shell. Prefixes come one a line on standard input.
type ExecWall struct {
	Block, Unblock []string
	Timeout        time.Duration
}

// Ports is an inclusive range of ports of one protocol ("tcp", "udp", "" = both).
type Ports struct {
	Proto    string
	From, To uint16
}

// Flags is where raised flags are shown as files.
type Flags struct{ Dir string }

// Limits bound memory and disk.
type Limits struct {
	Buckets   int // live buckets of each Level of a rule
	Blocks    int
	KnownGood int
	Strikes   int
	Evidence  int // bytes of recent lines kept to show why
	LineBytes int // a longer line is cut
	Audit     int // bytes of one audit file, of four
}

// Privacy says what is kept of log lines.
type Privacy struct {
	Lines bool          // lines and user names may be kept to explain blocks
	Keep  time.Duration // of an entry of the audit trail; 0: until its files are full
}

// Listener is what the listeners have in common. Addr is "host:port" or an
// absolute path of a unix socket; empty: off.
type Listener struct {
	Addr      string
	TokenFile string         // absolute
	Clients   []netip.Prefix // who may ask; none: anybody who reaches it
	Hosts     []string       // Page: names it is reached by, beside addresses and localhost
	Ports     Guarded        // Feed, Check
}

// Listen are the doors by HTTP, each off unless it has an address.
type Listen struct {
	Page    Listener
	Feed    Listener
	Metrics Metrics
	Check   Check
}

// Metrics is for Prometheus: a listener, a textfile, or both.
type Metrics struct {
	Listener
	Textfile string
}

// Check answers "may this client pass?" for proxies.
type Check struct {
	Listener
	Header  string         // holds the client's address
	Trusted []netip.Prefix // peers whose header is believed
	Status  int            // of a refusal: 403, or 429
	// PortHeader holds the port that the client came to, in small letters.
	PortHeader string
}

// Notify is somebody to tell. Exactly one of Webhook, Email and Exec is set.
type Notify struct {
	Name     string
	Webhook  string // URL
	Headers  map[string]string
	Email    Email
	Exec     []string
	Template string        // Go text/template, empty: the built-in
	Group    time.Duration // one message for all that happens within it
	Limit    int           // messages an hour
	Timeout  time.Duration
}

// Email is where a message goes, by which server.
type Email struct {
	To           []string
	From, Server string
	User         string
	PasswordFile string
}

// Export is a file that is kept current while running.
type Export struct {
	Format, File string
	Ports        Guarded
}

// Guarded says which blocks of some ports, and which that slow down, are listed
// as whole blocks: all of them, or those that close one of Ports. Neither: the
// format's default.
type Guarded struct {
	Any   bool
	Ports []Ports
}

// Find returns the rule of that name, nil when there is none.
func (s *Set) Find(name string) *Rule {
	for _, r := range s.Rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}
