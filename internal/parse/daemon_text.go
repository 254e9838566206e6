package parse

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/scan"
)

// tell fills what every event has and reports true. a may be invalid.
func tell(ev *Event, service string, o Outcome, k Kind, a netip.Addr) bool {
	ev.Service, ev.Outcome, ev.Kind, ev.Addr, ev.Count = service, o, k, a, 1
	return true
}

// joinProcess marks ev as one of several that a service's process writes of
// its connection with ev.Addr. A process serves one connection after another,
// so the address is part of the key.
func (p *Parser) joinProcess(ev *Event, class uint8) {
	if len(p.pid) == 0 || !ev.Addr.IsValid() {
		return
	}
	ev.Conn, ev.Class = ConnID(ev.Service, p.pid)^addrHash(ev.Addr)|1, class
}

func addrHash(a netip.Addr) uint64 {
	b := a.As16()
	return ConnID("", b[:])
}

// joinUser marks ev as one of several that tell of ev.User's attempts from
// ev.Addr, for services that name no connection.
func joinUser(ev *Event, class uint8) {
	ev.Conn, ev.Class = ConnID(ev.Service, ev.User)^addrHash(ev.Addr)|1, class
}

// hostByte reports whether c may stand in a host name that a daemon prints:
// what resolvers let through, and the bytes of names in UTF-8.
func hostByte(c byte) bool {
	return c-'0' <= 9 || (c|0x20)-'a' <= 25 || c == '.' || c == '-' || c == '_' || c >= 0x80
}

// hostName splits off the host name at b's start; it may be empty.
func hostName(b []byte) (name, rest []byte) {
	i := 0
	for i < len(b) && hostByte(b[i]) {
		i++
	}
	return b[:i], b[i:]
}

// boxed reads "[address]" at b's start, also "[IPv6:address]".
func boxed(b []byte) (a netip.Addr, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '[' {
		return a, b, false
	}
	i := bytes.IndexByte(b[:min(len(b), 65)], ']')
	if i < 0 {
		return a, b, false
	}
	in := b[1:i]
	if len(in) > 5 && scan.FoldEqual(in[:5], "ipv6:") {
		in = in[5:]
	}
	a, ok = scan.Addr(in)
	return a, b[i+1:], ok
}

// skipPort drops ":digits" at b's start.
func skipPort(b []byte) []byte {
	if len(b) > 1 && b[0] == ':' {
		if _, rest, ok := scan.Uint(b[1:]); ok {
			return rest
		}
	}
	return b
}

// clientBox reads "name[address]" at b's start, a port behind it dropped. The
// name is the peer's (its PTR record, or its address once more) and may hold
// the characters of such only.
func clientBox(b []byte) (a netip.Addr, rest []byte, ok bool) {
	i := 0
	for i < len(b) && (hostByte(b[i]) || b[i] == ':') {
		i++
	}
	a, rest, ok = boxed(b[i:])
	return a, skipPort(rest), ok
}

// upTo splits b before the first of the bytes in set.
func upTo(b []byte, set string) (head, rest []byte) {
	if i := bytes.IndexAny(b, set); i >= 0 {
		return b[:i], b[i:]
	}
	return b, nil
}

// cutNear splits b around the first sep, which must end within n bytes.
func cutNear(b []byte, sep string, n int) (before, after []byte, ok bool) {
	i := scan.Index(b[:min(len(b), n)], sep)
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+len(sep):], true
}

// trimTimes drops what reports of logs append: spaces and ": 2 Time(s)".
func trimTimes(b []byte) []byte {
	b = scan.Trim(b)
	if head, ok := scan.Before(b, " Time(s)"); ok {
		if msg, n, ok := scan.Last(head, ": "); ok && scan.Digits(n) {
			return msg
		}
	}
	return b
}

// baseName returns what follows the last slash of a syslog tag.
func baseName(tag []byte) []byte {
	if i := bytes.LastIndexByte(tag, '/'); i >= 0 {
		return tag[i+1:]
	}
	return tag
}

// oneOf reports whether b is one of words.
func oneOf(b []byte, words ...string) bool {
	for _, w := range words {
		if string(b) == w {
			return true
		}
	}
	return false
}

// hasAny reports whether one of the texts occurs in b.
func hasAny(b []byte, texts ...string) bool {
	for _, t := range texts {
		if scan.Has(b, t) {
			return true
		}
	}
	return false
}
