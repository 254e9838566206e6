// Package held keeps, in some 25 bytes a block, what a firewall holds: Table for
// backends that remember it, Listing for what one lists, and Compare, which
// finds what to do so that a firewall holds what it should.
package held

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// heldTable is what a wall of sets knows to be where, in some 25 bytes an IPv4
// prefix: what all of many blocks share (K) is kept once. The zero table is empty.
type Table[K comparable] struct {
	kinds []K
	index map[K]uint16
	count map[K]int
	v4    map[uint64]Slot // address and length
	v6    map[key6]Slot
}

type Slot struct {
	Until uint32 // Unix seconds, rounded up
	kind  uint16 // in kinds
}

type key6 struct {
	hi, lo uint64
	bits   uint8
}

func key4Of(p netip.Prefix) uint64 {
	b := p.Addr().As4()
	return uint64(binary.BigEndian.Uint32(b[:]))<<8 | uint64(p.Bits())
}

func key6Of(p netip.Prefix) key6 {
	b := p.Addr().As16()
	return key6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), uint8(p.Bits())}
}

// get returns the kind of p.
func (t *Table[K]) Get(p netip.Prefix) (k K, there bool) {
	s, there := t.Slot(p)
	if there {
		k = t.kinds[s.kind]
	}
	return k, there
}

func (t *Table[K]) Slot(p netip.Prefix) (s Slot, there bool) {
	if p.Addr().Is4() {
		s, there = t.v4[key4Of(p)]
	} else {
		s, there = t.v6[key6Of(p)]
	}
	return s, there
}

// secondsOf is an instant as a slot has it: rounded up, 0 for any before 1970.
func SecondsOf(t time.Time) uint32 {
	return uint32(min(max(t.Add(time.Second-1).Unix(), 0), 1<<32-1))
}

// put notes that p is held; kinds are at most 65,536.
func (t *Table[K]) Put(p netip.Prefix, k K, until time.Time) {
	if t.index == nil {
		t.index, t.count, t.v4, t.v6 = map[K]uint16{}, map[K]int{}, map[uint64]Slot{}, map[key6]Slot{}
	}
	t.Drop(p)
	i, known := t.index[k]
	if !known {
		i = uint16(len(t.kinds))
		t.kinds, t.index[k] = append(t.kinds, k), i
	}
	s := Slot{SecondsOf(until), i}
	if p.Addr().Is4() {
		t.v4[key4Of(p)] = s
	} else {
		t.v6[key6Of(p)] = s
	}
	t.count[k]++
}

// drop forgets p.
func (t *Table[K]) Drop(p netip.Prefix) {
	k, there := t.Get(p)
	if !there {
		return
	}
	t.count[k]--
	if p.Addr().Is4() {
		delete(t.v4, key4Of(p))
	} else {
		delete(t.v6, key6Of(p))
	}
}

func (t *Table[K]) Len() int { return len(t.v4) + len(t.v6) }

// of counts the prefixes of one kind.
func (t *Table[K]) Of(k K) int { return t.count[k] }

// expire forgets what ended by now.
func (t *Table[K]) Expire(now time.Time) {
	at := uint32(now.Unix())
	for k, s := range t.v4 {
		if s.Until < at {
			delete(t.v4, k)
			t.count[t.kinds[s.kind]]--
		}
	}
	for k, s := range t.v6 {
		if s.Until < at {
			delete(t.v6, k)
			t.count[t.kinds[s.kind]]--
		}
	}
}

// clear forgets everything and keeps the room: it is about to be filled again.
func (t *Table[K]) Clear() {
	clear(t.v4)
	clear(t.v6)
	clear(t.count)
}

// each calls do with every prefix.
func (t *Table[K]) Each(do func(netip.Prefix)) {
	for k := range t.v4 {
		a := netip.AddrFrom4([4]byte{byte(k >> 32), byte(k >> 24), byte(k >> 16), byte(k >> 8)})
		do(netip.PrefixFrom(a, int(k&0xff)))
	}
	for k := range t.v6 {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], k.hi)
		binary.BigEndian.PutUint64(b[8:], k.lo)
		do(netip.PrefixFrom(netip.AddrFrom16(b), int(k.bits)))
	}
}
