// Package addr knows which addresses a client can have, and which IPv6
// addresses stand for an IPv4 client.
//
// One IPv4 client can reach a server by several addresses: its own, and the
// IPv6 addresses that translators and tunnels make of it. All of them are
// counted as the IPv4 address, and a block of an IPv4 prefix holds for all.
//
//	::ffff:a.b.c.d    IPv4-mapped (RFC 4291, 2.5.5.2): how programs print IPv4, never on a wire
//	::a.b.c.d         IPv4-compatible (RFC 4291, 2.5.5.1): deprecated, never on a wire
//	64:ff9b::a.b.c.d  NAT64 and SIIT (RFC 6052, 2.1)
//	2002:AABB:CCDD::  6to4 (RFC 3056, 2): a /48 for each IPv4 address
//	2001:0:SSSS:SSSS:FFFF:PPPP:XXXX:XXXX
//	                  Teredo (RFC 4380, 4): the client is the last 32 bits, inverted
//
// An IPv4 address that is not globally reachable (private, shared, loopback)
// proves nothing inside an IPv6 address, because these formats may not carry
// one: such an address stands for itself.
package addr

import (
	"encoding/binary"
	"net/netip"
)

var (
	mapped     = netip.MustParsePrefix("::ffff:0:0/96")
	compatible = netip.MustParsePrefix("::/96")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215: the layout is the operator's
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
)

// Of returns the address by which the client at a is counted: the IPv4 address
// that a stands for, or else a. The zero Addr stays what it is.
func Of(a netip.Addr) netip.Addr {
	if a.Is4() || !a.IsValid() {
		return a
	}
	b := a.As16()
	var v netip.Addr
	switch hi := binary.BigEndian.Uint64(b[:8]); {
	case hi>>48 == 0x2002:
		v = netip.AddrFrom4([4]byte(b[2:6]))
	case hi>>32 == 0x20010000:
		v = netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	case hi == 0x0064ff9b00000000 && binary.BigEndian.Uint32(b[8:]) == 0:
		v = netip.AddrFrom4([4]byte(b[12:]))
	case hi == 0 && binary.BigEndian.Uint32(b[8:]) == 0xffff:
		return netip.AddrFrom4([4]byte(b[12:])) // only another way to write it
	case hi == 0 && binary.BigEndian.Uint32(b[8:]) == 0:
		v = netip.AddrFrom4([4]byte(b[12:]))
	default:
		return a
	}
	if !global(v) {
		return a
	}
	return v
}

// OfPrefix returns the prefix that p is counted and blocked as: the IPv4
// prefix whose clients p holds, or p. Of a part of what one IPv4 client has,
// such as a /64 of its 6to4 addresses, it is that client. The result is masked.
func OfPrefix(p netip.Prefix) netip.Prefix {
	if !p.IsValid() || p.Addr().Is4() {
		return p.Masked()
	}
	p = p.Masked()
	for _, in := range [...]netip.Prefix{mapped, nat64, sixToFour, compatible} {
		if p.Bits() <= in.Bits() || !in.Contains(p.Addr()) {
			continue
		}
		v := v4At(p.Addr(), in.Bits())
		if !global(v) && in != mapped {
			return p
		}
		return netip.PrefixFrom(v, min(p.Bits()-in.Bits(), 32)).Masked()
	}
	if p.IsSingleIP() {
		if v := Of(p.Addr()); v.Is4() { // Teredo
			return netip.PrefixFrom(v, 32)
		}
	}
	return p
}

// v4At reads the IPv4 address that begins at a bit of a.
func v4At(a netip.Addr, bit int) netip.Addr {
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[bit/8:]))
}

// Forms returns the IPv6 prefixes that hold exactly the clients of the IPv4
// prefix p and can be the source of a packet: NAT64 and 6to4. A Teredo client
// has no such prefix, because the server's address and the port come before
// it. Nil for IPv6.
func Forms(p netip.Prefix) []netip.Prefix {
	if !p.IsValid() || !p.Addr().Is4() || !global(p.Addr()) {
		return nil
	}
	return []netip.Prefix{embed(nat64, p), embed(sixToFour, p)}
}

func embed(in, p netip.Prefix) netip.Prefix {
	b, v := in.Addr().As16(), p.Masked().Addr().As4()
	copy(b[in.Bits()/8:], v[:])
	return netip.PrefixFrom(netip.AddrFrom16(b), in.Bits()+p.Bits())
}

// Form is the reverse of Forms: it returns the IPv4 prefix that p, an IPv6
// prefix, stands for, and false when p stands for none.
func Form(p netip.Prefix) (of netip.Prefix, ok bool) {
	if !p.IsValid() || p.Addr().Is4() || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	for _, in := range [...]netip.Prefix{nat64, sixToFour} {
		if n := p.Bits() - in.Bits(); n > 0 && n <= 32 && in.Contains(p.Addr()) {
			if v := v4At(p.Addr(), in.Bits()); global(v) {
				return netip.PrefixFrom(v, n).Masked(), true
			}
		}
	}
	return netip.Prefix{}, false
}

// Embeds names the format of the addresses in p if clients there count as the
// IPv4 addresses in them, so that no client is counted by p: "" for all other
// prefixes, those with private IPv4 addresses in them too.
func Embeds(p netip.Prefix) string {
	if !p.IsValid() || p.Addr().Is4() {
		return ""
	}
	for _, f := range [...]struct {
		in   netip.Prefix
		name string
	}{{mapped, "IPv4-mapped"}, {nat64, "NAT64"}, {sixToFour, "6to4"}, {teredo, "Teredo"}, {compatible, "IPv4-compatible"}} {
		if p.Bits() >= f.in.Bits() && f.in.Contains(p.Addr()) && p.Addr() != netip.IPv6Unspecified() {
			if f.in != teredo && p.Bits() > f.in.Bits() && !global(v4At(p.Addr(), f.in.Bits())) {
				return ""
			}
			return f.name
		}
	}
	return ""
}

// Bits returns how long the prefix is that a is counted by, where IPv4 clients
// are counted by v4 bits and IPv6 clients by v6. Behind a translator or a
// tunnel whose IPv4 addresses cannot be told for sure, a prefix of v6 bits
// would hold all of its clients: those are counted apart as IPv4 is, by the
// bits that hold the client.
func Bits(a netip.Addr, v4, v6 int) int {
	switch {
	case a.Is4():
		return v4
	case nat64.Contains(a), nat64Local.Contains(a), teredo.Contains(a):
		return max(96+v4, v6)
	case sixToFour.Contains(a):
		return max(16+v4, min(v6, 48))
	}
	return v6
}

// Shared reports whether a belongs to a range in which neighbouring /64s are
// different clients that share nothing but a translator or a tunnel.
func Shared(a netip.Addr) bool {
	return a.Is6() && (nat64.Contains(a) || nat64Local.Contains(a) || teredo.Contains(a) || sixToFour.Contains(a))
}

// reserved are the IPv4 ranges that no client of the Internet has (RFC 6890).
// Documentation and benchmarking ranges are not among them: tests use them.
var reserved = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
}

func global(a netip.Addr) bool {
	for _, r := range reserved {
		if r.Contains(a) {
			return false
		}
	}
	return true
}

// never are the addresses that no client can have, or that a block would cut
// the machine off by, and why.
var never = [...]struct {
	p   netip.Prefix
	why string
}{
	// The rest of 0.0.0.0/8 is unicast: Linux accepts it since 5.3.
	{netip.MustParsePrefix("0.0.0.0/32"), "it contains the unspecified address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "it contains link-local addresses"},
	{netip.MustParsePrefix("224.0.0.0/4"), "it contains multicast addresses"},
	{netip.MustParsePrefix("255.255.255.255/32"), "it contains the broadcast address"},
	{netip.MustParsePrefix("::/128"), "it contains the unspecified address"},
	{netip.MustParsePrefix("ff00::/8"), "it contains multicast addresses"},
	{netip.MustParsePrefix("fe80::/10"), "it contains link-local addresses, which neighbour discovery needs"},
}

// Never returns why p may never be blocked; "" when it may. A single link-local
// address is refused too: it means nothing without its interface, which no
// firewall set can hold beside it.
func Never(p netip.Prefix) string {
	for i := range never {
		if n := &never[i]; n.p.Overlaps(p) {
			return n.why
		}
	}
	if p.Bits() <= nat64.Bits() && p.Overlaps(nat64) {
		return "it contains all clients of NAT64 (64:ff9b::/96); block their IPv4 addresses"
	}
	return ""
}
