package parse

import (
	"net/netip"

	"stoplog/internal/source"
)

// sessionIdle is how long a connection may say nothing before its number is
// taken for another's: process ids come again.
const sessionIdle = int64(600e9)

// waitsFor is how long failures without an address wait for a line that is none
// itself to bring it.
const waitsFor = int64(120e9)

// maxTaught bounds the user that is remembered of a connection.
const maxTaught = 128

// Sessions remembers what earlier lines of a connection told. It is fed in
// the order of the lines, by one goroutine, and depends on nothing else: the
// same lines give the same events. It holds at most the number of connections
// that it was made for; the one longest silent makes room.
type Sessions struct {
	max   int
	index index
	conns []conn
	first int32 // the one longest silent
	last  int32 // the one that spoke last

	origin *source.Origin // whose name salt was made of
	salt   uint64
}

// conn is one connection; prev and next link the order of speaking.
type conn struct {
	key        uint64
	at         int64 // of its last line, Unix ns
	addr       netip.Addr
	user       []byte // never written to
	counted    uint32 // attempts that were counted
	silent     int64  // before its last line, ns
	probed     bool   // a probe was counted
	nameless   bool   // a line without an address told of a probe
	classes    [8]tally
	prev, next int32
}

// tally is how many attempts one class of lines told of.
type tally struct {
	class uint8
	n     uint32
}

// NewSessions returns one that remembers at most max connections, or 16384
// when max is 0.
func NewSessions(max int) *Sessions {
	s := &Sessions{}
	s.reset(max)
	return s
}

func (s *Sessions) reset(max int) {
	if max < 1 {
		max = 1 << 14
	}
	*s = Sessions{max: min(maxSessions, max), first: -1, last: -1}
}

// maxSessions is the most that NewSessions gives.
const maxSessions = 1 << 24

// Len is the number of connections remembered.
func (s *Sessions) Len() int { return s.index.n }

// Join completes ev, an event of origin, by what earlier lines of its
// connection told, and counts an attempt once, whichever lines tell of it:
//
//   - an event without an address gets its connection's, and a user likewise;
//   - ev.Count of a failure becomes what it adds to the most that any one
//     class of lines told of: 0 when the attempt was counted already;
//   - what PAM says of an address and what the service says of it are two
//     tellings of the same attempts, also when other processes tell them;
//   - a probe counts once a connection, and not after a failure; one that was
//     told without the address is counted by the next line that has it;
//   - failures that were told without the address are counted by the next line
//     that has it, which becomes a failure if it was a plain Other of Class 0
//     ("end connection"), and follows within two minutes: numbers come again.
//
// Other events without Conn stay as they are. An event of a connection that
// has no address in the end counts 0: the line that brings it counts it.
//
// A plain Other event with a Class and an address begins a connection, also
// where its number was seen before, and so does another address, or a silence
// of ten minutes. What an unverified line says is never used for a verified
// one.
func (s *Sessions) Join(ev *Event, origin *source.Origin) {
	byPAM := ev.Class == classPAM || ev.Class == classOtherPAM
	if ev.Conn != 0 {
		c := s.speak(s.key(ev.Conn, ev, origin), ev.Time)
		c.lend(ev)
		if !byPAM {
			c.count(ev)
		}
	}
	if ev.Outcome != Failure {
		return
	}
	if !ev.Addr.IsValid() {
		if ev.Conn != 0 {
			ev.Count = 0
		}
		return
	}
	s.converse(ev, origin, byPAM)
}

// lend gives ev what is known of its connection, and learns from it.
func (c *conn) lend(ev *Event) {
	teaches := ev.Outcome == Other && ev.Kind == Plain && ev.Class > 0
	if ev.Addr.IsValid() {
		if teaches || c.addr.IsValid() && c.addr != ev.Addr {
			c.forget()
		}
		c.addr = ev.Addr
	} else {
		ev.Addr = c.addr
	}
	if teaches && len(ev.User) > 0 {
		c.user = append([]byte(nil), ev.User[:min(len(ev.User), maxTaught)]...)
	} else if len(ev.User) == 0 && len(c.user) > 0 {
		ev.User = c.user
	}
}

// converse sets PAM's tellings of an address against the service's own. With
// keyboard-interactive, sshd asks PAM in a process of its own, so that the
// process ids differ.
func (s *Sessions) converse(ev *Event, origin *source.Origin, byPAM bool) {
	a := ev.Addr.As16()
	key := s.key(connID(ev.Service, a[:])^talkMark, ev, origin)
	if _, known := s.index.find(key, s.conns); !known && !byPAM && ev.Service != "sshd" {
		return
	}
	t := s.speak(key, ev.Time)
	class := uint8(1)
	if byPAM {
		class = ev.Class
	}
	if n := uint32(max(ev.Count, 0)); n > 0 {
		t.add(class, n)
	}
	most := t.most()
	ev.Count = int(most - t.counted)
	t.counted = most
}

// talkMark sets the keys of addresses apart from those of connections.
const talkMark = 0x5bd1e995c6a4a793

func (s *Sessions) key(id uint64, ev *Event, origin *source.Origin) uint64 {
	if origin != s.origin {
		s.origin, s.salt = origin, 0
		if origin != nil {
			s.salt = connID("", []byte(origin.Name))
		}
	}
	k := (id ^ s.salt) * 0x9e3779b97f4a7c15
	if ev.Verified {
		k ^= 0xd6e8feb86659fd93
	}
	return k
}

// speak finds or makes the connection of key and puts it last.
func (s *Sessions) speak(key uint64, at int64) *conn {
	i, known := s.index.find(key, s.conns)
	switch {
	case known:
		s.unlink(i)
	case len(s.conns) < s.max:
		i = int32(len(s.conns))
		s.conns = append(s.conns, conn{})
	default:
		i = s.first
		s.unlink(i)
		s.index.drop(i, s.conns)
	}
	c := &s.conns[i]
	if !known {
		*c = conn{key: key}
		s.index.put(i, s.conns)
	} else if at-c.at > sessionIdle && at != 0 && c.at != 0 {
		c.forget()
	}
	c.silent = 0
	if at != 0 {
		c.silent = max(at-c.at, 0)
		c.at = max(at, c.at)
	}
	s.append(i)
	return c
}

func (s *Sessions) unlink(i int32) {
	c := &s.conns[i]
	if c.prev >= 0 {
		s.conns[c.prev].next = c.next
	} else {
		s.first = c.next
	}
	if c.next >= 0 {
		s.conns[c.next].prev = c.prev
	} else {
		s.last = c.prev
	}
}

func (s *Sessions) append(i int32) {
	c := &s.conns[i]
	c.prev, c.next = s.last, -1
	if s.last >= 0 {
		s.conns[s.last].next = i
	} else {
		s.first = i
	}
	s.last = i
}

// forget begins c anew.
func (c *conn) forget() {
	*c = conn{key: c.key, at: c.at, prev: c.prev, next: c.next}
}

// count sets ev.Count to what ev adds.
func (c *conn) count(ev *Event) {
	switch {
	case ev.Outcome == Failure:
		c.add(ev.Class, uint32(max(ev.Count, 1)))
		ev.Count = 0
		if most := c.most(); ev.Addr.IsValid() && most > c.counted {
			ev.Count = int(most - c.counted)
			c.counted = most
		}
	case ev.Outcome == Other && c.waits(ev):
		ev.Outcome, ev.Count = Failure, int(c.most()-c.counted)
		c.counted = c.most()
	case ev.Outcome == Other && (ev.Kind == Probe || ev.Kind == Plain && c.nameless && ev.Class == 0):
		ev.Kind = Probe
		c.countProbe(ev)
	}
}

// waits reports whether failures wait for the address that ev brings.
func (c *conn) waits(ev *Event) bool {
	return ev.Kind == Plain && ev.Class == 0 && ev.Addr.IsValid() && c.most() > c.counted && c.silent <= waitsFor
}

func (c *conn) countProbe(ev *Event) {
	switch {
	case !ev.Addr.IsValid():
		ev.Count, c.nameless = 0, true
	case c.probed || c.counted > 0:
		ev.Count = 0
	default:
		ev.Count, c.probed, c.nameless = 1, true, false
	}
}

// add tallies n attempts of class. Beyond eight classes the last is shared.
func (c *conn) add(class uint8, n uint32) {
	for i := range c.classes {
		t := &c.classes[i]
		if t.n > 0 && t.class != class && i < len(c.classes)-1 {
			continue
		}
		t.class = class
		if class >= classOnce {
			t.n = max(t.n, 1)
		} else {
			t.n = min(t.n+n, 1<<30)
		}
		return
	}
}

// most is the largest tally.
func (c *conn) most() uint32 {
	var m uint32
	for i := range c.classes {
		m = max(m, c.classes[i].n)
	}
	return m
}
