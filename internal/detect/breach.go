// Package detect pours events into the buckets of rules and says when one
// runs over. It knows no clock and does no I/O: the same order of lines gives
// the same breaches live, in replay, and read late.
package detect

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

// Verdict is what is already known about an event's source.
type Verdict uint8

const (
	Stranger  Verdict = iota
	KnownGood         // this user logged in to this service from this address lately
	Allowed           // on the allowlist or protected: never counted, never blocked
	Blocked           // a block stands at the event's time: nothing is poured
)

// Gate answers what the ledger knows. It must be pure over one Observe call.
type Gate interface {
	// Verdict judges addr for service and user at the event time at (Unix ns).
	Verdict(addr netip.Addr, service string, user []byte, at int64) Verdict
	// KnownAddr reports whether anyone logged in from addr to service lately.
	KnownAddr(addr netip.Addr, service string, at int64) bool
	// Struck returns when the last block of p that counts for its escalation ended,
	// or will end; false when it has no strikes at the instant at.
	Struck(p netip.Prefix, at int64) (ended int64, ok bool)
	// Flag reports whether the named flag is raised at the event time.
	Flag(name string, at int64) bool
}

// AnswerKind is one way to answer a breach.
type AnswerKind uint8

const (
	Block             AnswerKind = iota // by Action, of Prefix
	BlockContributors                   // of each of Contributors
	Observe
	RaiseFlag
	Lockdown
	Notify
	Exec
)

// Answer is one element of a rule's `then`. Fields that a kind does not use
// are zero.
type Answer struct {
	Kind   AnswerKind
	Action string        // drop, reject, slow; "" = the configured default
	Flag   string        // RaiseFlag
	For    time.Duration // RaiseFlag, Lockdown
	Ports  []Ports       // Block and Lockdown; none = all
	Cut    bool          // Block: cut running connections too
	Target string        // Notify: its name
	Argv   []string      // Exec
}

// Ports is an inclusive range of ports of one protocol ("tcp", "udp", "" = both).
type Ports struct {
	Proto    string
	From, To uint16
}

// Breach is a bucket that ran over: what the ledger gets. It owns its memory.
type Breach struct {
	At            int64        // event time of the line that breached, Unix ns
	Rule          string       // its name
	Level         int          // index of the rule's bucket that breached
	Key           string       // what was counted, printable ("192.0.2.0/28", "user=root", "all")
	Prefix        netip.Prefix // what a Block answer blocks; invalid when the key has no address
	Addr          netip.Addr   // of the line that breached
	Service, User string
	Services      []string // those that the rule looks at; nil = any
	// Count is how many events filled the bucket, the breaching one included:
	// those since it was last empty, or within the window. Points are the weight
	// of them that the bucket held. Of a distinct window both are the number of
	// different values. Unit names what Count counts, in the singular.
	Count, Points int
	Unit          string
	TTL           time.Duration // of the level or rule, before escalation; 0: the configured default
	// Multiply and Max are the rule's own escalation; 0: the configured one.
	Multiply float64
	Max      time.Duration
	// Narrow, of a block of a network, is the length of the prefixes that were
	// counted in it: known-good ones inside go on. 0: a block of its own source.
	Narrow       int
	Contributors []netip.Prefix // for BlockContributors
	Evidence     []string       // lines that filled the bucket, oldest first, bounded
	Partial      bool           // the bucket held more than Evidence shows
	Source       string         // origin of the breaching line
	Line         int64          // its number there, 0 when unknown
	Answers      []Answer
	Nodes        []string // machines of a fleet whose counts filled the bucket together
	Observe      bool     // the rule only tells
}

// Counted says how much breached: "6 failures", "2 failures, 6 points", "11
// different users".
func (b *Breach) Counted() string {
	s := Quantity(b.Count, b.Unit)
	if b.Points > 0 && b.Points != b.Count {
		s += ", " + Quantity(b.Points, "point")
	}
	return s
}

// Quantity writes a number and what it counts, named in the singular: "event"
// when unit is empty.
func Quantity(n int, unit string) string {
	if unit == "" {
		unit = "event"
	}
	switch {
	case n == 1:
	case strings.HasSuffix(unit, "s"), strings.HasSuffix(unit, "x"):
		unit += "es"
	default:
		unit += "s"
	}
	return strconv.Itoa(n) + " " + unit
}

// unit names what the level counts of events like ev.
func (l *level) unit(ev *parse.Event) string {
	switch {
	case l.Kind == rules.Distinct:
		return "different " + l.Of.String()
	case ev.Outcome == parse.Failure:
		return "failure"
	case len(ev.Method) > 0:
		return "request"
	}
	return "event"
}
