// Package rules turns YAML into checked, compiled rules. Every mistake of a
// file is reported at once with its place and the nearest right word; what it
// hands on has no mistake left in it. Struct tags describe every key: reading,
// defaults, the JSON Schema and the reference all come from them.
package rules

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"stoplog/internal/addr"
)

// Set is a whole configuration, checked. It is not changed after Load and may
// be read from several goroutines.
type Set struct {
	Name     string   // of the file it came from
	Sources  []Source `key:"sources" doc:"logs to read, in addition to those of built-in rules" eg:"[auth, {file: /srv/app/app.log}]"`
	Prefix   Lens     `key:"prefix" doc:"lengths of the prefixes that are counted and blocked" default:"{ipv4: 28, ipv6: 64}" eg:"{ipv4: 24}"`
	Floor    Lens     `key:"floor" doc:"no prefix wider than this is ever blocked" default:"{ipv4: 16, ipv6: 32}" eg:"{ipv4: 20}"`
	Networks []Network
	Allow    List       `key:"allow" doc:"prefixes, and file:GLOB, that are never counted and never blocked" eg:"[192.0.2.0/24, \"file:allow.d/*.txt\"]"`
	Deny     List       `key:"deny" doc:"prefixes, and file:GLOB, that are always blocked" eg:"[203.0.113.0/24]"`
	Protect  Protect    `key:"protect" doc:"who else is never blocked" default:"{}" eg:"{known_good: 7d}"`
	Block    Escalation `key:"block" doc:"how long blocks last" default:"{}" eg:"{ttl: 1h, max: 7d}"`
	Widen    Widen      `key:"widen" doc:"block a whole network when many of its prefixes are blocked (default: off)" eg:"{over: 4}"`
	Firewall Firewall   `key:"firewall" doc:"firewall backends, and how they block" default:"{}" eg:"{backend: ipset}"`
	Flags    Flags      `key:"flags" doc:"write raised flags as files" default:"{dir: /run/stoplog/flags}" eg:"{dir: /run/flags}"`
	Limits   Limits     `key:"limits" doc:"limits of memory and disk" default:"{}" eg:"{buckets: 100000}"`
	Log      Log        `key:"log" doc:"how stoplog writes its own log" default:"{}" eg:"{format: fail2ban}"`
	Privacy  Privacy    `key:"privacy" doc:"what is stored of log lines, and for how long" default:"{}" eg:"{lines: false}"`
	Fleet    Fleet      `key:"fleet" doc:"count together with other machines, after stoplog fleet join (default: off)" eg:"{mode: observe}"`
	Listen   Listen     `key:"listen" doc:"HTTP listeners (default: off)" eg:"{page: {addr: 127.0.0.1:8080}}"`
	Notify   []Notify
	Exports  []Export `key:"exports" doc:"files to which the blocks are written" eg:"{format: nginx, file: /etc/nginx/deny.conf}"`
	// ReloadOnChange asks for a reload when one of Files changes.
	ReloadOnChange bool `key:"reload_on_change" doc:"reload when a rules file changes" default:"false"`
	Rules          []*Rule
	// Ready names the ready rules that are on, in order.
	Ready []string
	// FlagFiles says that the file names the folder of flags: other programs read
	// them there.
	FlagFiles bool
	// Files are the files this Set was read from, absolute: the rules, rules.d,
	// tiers. The globs of Allow and Deny are not among them.
	Files []string
	// Warnings are what is allowed but hardly meant.
	Warnings []Problem
}

// Lens are prefix lengths, by family.
type Lens struct {
	V4 int `in:"prefix lengths" key:"ipv4" doc:"IPv4 prefix length" what:"an IPv4 prefix length" range:"8..32" eg:"24"`
	V6 int `key:"ipv6" doc:"IPv6 prefix length" what:"an IPv6 prefix length" range:"16..128" eg:"56"`
}

// Of returns the length for addr's family.
func (l Lens) Of(a netip.Addr) int {
	if a.Is4() {
		return l.V4
	}
	return l.V6
}

// or is l with the lengths of other where it has none.
func (l Lens) or(other Lens) Lens { return Lens{cmp.Or(l.V4, other.V4), cmp.Or(l.V6, other.V6)} }

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
	In    string // the rules file that lists it
	Line  int    // there
}

// Client says who the client is when a proxy stands before the server.
type Client struct {
	Header  string         `in:"a client" key:"header,required" doc:"header with the client's address: x-forwarded-for, forwarded, cf-connecting-ip…" is:"header" eg:"x-forwarded-for"` // lower case
	Trusted []netip.Prefix `key:"trusted,required" doc:"proxies whose header is trusted" what:"the address or prefix of a proxy" eg:"[10.0.0.0/8]"`
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
	KnownGood time.Duration `in:"protect" key:"known_good" doc:"how long a login makes its source known-good; 0s: off" default:"30d" range:"0s..366d" eg:"7d"`
	SSHPeers  bool          `key:"ssh_peers" doc:"protect the peers of open SSH sessions" default:"true"`
	Own       bool          `key:"own" doc:"protect this machine's addresses, gateways and resolvers" default:"true"`
}

// Escalation is how long a block holds: TTL, then TTL×Multiply for each
// earlier strike, up to Max. A strike is forgotten Decay after its block ended.
type Escalation struct {
	TTL      time.Duration `in:"block" key:"ttl" doc:"TTL of a first block" default:"10m" range:"1s..366d" eg:"1h"`
	Multiply float64       `key:"multiply" doc:"factor for the TTL of each further block of the prefix" default:"4" range:"1..1000" eg:"2.5"`
	Max      time.Duration `key:"max" doc:"maximum TTL of a block" default:"30d" range:"1s..366d" eg:"7d"`
	Decay    time.Duration `key:"decay" doc:"how long after the end of a block another one counts as a repeat" default:"30d" range:"1m..366d" eg:"60d"`
}

// Widen blocks a whole network once more than Over of its prefixes stand
// blocked.
type Widen struct {
	On   bool
	Lens Lens          `in:"widen" key:",inline" default:"{ipv4: 24, ipv6: 48}"`
	Over int           `key:"over,required" doc:"block the network when more than this many of its prefixes are blocked" range:"1..65536" eg:"4"`
	TTL  time.Duration `key:"ttl" doc:"TTL of the network's block (default: that of block)" range:"1s..366d" eg:"1d"`
}

// Firewall is which walls, and what they do.
type Firewall struct {
	Backends []string `in:"firewall" key:"backend" doc:"backends; auto: the first that works on this machine" default:"auto" what:"a firewall backend" words:"auto nftables ipset iptables hosts.deny set-only exec none" eg:"[nftables, hosts.deny]"`
	Action   string   `key:"action" doc:"what to do with packets from a blocked prefix" default:"drop" what:"an action" words:"drop reject slow"`
	Hook     string   `key:"hook" doc:"netfilter hook: input, or prerouting (earlier; drop only)" default:"input" what:"a hook" words:"input prerouting"`
	Forward  bool     `key:"forward" doc:"also block forwarded traffic, such as that of containers" default:"true"`
	Ports    []Ports  `key:"ports" doc:"blocked ports (default: all)" eg:"[22, 8000-8999, udp/53]"`
	Cut      bool     `key:"cut" doc:"also cut established connections of a blocked prefix" default:"false"`
	SlowRate int      `key:"slow_rate" doc:"new connections per minute with action slow" default:"3" range:"1..600" eg:"10"`
	MaxRules int      `key:"max_rules" doc:"maximum number of blocks of the backend iptables" default:"2000" range:"1..100000"`
	MaxSet   int      `key:"max_set" doc:"maximum number of elements in a set" default:"1048576" range:"1..100000000"`
	// HostsDeny is the file of the hosts.deny wall.
	HostsDeny string   `key:"hosts_deny" doc:"the file of the backend hosts.deny" default:"/etc/hosts.deny" is:"path"`
	Sets      Sets     `key:"sets" doc:"for set-only: the sets that your own firewall rules use" eg:"{kind: ipset, ipv4: blocked}"`
	Exec      ExecWall `key:"exec" doc:"for exec: your programs" default:"{}" eg:"{block: [/usr/local/bin/wall, add], unblock: [/usr/local/bin/wall, del]}"`
}

// Sets names sets of the administrator's own for the set-only wall.
type Sets struct {
	Kind  string `in:"sets" key:"kind,required" doc:"ipset or nft" what:"a kind of set" words:"ipset nft"`
	Table string `key:"table" doc:"for nft: family and table" is:"table" eg:"inet filter"`
	V4    string `key:"ipv4" doc:"name of the set for IPv4 prefixes" is:"set" eg:"blocked4"`
	V6    string `key:"ipv6" doc:"name of the set for IPv6 prefixes" is:"set" eg:"blocked6"`
}

// ExecWall is a wall made of the administrator's programs: argument lists, no
// shell. Prefixes come one a line on standard input.
type ExecWall struct {
	Block   []string      `in:"exec" key:"block,required" is:"argv" doc:"program and arguments; it gets prefixes on standard input" eg:"[/usr/local/bin/wall, add]"`
	Unblock []string      `key:"unblock,required" is:"argv" doc:"program and arguments; it gets prefixes on standard input" eg:"[/usr/local/bin/wall, del]"`
	Timeout time.Duration `key:"timeout" doc:"timeout of a call" default:"10s" range:"1s..10m" eg:"5s"`
}

// Ports is an inclusive range of ports of one protocol ("tcp", "udp", "" = both).
type Ports struct {
	Proto    string
	From, To uint16
}

// Flags is where raised flags are shown as files.
type Flags struct {
	Dir string `in:"flags" key:"dir,required" doc:"folder for the files" is:"path" what:"a folder" eg:"/run/flags"`
}

// Fleet is how this machine counts together with others. Mode is empty when it
// does not.
type Fleet struct {
	Mode   string   `in:"fleet" key:"mode" doc:"observe: report what the fleet would have blocked here; on: block it" words:"observe on" default:"observe"`
	Quorum int      `key:"quorum" doc:"nodes that must have seen failures of a prefix" range:"2..200" default:"2"`
	Cap    int      `key:"cap" doc:"points of one node that count (default: capacity + 1, divided by quorum, rounded up)" range:"1..65536" eg:"3"`
	Share  []string `key:"share" doc:"what is shared: counts, and orders of operators to block (and unblock), allow, and raise flags" words:"counts blocks allow flags" what:"what to share" default:"[counts, blocks, allow, flags]" eg:"[counts]"`
	Rules  []string `key:"rules" doc:"rules whose counts are shared (default: all that count by prefix alone)" what:"the name of a rule" eg:"[ssh-login]"`
}

// Limits bound memory and disk.
type Limits struct {
	Buckets   int `in:"limits" key:"buckets" doc:"buckets in each table, about 40 bytes each" default:"250000" range:"1000..100000000"`
	Blocks    int `key:"blocks" doc:"live blocks" default:"200000" range:"16..10000000"`
	KnownGood int `key:"known_good" doc:"known-good logins" default:"100000" range:"16..10000000"`
	Strikes   int `key:"strikes" doc:"prefixes whose earlier blocks are remembered" default:"100000" range:"16..10000000"`
	Evidence  int `key:"evidence" doc:"memory for recent log lines that explain blocks" default:"4MiB" is:"size" range:"64KiB..1GiB"`
	LineBytes int `key:"line" doc:"longest log line; longer ones are truncated" default:"1MiB" is:"size" range:"1KiB..1MiB" eg:"16KiB"`
	Audit     int `key:"audit" doc:"size of each of the four audit files" default:"16MiB" is:"size" range:"64KiB..1GiB"`
}

// Log is how stoplog writes its own log.
type Log struct {
	Format string `in:"the log" key:"format" doc:"text, or fail2ban: blocks are written as fail2ban writes bans, for programs that read its log" default:"text" what:"a format" words:"text fail2ban"`
}

// Privacy says what is kept of log lines.
type Privacy struct {
	Lines bool          `in:"privacy" key:"lines" doc:"store log lines and user names to explain blocks; false: only counts and prefixes" default:"true"`
	Keep  time.Duration `key:"keep" doc:"delete entries of the audit trail after this time (default: when its files are full)" range:"1h..366d" eg:"30d"`
}

// Listener is what the listeners have in common. Addr is "host:port" or an
// absolute path of a unix socket; empty: off.
type Listener struct {
	Addr      string         `in:"a listener" key:"addr" doc:"host:port (loopback without a host) or the path of a unix socket" is:"listen" eg:"127.0.0.1:8080"`
	TokenFile string         `key:"token_file" doc:"a file with the token that clients must send" is:"path" eg:"/etc/stoplog/token"` // absolute
	Clients   []netip.Prefix `key:"clients" doc:"addresses that may connect (default: any)" what:"an address or prefix" eg:"[192.0.2.0/24]"`
	Hosts     []string       `key:"hosts" doc:"host names of the page, in addition to IP addresses and localhost" is:"host" eg:"stoplog.example.net"`
	Ports     Guarded        `key:"ports" doc:"also take blocks of single ports: those of these ports, or any (default for web servers: 80 and 443)" eg:"any"`
}

func (w *Widen) check(p place) {
	w.On = true
	if w.Lens.V4 > 31 || w.Lens.V6 > 127 {
		p.fail("ipv4: 24", "widen needs networks of more than one address")
	}
}

func (l *Listener) check(p place) {
	if l.Addr == "" {
		p.fail("addr: 127.0.0.1:8080", "a listener needs addr")
	}
}

// Listen are the doors by HTTP, each off unless it has an address.
type Listen struct {
	Page    Listener `in:"listen" key:"page" doc:"the web page" omit:"ports" eg:"{addr: 127.0.0.1:8080}"`
	Feed    Listener `key:"feed" doc:"the blocklist for other firewalls" omit:"hosts" eg:"{addr: 127.0.0.1:8081}"`
	Metrics Metrics  `key:"metrics" doc:"metrics for Prometheus" omit:"hosts ports" eg:"{addr: 127.0.0.1:9100}"`
	Check   Check    `key:"check" doc:"the check for proxies: is this client blocked?" omit:"hosts" eg:"{addr: 127.0.0.1:8082, header: x-real-ip, trusted: 127.0.0.1}"`
}

// Metrics is for Prometheus: a listener, a textfile, or both.
type Metrics struct {
	Listener
	Textfile string `in:"metrics" key:"textfile" doc:"a file for node_exporter's textfile collector" is:"path" eg:"/var/lib/node_exporter/stoplog.prom"`
}

func (m *Metrics) check(p place) {
	if m.Textfile == "" {
		m.Listener.check(p)
	}
}

// Check answers "may this client pass?" for proxies.
type Check struct {
	Listener
	Header  string         `in:"check" key:"header,required" doc:"header with the client's address" is:"header" eg:"x-real-ip"` // lower case
	Trusted []netip.Prefix `key:"trusted,required" doc:"peers whose header is trusted" what:"the address or prefix of a peer" eg:"127.0.0.1"`
	Status  int            `key:"status" doc:"HTTP status of a refusal: 403 for nginx, 429 for Caddy, Traefik and HAProxy" what:"a status" default:"403" range:"403..429" eg:"429"`
	// PortHeader holds the port that the client came to, in small letters.
	PortHeader string `key:"port_header" doc:"header with the port that the client connected to; the proxy must set it" is:"header" eg:"x-port"`
}

// Notify is somebody to tell. Exactly one of Webhook, Email and Exec is set.
type Notify struct {
	Name     string
	Webhook  string            `in:"a target" key:"webhook" doc:"a URL to which messages are sent by POST" is:"url" eg:"https://example.org/hook"`
	Headers  map[string]string `key:"headers" doc:"HTTP headers of the POST" what:"a header value" eg:"{Authorization: Bearer x}"`
	Email    Email             `key:"email" doc:"e-mail recipients and server" eg:"{to: ops@example.org, from: stoplog@example.org, server: localhost:25}"`
	Exec     []string          `key:"exec" is:"argv" doc:"a program; it gets the message on standard input" eg:"[/usr/bin/logger, -t, stoplog]"`
	Template string            `key:"template" doc:"template of the message, in Go's text/template (default: a built-in one)" is:"tmpl" eg:"'{{.Prefix}} is blocked'"`
	Group    time.Duration     `key:"group" doc:"minimum time between messages; breaches within it are one message" default:"30s" range:"0s..1d" eg:"1m"`
	Limit    int               `key:"limit" doc:"maximum number of messages per hour" default:"60" range:"1..10000" eg:"5"`
	Timeout  time.Duration     `key:"timeout" doc:"timeout of one attempt" default:"10s" range:"1s..5m" eg:"30s"`
}

func (t *Notify) check(p place) {
	ways := 0
	for _, way := range []string{"webhook", "email", "exec"} {
		if p.has(way) {
			ways++
		}
	}
	if ways != 1 {
		p.fail("", "a target needs one of webhook, email and exec")
	}
}

// Email is where a message goes, by which server.
type Email struct {
	To           []string `in:"email" key:"to,required" doc:"recipients" is:"email" eg:"ops@example.net"`
	From         string   `key:"from,required" doc:"sender" is:"email" eg:"stoplog@example.net"`
	Server       string   `key:"server,required" doc:"host:port of the mail server" what:"host:port" eg:"localhost:25"`
	User         string   `key:"user" doc:"user name at the mail server" what:"a user" eg:"stoplog"`
	PasswordFile string   `key:"password_file" doc:"a file with the password" is:"path" eg:"/etc/stoplog/mail.password"`
}

// Export is a file that is kept current while running.
type Export struct {
	Format string  `in:"an export" key:"format,required" doc:"a format of stoplog export --format" is:"name" what:"the name of a format" eg:"nginx"`
	File   string  `key:"file,required" doc:"the file to write" is:"path" eg:"/etc/nginx/deny.conf"`
	Ports  Guarded `key:"ports" doc:"also list blocks of single ports: those of these ports, or any (default for web servers: 80 and 443)" eg:"any"`
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
