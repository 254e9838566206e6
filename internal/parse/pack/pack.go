// Package pack is the language in which the long tail of services, and users
// in their rules, tell how a log line names a client: patterns in YAML, each
// with its samples beside it. A first look for fixed text decides which
// patterns are worth trying, so that a hundred of them cost next to nothing on
// a line of another service. The address is found first and the pattern then
// asked whether it may stand there: a line in which two different addresses
// could stand there matches nothing.
package pack

import (
	"net/netip"
	"sync"
	"time"
)

// Outcome and Kind are numbered as in package parse.
const (
	Other uint8 = iota
	Failure
	Success
)

const (
	Plain uint8 = iota
	Probe
	UnknownUser
	Limited
	Forbidden
)

var outcomes = map[string]uint8{"other": Other, "failure": Failure, "success": Success}

var kinds = map[string]uint8{"probe": Probe, "unknown_user": UnknownUser, "limited": Limited, "forbidden": Forbidden}

// Field is one more named group of a pattern.
type Field struct {
	Name  string
	Value []byte
}

// Match is what a pattern read in a line. Its byte slices alias the line or
// memory of this Match that lives until Reset, however many lines are read in
// between: at most about twice the bytes of those lines. A Match is used by one
// goroutine.
type Match struct {
	// Ref (Unix ns) and Loc are set by the caller, for stamps that lack a year
	// or a zone. A nil Loc is UTC.
	Ref int64
	Loc *time.Location

	Service string     // the pack's name
	Name    string     // the pattern's own name, often empty
	Outcome uint8      // Other, Failure, Success
	Kind    uint8      // Plain, Probe, UnknownUser, Limited, Forbidden
	Informs bool       // it may be reported, and counts toward no block
	Class   uint8      // which way of telling of one attempt this is, when Conn is set
	Addr    netip.Addr // invalid when the pattern has no address
	Time    int64      // Unix ns by the line's own stamp; 0: it has none
	Named   bool       // Time is what the pattern's group or field says
	User    []byte
	Conn    []byte // what identifies the connection or session, nil when untold
	Fields  []Field

	kept    []byte // unescaped and uncoloured texts, which values point into
	scratch []byte // the text that an expression runs over; no value points into it
}

// Reset gives up the memory that values of earlier lines live in.
func (m *Match) Reset() { m.kept = m.kept[:0] }

// clear undoes what a pattern that failed left. What was unescaped stays.
func (m *Match) clear() {
	*m = Match{Ref: m.Ref, Loc: m.Loc, Fields: m.Fields[:0], kept: m.kept, scratch: m.scratch}
}

// Pack is the patterns of one service. It is immutable but for the lazy
// reading of built-in ones, and safe for concurrent use.
type Pack struct {
	name     string
	origin   string
	programs []string
	logs     []string
	anyTag   bool
	nameless bool   // its name is no tag
	informs  bool   // its events are reported, and count toward no block
	tagOnly  bool   // never sniffed in a line without a tag
	oneLine  string // why no record of it holds a client's line break; "": it may
	raw      string // what a log file holds of clients' text that nothing guards; "": nothing known
	patterns []*pattern
	samples  []sample
	ignores  []string
	hostile  []sample

	once sync.Once
	data func() *Pack // reads a built-in pack's file at first need
}

// sample is a line with what must be read in it.
type sample struct {
	Line, IP, User, Outcome, Kind, Tag string
}

// SyslogOnly reports whether the pack reads what syslog tagged, and nothing else
// unless a source names the service.
func (p *Pack) SyslogOnly() bool { return p.tagOnly }

// Raw is which text of clients the service writes into its log file with its line
// breaks, in records that no pattern reads; "" when none is known.
func (p *Pack) Raw() string {
	p.pattern(0)
	return p.raw
}

// Name is the service that events of the pack carry.
func (p *Pack) Name() string { return p.name }

// Logs are the files the service usually writes, globs allowed.
func (p *Pack) Logs() []string { return p.logs }

// Programs are the syslog tags the service writes under, beside its name.
func (p *Pack) Programs() []string { return p.programs }

// pattern returns the i-th pattern, reading the pack's file if that was put
// off. It is nil when a built-in file has fewer, which its test rules out.
func (p *Pack) pattern(i int) *pattern {
	p.once.Do(func() {
		if p.data != nil {
			d := p.data()
			p.patterns, p.oneLine, p.raw = d.patterns, d.oneLine, d.raw
		}
	})
	if i >= len(p.patterns) {
		return nil
	}
	return p.patterns[i]
}
