package parse

import "time"

// scanner reads one message, after its envelope, of one family of logs. It
// fills ev and reports whether it understood the message. It sets Service,
// Outcome, Kind, User, Addr (only from a position that the logging program
// controls), and Conn, Class and Count where the family has them.
//
// A line of a connection sets Conn by connID. Each of a service's ways to tell
// of one attempt has a Class of its own: the attempts of a connection are the
// most that one class tells of (see Sessions.Join). A line that begins a
// connection is a plain Other with a Class and the address, and lends both
// address and user to lines that lack them.
type scanner func(p *Parser, msg []byte, ev *Event) bool

// ref is the time (Unix ns) that stamps without a year are read near.
func (p *Parser) ref() int64 { return p.now }

// loc is the zone of stamps that tell none.
func (p *Parser) loc() *time.Location { return p.opt.Location }

// hint is the service that the user says the lines are of, "" when sniffing.
func (p *Parser) hint() string { return p.opt.Service }

// connID hashes what identifies a connection within its origin: the service
// and its process, session or connection id. It is never 0.
func connID(service string, id []byte) uint64 {
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

// mixHost makes conn of one host differ from the same of another, in files
// that several hosts log to.
func mixHost(conn uint64, host []byte) uint64 {
	for _, c := range host {
		conn = (conn ^ uint64(c)) * 1099511628211
	}
	return conn | 1
}

// classOnce is where the classes begin that tell of one attempt, however often
// a connection's lines say so. Below it every line is an attempt.
const classOnce = 128

// What PAM tells of an attempt, the service tells, too: see Sessions.Join.
// pam_unix counts apart from the other modules, which may tell of the same.
const (
	classPAM      = 127
	classOtherPAM = 126
)
