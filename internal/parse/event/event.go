// Package event holds what the scanners of all families share: the message
// that they read and the event that they make of it.
package event

import (
	"net/netip"
	"time"
)

// Outcome is the result that a line reports.
type Outcome uint8

const (
	Other   Outcome = iota // neither: a request served, a connection without a user
	Failure                // a login, authentication or admission that failed
	Success                // a login that succeeded
)

func (o Outcome) String() string { return [...]string{"other", "failure", "success"}[o] }

// Kind refines an outcome. The zero kind is the ordinary one.
type Kind uint8

const (
	Plain       Kind = iota
	Probe            // a connection that named no user
	UnknownUser      // a failure of an account that does not exist
	Limited          // refused by a rate or connection limit of the service
	Forbidden        // refused by policy (ACL, relay, modsecurity…)
)

func (k Kind) String() string {
	return [...]string{"", "probe", "unknown_user", "limited", "forbidden"}[k]
}

// Field is one more named value of a line, for rules that ask for it.
type Field struct {
	Name  string
	Value []byte
}

// Event is what one line says. Byte slices alias the line (or memory of the
// parser that lives until its next Reset) and must be copied to be kept.
type Event struct {
	Time    int64      // Unix nanoseconds of the log's own timestamp; 0: the line has none
	Addr    netip.Addr // never an IPv4-mapped IPv6 address, never zoned; invalid when the line has none
	Service string     // "sshd", "postfix", "nginx"…: interned, safe to keep
	Outcome Outcome
	Kind    Kind
	User    []byte
	Message []byte // the line after its envelope

	// Conn identifies the connection that the line belongs to within its
	// origin (service and process or session id, hashed); 0 when unknown.
	Conn uint64
	// Class distinguishes a service's several ways to report one attempt. The
	// attempts of a connection are the most that one class reports.
	Class uint8
	// Count is how many attempts the line reports: 1, more for "message
	// repeated 5 times" and "PAM 2 more authentication failures", and 0 when
	// package session found that they were counted already.
	Count int
	// First: these attempts are the first counted of their connection, according
	// to package session; never set on a line without Conn.
	First bool
	// Verified: a local user without rights cannot have forged the line (the
	// journal's own fields say so, or its origin is written by the server).
	Verified bool
	// Informs: the line may be reported, and counts toward no block, lockdown or
	// flag: its program (su, sudo) can be started by any local user.
	Informs bool

	// Access logs.
	Method, Path, Query, Agent, Referrer, Host []byte
	Status                                     uint16

	Fields []Field // anything else captured; the slice is reused
}

// Set fills what every event has and returns true. a may be invalid.
func (ev *Event) Set(service string, o Outcome, k Kind, a netip.Addr) bool {
	ev.Service, ev.Outcome, ev.Kind, ev.Addr, ev.Count = service, o, k, a, 1
	return true
}

// Message is what scanners know about the message that they read, beside its
// text. Its slices alias the line.
type Message struct {
	Tag    []byte         // of syslog or the journal, without process id, path and "(pam_unix)"; nil when there is none
	PID    []byte         // process id, nil when unknown; a scanner may set it from the message
	Module []byte         // "pam_unix(sshd:auth)" or "(pam_unix)" out of the tag
	Ref    int64          // timestamps without a year are read near this time (Unix ns)
	Loc    *time.Location // zone of timestamps that name none
	Hint   string         // the service that the source names, "" when it names none
}

// Scanner reads one message of one family of logs. It fills ev and reports
// whether it understood the message. It takes the address only from a position
// that the logging program controls.
//
// A line of a connection sets Conn by ConnID. Each of a service's ways to report
// one attempt has its own Class. A line that starts a connection is a plain Other
// with a Class and the address, and supplies address and user to lines that lack
// them (see session.Joiner.Join).
type Scanner func(m *Message, text []byte, ev *Event) bool

// ClassOnce is the first of the classes that report at most one attempt of a
// connection, however many lines they have. Below it every line is an attempt.
const ClassOnce = 128

// What PAM reports, the service reports as well: see session.Joiner.Join.
// pam_unix counts separately from other modules, which may report the same.
const (
	ClassPAM      = 127
	ClassOtherPAM = 126
)

// ConnID hashes what identifies a connection within its origin: the service
// and its process, session or connection id. It is never 0.
func ConnID(service string, id []byte) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(service) {
		h = (h ^ uint64(service[i])) * 1099511628211
	}
	h = (h ^ 0xff) * 1099511628211
	for _, c := range id {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h | 1
}

// ConnFrom is ConnID for an id that is unique only together with the client's
// address: a user, or a process that serves one client after another.
func ConnFrom(service string, id []byte, a netip.Addr) uint64 {
	b := a.As16()
	return ConnID(service, id) ^ ConnID("", b[:]) | 1
}

// Join marks ev as one of several events that the process of m writes about its
// connection with ev.Addr.
func (m *Message) Join(ev *Event, class uint8) {
	if len(m.PID) > 0 && ev.Addr.IsValid() {
		ev.Conn, ev.Class = ConnFrom(ev.Service, m.PID, ev.Addr), class
	}
}

// Shape is how a line of a text log stands to the records of its program, for
// programs that write what a client sent with the line breaks in it. The client
// can then write whole lines, and end the record's first line itself. The zero
// Shape is a record of one line, or a line of a program that escapes line breaks.
type Shape struct {
	// Reach is how far, from the line's start, a record that begins here can go
	// on; 0 when it cannot. It is in bytes, or with Chars in characters.
	Reach int
	Chars bool
	// Time is the timestamp of a record that can go on, Unix nanoseconds, 0 without.
	Time int64
	// Broken: the record does go on, for the line lacks what ends it.
	Broken bool
	// Ends: a record that began on an earlier line may end here, and would be of
	// Client; of somebody unknown when Client is invalid. The record's text up to
	// At, from the line's start, was within its reach then.
	Ends   bool
	At     int
	Client netip.Addr
	// Weak: other lines may end like that, too; the end names a client only behind
	// a line that is Open.
	Weak bool
	// Open: the line lacks the end of its record, which names the client.
	Open bool
	// Failing: whatever pattern the line begins or ends like, it is a failure's.
	Failing bool
	// First is the client of the record that begins here, when the record names it
	// before all text of the client's: the lines behind may be its text.
	First netip.Addr
}
