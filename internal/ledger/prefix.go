package ledger

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// pkey is a masked prefix as a map key that hashes fast. n is the length, and
// 256 more for IPv4.
type pkey struct{ hi, lo, n uint64 }

const isV4 = 256

func keyOf(p netip.Prefix) pkey { return keyAt(p.Addr(), p.Bits()) }

// keyAt is the prefix of that length around a, which must be valid.
func keyAt(a netip.Addr, bits int) pkey {
	if a.Is4() {
		b := a.As4()
		return pkey{0, uint64(binary.BigEndian.Uint32(b[:])) &^ (1<<(32-bits) - 1), isV4 + uint64(bits)}
	}
	b := a.As16()
	k := pkey{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), uint64(bits)}
	if bits <= 64 {
		k.hi, k.lo = k.hi&^(1<<(64-bits)-1), 0
	} else {
		k.lo &^= 1<<(128-bits) - 1
	}
	return k
}

func (k pkey) prefix() netip.Prefix {
	if k.n >= isV4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(k.lo))
		return netip.PrefixFrom(netip.AddrFrom4(b), int(k.n-isV4))
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return netip.PrefixFrom(netip.AddrFrom16(b), int(k.n))
}

// before orders as comparePrefixes does.
func (k pkey) before(o pkey) bool {
	switch {
	case k.n >= isV4 != (o.n >= isV4):
		return k.n >= isV4
	case k.hi != o.hi:
		return k.hi < o.hi
	case k.lo != o.lo:
		return k.lo < o.lo
	}
	return k.n < o.n
}

// lengths counts the prefixes of a map by length, so that a search for those
// around an address looks only where some can be.
type lengths struct {
	count  [isV4 + 33]int
	v4, v6 []int // lengths in use, shortest first
}

func (l *lengths) add(k pkey) {
	if l.count[k.n]++; l.count[k.n] == 1 {
		l.list()
	}
}

func (l *lengths) remove(k pkey) {
	if l.count[k.n]--; l.count[k.n] == 0 {
		l.list()
	}
}

func (l *lengths) list() {
	l.v4, l.v6 = l.v4[:0], l.v6[:0]
	for n, c := range l.count {
		if c > 0 && n >= isV4 {
			l.v4 = append(l.v4, n-isV4)
		} else if c > 0 {
			l.v6 = append(l.v6, n)
		}
	}
}

func (l *lengths) of(a netip.Addr) []int {
	if a.Is4() {
		return l.v4
	}
	return l.v6
}

// ranges is a set of addresses: sorted, merged, apart.
type ranges struct {
	v4 []span4
	v6 []span6
}

type span4 struct{ from, to uint32 }
type span6 struct{ from, to netip.Addr }

func newRanges(ps []netip.Prefix) ranges {
	var r ranges
	sorted := slices.SortedFunc(slices.Values(ps), comparePrefixes)
	for _, p := range sorted {
		if !p.IsValid() {
			continue
		}
		from, to := p.Masked().Addr(), lastAddr(p)
		if from.Is4() {
			f, t := word4(from), word4(to)
			if n := len(r.v4); n > 0 && (f <= r.v4[n-1].to || f == r.v4[n-1].to+1) {
				r.v4[n-1].to = max(r.v4[n-1].to, t)
				continue
			}
			r.v4 = append(r.v4, span4{f, t})
			continue
		}
		if n := len(r.v6); n > 0 && (from.Compare(r.v6[n-1].to) <= 0 || from == r.v6[n-1].to.Next()) {
			if r.v6[n-1].to.Less(to) {
				r.v6[n-1].to = to
			}
			continue
		}
		r.v6 = append(r.v6, span6{from, to})
	}
	return r
}

func word4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func (r *ranges) contains(a netip.Addr) bool {
	if a.Is4() {
		return r.contains4(word4(a))
	}
	return r.covers(a, a)
}

// contains4 is what every event asks: written out, it costs some nanoseconds.
func (r *ranges) contains4(a uint32) bool {
	lo, hi := 0, len(r.v4)
	for lo < hi {
		if mid := (lo + hi) / 2; r.v4[mid].to < a {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(r.v4) && r.v4[lo].from <= a
}

// covers reports whether all addresses from..to, of one prefix, are in r.
func (r *ranges) covers(from, to netip.Addr) bool {
	if from.Is4() {
		f, t := word4(from), word4(to)
		i, _ := slices.BinarySearchFunc(r.v4, f, func(s span4, f uint32) int { return cmp.Compare(s.to, f) })
		return i < len(r.v4) && r.v4[i].from <= f && t <= r.v4[i].to
	}
	i, _ := slices.BinarySearchFunc(r.v6, from, func(s span6, f netip.Addr) int { return s.to.Compare(f) })
	return i < len(r.v6) && r.v6[i].from.Compare(from) <= 0 && to.Compare(r.v6[i].to) <= 0
}

// coversAll reports whether every address of p is in r.
func (r *ranges) coversAll(p netip.Prefix) bool { return r.covers(p.Masked().Addr(), lastAddr(p)) }

// within reports whether p lies in q or is q.
func within(p, q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Contains(p.Addr()) }

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().BitLen()-b.Addr().BitLen(), a.Masked().Addr().Compare(b.Masked().Addr()), a.Bits()-b.Bits())
}

// minimal sorts prefixes and leaves out those within others.
func minimal(ps []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range slices.SortedFunc(slices.Values(ps), comparePrefixes) {
		if n := len(out); p.IsValid() && (n == 0 || !within(p, out[n-1])) {
			out = append(out, p.Masked())
		}
	}
	return out
}
