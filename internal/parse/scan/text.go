package scan

import (
	"bytes"
	"net/netip"
)

// HostByte reports whether c may stand in a host name that a daemon prints:
// what resolvers let through, and the bytes of names in UTF-8.
func HostByte(c byte) bool {
	return c-'0' <= 9 || (c|0x20)-'a' <= 25 || c == '.' || c == '-' || c == '_' || c >= 0x80
}

// HostName splits off the host name at b's start; it may be empty.
func HostName(b []byte) (name, rest []byte) {
	i := 0
	for i < len(b) && HostByte(b[i]) {
		i++
	}
	return b[:i], b[i:]
}

// Boxed reads "[address]" at b's start, also "[IPv6:address]".
func Boxed(b []byte) (a netip.Addr, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '[' {
		return a, b, false
	}
	i := bytes.IndexByte(b[:min(len(b), 65)], ']')
	if i < 0 {
		return a, b, false
	}
	in := b[1:i]
	if len(in) > 5 && FoldEqual(in[:5], "ipv6:") {
		in = in[5:]
	}
	a, ok = Addr(in)
	return a, b[i+1:], ok
}

// SkipPort drops ":digits" at b's start.
func SkipPort(b []byte) []byte {
	if len(b) > 1 && b[0] == ':' {
		if _, rest, ok := Uint(b[1:]); ok {
			return rest
		}
	}
	return b
}

// ClientBox reads "name[address]" at b's start, a port behind it dropped. The
// name is the peer's (its PTR record, or its address once more) and may hold
// the characters of such only.
func ClientBox(b []byte) (a netip.Addr, rest []byte, ok bool) {
	i := 0
	for i < len(b) && (HostByte(b[i]) || b[i] == ':') {
		i++
	}
	a, rest, ok = Boxed(b[i:])
	return a, SkipPort(rest), ok
}

// UpTo splits b before the first of the bytes in set.
func UpTo(b []byte, set string) (head, rest []byte) {
	if i := bytes.IndexAny(b, set); i >= 0 {
		return b[:i], b[i:]
	}
	return b, nil
}

// CutNear splits b around the first sep, which must end within n bytes.
func CutNear(b []byte, sep string, n int) (before, after []byte, ok bool) {
	i := Index(b[:min(len(b), n)], sep)
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+len(sep):], true
}

// TrimTimes drops what reports of logs append: spaces and ": 2 Time(s)".
func TrimTimes(b []byte) []byte {
	b = Trim(b)
	if head, ok := Before(b, " Time(s)"); ok {
		if msg, n, ok := Last(head, ": "); ok && Digits(n) {
			return msg
		}
	}
	return b
}

// Base returns what follows the last slash of a syslog tag.
func Base(tag []byte) []byte {
	if i := bytes.LastIndexByte(tag, '/'); i >= 0 {
		return tag[i+1:]
	}
	return tag
}

// OneOf reports whether b is one of words.
func OneOf(b []byte, words ...string) bool {
	for _, w := range words {
		if string(b) == w {
			return true
		}
	}
	return false
}

// HasAny reports whether one of the texts occurs in b.
func HasAny(b []byte, texts ...string) bool {
	for _, t := range texts {
		if Has(b, t) {
			return true
		}
	}
	return false
}

// HasPrefix reports whether b begins with s.
func HasPrefix(b []byte, s string) bool { return len(b) >= len(s) && string(b[:len(s)]) == s }

// CutDigits splits the digits off b's start.
func CutDigits(b []byte) (digits, rest []byte, ok bool) {
	i := 0
	for i < len(b) && digit(b[i]) {
		i++
	}
	return b[:i], b[i:], i > 0
}

// TagByte reports whether c can be part of the name of a host or program in a
// syslog header.
func TagByte(c byte) bool { return tagBytes[c] }

var tagBytes = func() (t [256]bool) {
	for c := range t {
		b := byte(c)
		t[c] = digit(b) || (b|0x20)-'a' <= 25 || bytes.IndexByte([]byte("._-/+@\\"), b) >= 0 || b >= 0x80
	}
	return t
}()
