package parse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// sessionsMagic begins the state of Sessions, and names its form.
const sessionsMagic = "stoplog-sessions-1\n"

// MarshalBinary writes what is remembered, the longest silent first. It fails
// never.
func (s *Sessions) MarshalBinary() ([]byte, error) {
	b := append(make([]byte, 0, 64+s.index.n*80), sessionsMagic...)
	b = binary.AppendUvarint(b, uint64(s.max))
	b = binary.AppendUvarint(b, uint64(s.index.n))
	for i := s.first; i >= 0; i = s.conns[i].next {
		b = s.conns[i].appendTo(b)
	}
	return b, nil
}

func (c *conn) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, c.key)
	b = binary.AppendVarint(b, c.at)
	b = appendBytes(b, c.addr.AsSlice())
	b = appendBytes(b, c.user)
	b = binary.AppendUvarint(b, uint64(c.counted))
	flags := byte(0)
	if c.probed {
		flags |= 1
	}
	if c.nameless {
		flags |= 2
	}
	b = append(b, flags)
	n := 0
	for n < len(c.classes) && c.classes[n].n > 0 {
		n++
	}
	b = append(b, byte(n))
	for _, t := range c.classes[:n] {
		b = binary.AppendUvarint(append(b, t.class), uint64(t.n))
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
func (s *Sessions) UnmarshalBinary(b []byte) error {
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
		c := r.conn()
		if !r.bad {
			s.restore(&c)
		}
	}
	if r.bad || len(r.b) > 0 {
		s.reset(s.max)
		return errSessions
	}
	return nil
}

func (s *Sessions) restore(c *conn) {
	to := s.speak(c.key, c.at)
	c.prev, c.next = to.prev, to.next
	*to = *c
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

func (r *reader) conn() (c conn) {
	if k := r.bytes(8); len(k) == 8 {
		c.key = binary.LittleEndian.Uint64(k)
	}
	c.at = r.varint()
	if a := r.bytes(r.uvarint()); len(a) > 0 {
		var ok bool
		c.addr, ok = netip.AddrFromSlice(a)
		r.bad = r.bad || !ok
	}
	if u := r.bytes(r.uvarint()); len(u) > 0 {
		c.user = append(c.user, u...)
		r.bad = r.bad || len(u) > maxTaught
	}
	c.counted = uint32(min(r.uvarint(), 1<<30))
	flags := r.byte()
	c.probed, c.nameless = flags&1 != 0, flags&2 != 0
	n := int(r.byte())
	if n > len(c.classes) {
		r.bad = true
		return c
	}
	for i := range n {
		c.classes[i] = tally{class: r.byte(), n: uint32(min(r.uvarint(), 1<<30))}
	}
	return c
}
