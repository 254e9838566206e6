// Package session joins the lines of one connection into one attempt: it lends
// a line the address and user that earlier lines of the connection gave, and
// counts an attempt once, whichever lines report it.
package session

import (
	"encoding/binary"
	"math/bits"

	"stoplog/internal/parse"
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

// Joiner remembers what earlier lines of a connection said. One goroutine feeds
// it events in the order of their lines; its answers depend on nothing else. It
// remembers a bounded number of connections; the one silent longest makes room.
type Joiner struct {
	max   int
	index index
	conns []conn
	more  map[int32]*more // of the connections that have hasMore
	first int32           // the one longest silent
	last  int32           // the one that spoke last

	origin  *source.Origin // whose log salt was made of
	salt    uint64
	service string // whose name talk was made of
	talk    uint64
	silent  int64 // how long the connection that speaks had been silent, ns
}

// New returns a Joiner that remembers at most max connections, or 16384 when
// max is 0.
func New(max int) *Joiner {
	s := &Joiner{}
	s.reset(max)
	return s
}

func (s *Joiner) reset(max int) {
	if max < 1 {
		max = 1 << 14
	}
	*s = Joiner{max: min(maxSessions, max), first: -1, last: -1, more: map[int32]*more{}}
}

// maxSessions is the most that New gives.
const maxSessions = 1 << 24

// Len is the number of connections remembered.
func (s *Joiner) Len() int { return s.index.n }

// Join completes ev, an event of origin, by what earlier lines of its
// connection told, and counts an attempt once, whichever lines tell of it:
//
//   - an event without an address gets its connection's, and a user likewise;
//   - ev.Count of a failure becomes what it adds to the most that any one
//     class of lines told of: 0 when the attempt was counted already;
//   - what PAM says of an address and what the service says of it are two
//     tellings of the same attempts, also when other processes tell them;
//   - what PAM says of a connection in which somebody has logged in is 0: one
//     module of its stack refused what the next one took;
//   - ev.First says whether a failure is the first that is counted of its
//     connection;
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
func (s *Joiner) Join(ev *parse.Event, origin *source.Origin) {
	ev.First = false
	byPAM := ev.Class == parse.ClassPAM || ev.Class == parse.ClassOtherPAM
	var key uint64
	if ev.Conn != 0 {
		key = s.key(ev.Conn, ev, origin)
		i, known := s.index.find(key, s.conns)
		i = s.speak(i, known, key, ev.Time)
		s.lend(i, ev)
		switch {
		case byPAM && s.conns[i].is&admitted != 0:
			ev.Count = 0
			return
		case !byPAM:
			s.count(i, ev)
		}
		if ev.Outcome == parse.Success {
			s.conns[i].is |= admitted
		}
	}
	if ev.Outcome != parse.Failure {
		return
	}
	if !ev.Addr.IsValid() {
		if ev.Conn != 0 {
			ev.Count = 0
		}
		return
	}
	s.converse(ev, origin, byPAM)
	ev.First = ev.Count > 0 && ev.Conn != 0 && s.begins(key)
}

// begins reports whether no failure was counted of the connection of that key
// before, and notes that one is now.
func (s *Joiner) begins(key uint64) bool {
	i, known := s.index.find(key, s.conns)
	if !known {
		return true // so many talk that it had to go
	}
	was := s.conns[i].is & failed
	s.conns[i].is |= failed
	return was == 0
}

// lend gives ev what is known of its connection, and learns from it.
func (s *Joiner) lend(i int32, ev *parse.Event) {
	c := &s.conns[i]
	teaches := ev.Outcome == parse.Other && ev.Kind == parse.Plain && ev.Class > 0
	if ev.Addr.IsValid() {
		if teaches || c.is&(hasV4|hasV6) != 0 && c.addr() != ev.Addr {
			s.forget(i)
		}
		c.learn(ev.Addr)
	} else {
		ev.Addr = c.addr()
	}
	if teaches && len(ev.User) > 0 {
		s.moreOf(i).user = append([]byte(nil), ev.User[:min(len(ev.User), maxTaught)]...)
	} else if len(ev.User) == 0 && c.is&hasMore != 0 {
		if u := s.more[i].user; len(u) > 0 {
			ev.User = u
		}
	}
}

// converse sets PAM's tellings of an address against the service's own. With
// keyboard-interactive, sshd asks PAM in a process of its own, so that the
// process ids differ.
func (s *Joiner) converse(ev *parse.Event, origin *source.Origin, byPAM bool) {
	key := s.key(s.talkOf(ev), ev, origin)
	i, known := s.index.find(key, s.conns)
	if !known && !byPAM && ev.Service != "sshd" {
		return
	}
	i = s.speak(i, known, key, ev.Time)
	class := uint8(1)
	if byPAM {
		class = ev.Class
	}
	if n := uint32(max(ev.Count, 0)); n > 0 {
		s.add(i, class, n)
	}
	t, most := &s.conns[i], s.most(i)
	ev.Count = int(most - t.counted)
	t.counted = most
}

// talkMark sets the keys of addresses apart from those of connections.
const talkMark = 0x5bd1e995c6a4a793

// talkOf names the talk about the address of ev.
func (s *Joiner) talkOf(ev *parse.Event) uint64 {
	if ev.Service != s.service || s.talk == 0 {
		s.service, s.talk = ev.Service, parse.ConnID(ev.Service, nil)
	}
	a := ev.Addr.As16()
	x, y := bits.Mul64(binary.BigEndian.Uint64(a[:8])^s.talk, binary.BigEndian.Uint64(a[8:])^talkMark)
	return x ^ y ^ talkMark
}

func (s *Joiner) key(id uint64, ev *parse.Event, origin *source.Origin) uint64 {
	if origin != s.origin {
		s.origin, s.salt = origin, 0
		if origin != nil {
			s.salt = parse.ConnID("", []byte(origin.Whole()))
		}
	}
	k := (id ^ s.salt) * 0x9e3779b97f4a7c15
	if ev.Verified {
		k ^= 0xd6e8feb86659fd93
	}
	return k
}

// speak puts the connection of key last, which is number i or else not yet
// known, and returns its number.
func (s *Joiner) speak(i int32, known bool, key uint64, at int64) int32 {
	switch {
	case known:
		s.unlink(i)
	case len(s.conns) < s.max:
		i = int32(len(s.conns))
		s.conns = append(s.conns, conn{})
	default:
		i = s.first
		s.unlink(i)
		s.index.drop(i, s.conns[i].key)
	}
	c := &s.conns[i]
	if !known {
		s.forget(i)
		c.key, c.at = key, 0
		s.index.put(i, key)
	} else if at-c.at > sessionIdle && at != 0 && c.at != 0 {
		s.forget(i)
	}
	s.silent = 0
	if at != 0 {
		s.silent = max(at-c.at, 0)
		c.at = max(at, c.at)
	}
	s.append(i)
	return i
}

func (s *Joiner) unlink(i int32) {
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

func (s *Joiner) append(i int32) {
	c := &s.conns[i]
	c.prev, c.next = s.last, -1
	if s.last >= 0 {
		s.conns[s.last].next = i
	} else {
		s.first = i
	}
	s.last = i
}

// count sets ev.Count to what ev adds.
func (s *Joiner) count(i int32, ev *parse.Event) {
	c := &s.conns[i]
	switch {
	case ev.Outcome == parse.Failure:
		s.add(i, ev.Class, uint32(max(ev.Count, 1)))
		ev.Count = 0
		if most := s.most(i); ev.Addr.IsValid() && most > c.counted {
			ev.Count = int(most - c.counted)
			c.counted = most
		}
	case ev.Outcome == parse.Other && s.waits(i, ev):
		ev.Outcome, ev.Count = parse.Failure, int(s.most(i)-c.counted)
		c.counted = s.most(i)
	case ev.Outcome == parse.Other && (ev.Kind == parse.Probe || ev.Kind == parse.Plain && c.is&nameless != 0 && ev.Class == 0):
		ev.Kind = parse.Probe
		c.countProbe(ev)
	}
}

// waits reports whether failures wait for the address that ev brings.
func (s *Joiner) waits(i int32, ev *parse.Event) bool {
	return ev.Kind == parse.Plain && ev.Class == 0 && ev.Addr.IsValid() && s.most(i) > s.conns[i].counted && s.silent <= waitsFor
}
