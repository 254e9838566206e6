// Package scan reads the small things that log lines are made of: addresses
// with ports in every dialect, time stamps in every format, and the words
// between them. Nothing here allocates, and nothing looks beyond the bytes it
// is given.
package scan

import (
	"bytes"
	"net/netip"
)

// Addr reads tok as one address and nothing else: IPv4 in four decimal octets
// without leading zeros, IPv6 (RFC 4291, section 2.2), either in brackets.
// ::ffff:a.b.c.d is the IPv4 address. A zone ("%eth0") is dropped, but a
// link-local address, which means nothing without it, is refused. Here and in
// all below, an address that is not ok is the zero Addr.
func Addr(tok []byte) (netip.Addr, bool) {
	if n := len(tok); n > 2 && tok[0] == '[' && tok[n-1] == ']' {
		tok = tok[1 : n-1]
	}
	if len(tok) < 2 || len(tok) > 64 {
		return netip.Addr{}, false
	}
	if a, n := v4(tok); n == len(tok) {
		return a, true
	}
	if i := bytes.IndexByte(tok, '%'); i > 0 {
		return unzoned(tok[:i], tok[i+1:])
	}
	if a, ok := v6(tok); ok && !a.IsLinkLocalUnicast() {
		return a, true
	}
	return netip.Addr{}, false
}

func unzoned(host, zone []byte) (netip.Addr, bool) {
	if a, ok := v6(host); ok && a.Is6() && !a.IsLinkLocalUnicast() && len(zone) > 0 && zoneLen(zone) == len(zone) {
		return a, true
	}
	return netip.Addr{}, false
}

// zoneLen counts the bytes at b's start that can be an interface's name.
func zoneLen(b []byte) int {
	n := 0
	for n < len(b) && n < 16 && (nameByte(b[n]) || b[n] == '.') {
		n++
	}
	return n
}

// AddrPort reads tok as an address, or as one with a port behind it in any of
// the dialects: 1.2.3.4:58430 [2001:db8::1]:443 1.2.3.4#3074 and BSD's
// 1.2.3.4.50550 and 2001:db8::1.50550. The port is checked and dropped.
// 2001:db8::1:443 is an address.
func AddrPort(tok []byte) (netip.Addr, bool) {
	if a, ok := Addr(tok); ok {
		return a, true
	}
	end := len(tok)
	for end > 0 && digit(tok[end-1]) {
		end--
	}
	if end < 2 || !port(tok[end:]) {
		return netip.Addr{}, false
	}
	host, mark := tok[:end-1], tok[end-1]
	if mark != ':' && mark != '#' && mark != '.' {
		return netip.Addr{}, false
	}
	a, ok := Addr(host)
	if !ok || mark == ':' && a.Is6() && host[0] != '[' {
		return netip.Addr{}, false
	}
	if mark == '.' && a.Is6() && len(tok)-end <= 3 {
		return netip.Addr{}, false // ::ffff:198.51 may be the start of ::ffff:198.51.100.7
	}
	return a, true
}

// AddrPrefix reads an address, bare or in brackets, at b's start; rest begins
// right behind it. What follows must not continue the address or a host name,
// so that no octet is ever cut off: 1.2.3.45 is not 1.2.3.4, and 1.2.3.4.example
// and 1.2.3.4-net are names. A full stop or colon may follow when what comes
// next does not continue it; ":port" may follow IPv4 and brackets.
func AddrPrefix(b []byte) (a netip.Addr, rest []byte, ok bool) {
	if len(b) > 2 && b[0] == '[' {
		return bracketed(b)
	}
	if a, n := v4(b); n > 0 {
		if endsHere(b[n:], true) {
			return a, b[n:], true
		}
	}
	n := 0
	for n < len(b) && n < 46 && (hexDigit(b[n]) || b[n] == ':' || b[n] == '.') {
		n++
	}
	for cut := 0; cut < 2 && n-cut > 1; cut++ {
		if cut == 1 && b[n-1] != ':' && b[n-1] != '.' {
			break
		}
		if a, ok := v6(b[:n-cut]); ok {
			return v6End(a, b[n-cut:])
		}
	}
	return netip.Addr{}, nil, false
}

func v6End(a netip.Addr, rest []byte) (netip.Addr, []byte, bool) {
	if len(rest) > 1 && rest[0] == '%' && a.Is6() {
		z := zoneLen(rest[1:])
		rest = rest[1+z:]
		if z == 0 {
			return netip.Addr{}, nil, false
		}
	}
	if !endsHere(rest, false) || a.IsLinkLocalUnicast() {
		return netip.Addr{}, nil, false
	}
	return a, rest, true
}

func bracketed(b []byte) (netip.Addr, []byte, bool) {
	for i := 1; i < len(b) && i < 48; i++ {
		if b[i] == ']' {
			if a, ok := Addr(b[1:i]); ok {
				return a, b[i+1:], true
			}
			break
		}
	}
	return netip.Addr{}, nil, false
}

// endsHere reports whether an address may end before b.
func endsHere(b []byte, withPort bool) bool {
	if len(b) == 0 {
		return true
	}
	switch c := b[0]; {
	case nameByte(c), c == '%':
		return false
	case c == '.':
		return len(b) == 1 || !nameByte(b[1]) && b[1] != '.' && b[1] != ':'
	case c == ':':
		if len(b) == 1 || !nameByte(b[1]) && b[1] != ':' && b[1] != '.' {
			return true
		}
		return withPort && portEnds(b[1:])
	}
	return true
}

// portEnds reports whether b begins with a port that nothing continues.
func portEnds(b []byte) bool {
	n := 0
	for n < len(b) && digit(b[n]) {
		n++
	}
	return port(b[:n]) && (n == len(b) || endsHere(b[n:], false))
}

func port(b []byte) bool {
	if len(b) == 0 || len(b) > 5 {
		return false
	}
	p := 0
	for _, c := range b {
		if !digit(c) {
			return false
		}
		p = p*10 + int(c-'0')
	}
	return p < 65536
}

// v4 reads an IPv4 address at b's start and returns its length, 0 when there
// is none. It does not look at what follows, except that a digit may not.
func v4(b []byte) (netip.Addr, int) {
	var oct [4]byte
	i := 0
	for k := range oct {
		if k > 0 {
			if i >= len(b) || b[i] != '.' {
				return netip.Addr{}, 0
			}
			i++
		}
		start, v := i, 0
		for i < len(b) && i < start+4 && digit(b[i]) {
			v = v*10 + int(b[i]-'0')
			i++
		}
		if n := i - start; n == 0 || n > 3 || v > 255 || n > 1 && b[start] == '0' {
			return netip.Addr{}, 0
		}
		oct[k] = byte(v)
	}
	return netip.AddrFrom4(oct), i
}

// v6 reads all of b as an IPv6 address without a zone.
func v6(b []byte) (netip.Addr, bool) {
	var out [16]byte
	at, gap, i := 0, -1, 0
	if len(b) >= 2 && b[0] == ':' {
		if b[1] != ':' {
			return netip.Addr{}, false
		}
		gap, i = 0, 2
	}
	for i < len(b) {
		if at == 16 {
			return netip.Addr{}, false
		}
		start, v := i, 0
		for i < len(b) && i < start+5 && hexDigit(b[i]) {
			v = v<<4 | int(hexValue(b[i]))
			i++
		}
		if i < len(b) && b[i] == '.' {
			a, n := v4(b[start:])
			if n == 0 || start+n != len(b) || at > 12 || at == 0 && gap < 0 {
				return netip.Addr{}, false
			}
			oct := a.As4()
			copy(out[at:], oct[:])
			at += 4
			return v6Done(out, at, gap)
		}
		if n := i - start; n == 0 || n > 4 {
			return netip.Addr{}, false
		}
		out[at], out[at+1] = byte(v>>8), byte(v)
		at += 2
		if i == len(b) {
			break
		}
		if b[i] != ':' {
			return netip.Addr{}, false
		}
		i++
		if i == len(b) {
			return netip.Addr{}, false
		}
		if b[i] == ':' {
			if gap >= 0 {
				return netip.Addr{}, false
			}
			gap = at
			i++
		}
	}
	return v6Done(out, at, gap)
}

func v6Done(out [16]byte, at, gap int) (netip.Addr, bool) {
	if (at == 16) != (gap < 0) {
		return netip.Addr{}, false
	}
	if gap < 0 {
		return netip.AddrFrom16(out).Unmap(), true
	}
	var full [16]byte
	copy(full[:], out[:gap])
	copy(full[16-(at-gap):], out[gap:at])
	return netip.AddrFrom16(full).Unmap(), true
}
