package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// sessionsMagic begins the state of Joiner, and names its form.
const sessionsMagic = "stoplog-sessions-1\n"

// MarshalBinary writes what is remembered, the longest silent first. It fails
// never.
func (s *Joiner) MarshalBinary() ([]byte, error) {
	b := append(make([]byte, 0, 64+s.index.n*80), sessionsMagic...)
	b = binary.AppendUvarint(b, uint64(s.max))
	b = binary.AppendUvarint(b, uint64(s.index.n))
	for i := s.first; i >= 0; i = s.conns[i].next {
		b = s.appendConn(b, i)
	}
	return b, nil
}

func (s *Joiner) appendConn(b []byte, i int32) []byte {
	c := &s.conns[i]
	b = binary.LittleEndian.AppendUint64(b, c.key)
	b = binary.AppendVarint(b, c.at)
	b = appendBytes(b, c.addr().AsSlice())
	var user []byte
	if c.is&hasMore != 0 {
		user = s.more[i].user
	}
	b = appendBytes(b, user)
	b = binary.AppendUvarint(b, uint64(c.counted))
	flags := byte(0)
	if c.is&probed != 0 {
		flags |= 1
	}
	if c.is&nameless != 0 {
		flags |= 2
	}
	if c.is&failed != 0 {
		flags |= 4
	}
	if c.is&admitted != 0 {
		flags |= 8
	}
	b = append(b, flags)
	n := 0
	for _, sum := s.tally(i, n); sum > 0; _, sum = s.tally(i, n) {
		n++
	}
	b = append(b, byte(n))
	for k := range n {
		class, sum := s.tally(i, k)
		b = binary.AppendUvarint(append(b, class), uint64(sum))
	}
	return b
}

func appendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

var errSessions = errors.New("sessions' state is damaged")

// UnmarshalBinary replaces what is remembered by what MarshalBinary wrote. It
// keeps its own bound, and the connections that spoke last when the state has
// more. On an error nothing is remembered.
func (s *Joiner) UnmarshalBinary(b []byte) error {
	keep := s.max
	s.reset(keep)
	if len(b) < len(sessionsMagic) || string(b[:len(sessionsMagic)]) != sessionsMagic {
		return fmt.Errorf("%w: it does not begin as one", errSessions)
	}
	r := reader{b: b[len(sessionsMagic):]}
	stored := r.uvarint()
	if keep <= 0 {
		s.reset(int(min(stored, maxSessions)))
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.conn(s)
	}
	if r.bad || len(r.b) > 0 {
		s.reset(s.max)
		return errSessions
	}
	return nil
}

// reader takes values off b; bad is set once they do not fit.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return r.took(v, n)
}

func (r *reader) took(v uint64, n int) uint64 {
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	return int64(r.took(uint64(v), n))
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if v := r.bytes(1); len(v) == 1 {
		return v[0]
	}
	return 0
}

// conn reads one connection into s.
func (r *reader) conn(s *Joiner) {
	var key uint64
	if k := r.bytes(8); len(k) == 8 {
		key = binary.LittleEndian.Uint64(k)
	}
	at := r.varint()
	var addr netip.Addr
	if a := r.bytes(r.uvarint()); len(a) > 0 {
		var ok bool
		addr, ok = netip.AddrFromSlice(a)
		r.bad = r.bad || !ok
	}
	user := r.bytes(r.uvarint())
	r.bad = r.bad || len(user) > maxTaught
	counted, flags, n := uint32(min(r.uvarint(), 1<<30)), r.byte(), int(r.byte())
	if r.bad = r.bad || n > maxClasses; r.bad {
		return
	}
	i, known := s.index.find(key, s.conns)
	i = s.speak(i, known, key, at)
	s.forget(i)
	c := &s.conns[i]
	c.at, c.counted = at, counted
	c.learn(addr)
	c.is |= flags&1*probed | flags>>1&1*nameless | flags>>2&1*failed | flags>>3&1*admitted
	if len(user) > 0 {
		s.moreOf(i).user = append([]byte(nil), user...)
	}
	for k := range n {
		s.setTally(i, k, r.byte(), uint32(min(r.uvarint(), 1<<30)))
	}
}
