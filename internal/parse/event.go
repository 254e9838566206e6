// Package parse turns a line into an event. The address of an event is taken
// only from a position that the logging program controls; a line that can be
// read in two ways is read in none. Names are never resolved.
package parse

import "net/netip"

// Outcome is what became of what the line tells of.
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
	Time    int64      // Unix nanoseconds by the log's own stamp; 0: the line has none
	Addr    netip.Addr // never an IPv4-mapped IPv6 address, never zoned; invalid when the line has none
	Service string     // "sshd", "postfix", "nginx"…: interned, safe to keep
	Outcome Outcome
	Kind    Kind
	User    []byte
	Message []byte // the line after its envelope

	// Conn identifies the connection that the line belongs to within its
	// origin (service and process or session id, hashed); 0 when unknown.
	Conn uint64
	// Class says which of a service's several ways to tell of one attempt
	// this is; Sessions counts an attempt once, whatever classes tell of it.
	Class uint8
	// Count is how many attempts the line tells of: 1, more for "message
	// repeated 5 times" and "PAM 2 more authentication failures", and 0 once
	// Sessions has found that they were counted already.
	Count int
	// First: the attempts are the first that are counted of their connection, as
	// Sessions sees it; never of a line without Conn.
	First bool
	// Verified: a local user without rights cannot have forged the line (the
	// journal's own fields say so, or its origin is written by the server).
	Verified bool
	// Informs: the line may be reported, and counts toward no block, lockdown or
	// flag: it is by a program that any local user starts (su, sudo).
	Informs bool

	// Access logs.
	Method, Path, Query, Agent, Referrer, Host []byte
	Status                                     uint16

	Fields []Field // anything else captured; the slice is reused
}
