package firewall

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// heldTable is what a wall of sets knows to be where, in some 25 bytes an IPv4
// prefix: what all of many blocks share (K) is kept once. The zero table is empty.
type heldTable[K comparable] struct {
	kinds []K
	index map[K]uint16
	count map[K]int
	v4    map[uint64]heldSlot // address and length
	v6    map[key6]heldSlot
}

type heldSlot struct {
	until uint32 // Unix seconds, rounded up
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

// get tells the kind of p.
func (t *heldTable[K]) get(p netip.Prefix) (k K, there bool) {
	s, there := t.slot(p)
	if there {
		k = t.kinds[s.kind]
	}
	return k, there
}

func (t *heldTable[K]) slot(p netip.Prefix) (s heldSlot, there bool) {
	if p.Addr().Is4() {
		s, there = t.v4[key4Of(p)]
	} else {
		s, there = t.v6[key6Of(p)]
	}
	return s, there
}

// secondsOf is an instant as a slot has it: rounded up, 0 for any before 1970.
func secondsOf(t time.Time) uint32 {
	return uint32(min(max(t.Add(time.Second-1).Unix(), 0), 1<<32-1))
}

// put notes that p is held; kinds are at most 65,536.
func (t *heldTable[K]) put(p netip.Prefix, k K, until time.Time) {
	if t.index == nil {
		t.index, t.count, t.v4, t.v6 = map[K]uint16{}, map[K]int{}, map[uint64]heldSlot{}, map[key6]heldSlot{}
	}
	t.drop(p)
	i, known := t.index[k]
	if !known {
		i = uint16(len(t.kinds))
		t.kinds, t.index[k] = append(t.kinds, k), i
	}
	s := heldSlot{secondsOf(until), i}
	if p.Addr().Is4() {
		t.v4[key4Of(p)] = s
	} else {
		t.v6[key6Of(p)] = s
	}
	t.count[k]++
}

// drop forgets p.
func (t *heldTable[K]) drop(p netip.Prefix) {
	k, there := t.get(p)
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

func (t *heldTable[K]) len() int { return len(t.v4) + len(t.v6) }

// of counts the prefixes of one kind.
func (t *heldTable[K]) of(k K) int { return t.count[k] }

// expire forgets what ended by now.
func (t *heldTable[K]) expire(now time.Time) {
	at := uint32(now.Unix())
	for k, s := range t.v4 {
		if s.until < at {
			delete(t.v4, k)
			t.count[t.kinds[s.kind]]--
		}
	}
	for k, s := range t.v6 {
		if s.until < at {
			delete(t.v6, k)
			t.count[t.kinds[s.kind]]--
		}
	}
}

// clear forgets everything and keeps the room: it is about to be filled again.
func (t *heldTable[K]) clear() {
	clear(t.v4)
	clear(t.v6)
	clear(t.count)
}

// each calls do with every prefix.
func (t *heldTable[K]) each(do func(netip.Prefix)) {
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
