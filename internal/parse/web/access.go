package web

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// The access logs of Apache (common, combined, vhost_combined; manual,
// mod_log_config), nginx (combined, main; ngx_http_log_module), lighttpd,
// Caddy's and Traefik's CLF, and what administrators append to them:
//
//	[host[:port]] addr ident user [time] "request" status size "referrer" "agent" …
//
// All servers write the peer's address first, before anything that a client
// chooses, except a virtual host, which is no address. A first field that is a
// name is never resolved.

// accessLog reads a line of such a log.
func (w *Reader) accessLog(env *event.Message, line []byte, ev *event.Event) bool {
	host, addr, rest, ok := accessHead(line)
	if !ok {
		return false
	}
	open, ns, after, ok := w.accessStamp(env, rest)
	if !ok {
		return false
	}
	q := bytes.IndexByte(after, '"')
	if q < 0 || q > 256 {
		return false
	}
	request, tail, ok := quoted(after[q:])
	if !ok {
		return false
	}
	ev.Service, ev.Time, ev.Host, ev.Addr = w.service(env), ns, host, addr
	ev.User = accessUser(rest[:open])
	setRequest(ev, request)
	w.accessTail(env, tail, ev)
	judgeStatus(ev)
	return true
}

// service names the server, when the user or the syslog tag told which
// one it is.
func (w *Reader) service(env *event.Message) string {
	name := env.Hint
	if name == "" {
		name = string(env.Tag)
	}
	switch name {
	case "nginx", "angie", "openresty", "tengine":
		return "nginx"
	case "apache", "apache2", "httpd", "httpd2":
		return "apache"
	case "varnish", "varnishncsa":
		return "varnish"
	case "caddy":
		return "caddy"
	case "envoy":
		return "envoy"
	case "haproxy":
		return "haproxy"
	case "lighttpd":
		return "lighttpd"
	case "squid", "squid3", "(squid)", "(squid-1)", "squid-1", "squid-2", "squid-3", "squid-4":
		return "squid"
	case "traefik":
		return "traefik"
	}
	return "http"
}

// accessHead reads the virtual host, if any, and the peer. Two addresses in a
// row are either a peer and a header that it sent, or a Host that somebody
// chose and a peer: nobody is blamed.
func accessHead(line []byte) (host []byte, a netip.Addr, rest []byte, ok bool) {
	first, rest := scan.Word(line)
	a = addrOf(first)
	ok = a.IsValid()
	if !ok && !vhostName(first) {
		return nil, a, nil, false
	}
	second, rest2 := scan.Word(rest)
	if len(second) < 2 {
		return nil, a, rest, len(second) == 1
	}
	b, two := scan.AddrPort(second)
	switch {
	case two && ok:
		if a != b {
			a = netip.Addr{}
		}
		return first, a, rest2, true
	case two:
		return first, b, rest2, true
	}
	return nil, a, rest, ok // a name's log has "-" next: nobody runs identd for names
}

// addrOf is the address that tok is, perhaps with a port; else it is invalid.
func addrOf(tok []byte) netip.Addr {
	if a, ok := scan.AddrPort(tok); ok {
		return a
	}
	return netip.Addr{}
}

// vhostName reports whether b looks like a host name, perhaps with a port.
func vhostName(b []byte) bool {
	if len(b) < 1 || len(b) > 261 {
		return false
	}
	for _, c := range b {
		if c-'0' > 9 && (c|0x20)-'a' > 25 && c != '.' && c != '-' && c != '_' && c != ':' && c != '*' {
			return false
		}
	}
	return b[0] != '-' && b[0] != ':'
}

// accessStamp finds the stamp in brackets before the first quote. A user name
// may hold brackets, but no server lets it look like "] " and a quote.
func (w *Reader) accessStamp(env *event.Message, b []byte) (open int, ns int64, after []byte, ok bool) {
	for range 8 {
		i := bytes.IndexByte(b[open:], '[')
		if i < 0 {
			break
		}
		open += i
		if ns, after, ok = clfStamp(b[open+1:], env.Loc); !ok && !w.strict {
			ns, after, ok = scan.Stamp(b[open+1:], env.Ref, env.Loc)
		}
		if ok {
			after = scan.TrimLeft(after)
			if len(after) > 0 && after[0] == ']' {
				return open, ns, after[1:], true
			}
		}
		open++
	}
	return 0, 0, nil, false
}

// accessUser takes the user out of "ident user ", nil when there is none. The
// user may hold spaces; BunkerWeb writes a request's id before it.
func accessUser(b []byte) []byte {
	if len(b) == 4 && string(b) == "- - " {
		return nil
	}
	b = scan.Trim(b)
	if _, u, ok := scan.Cut(b, " "); ok {
		b = scan.Trim(u)
	}
	if _, ok := scan.Before(b, " -"); ok {
		return nil
	}
	if in, ok := scan.After(b, `"`); ok {
		if in, ok = scan.Before(in, `"`); ok {
			b = in
		}
	}
	return orNone(b)
}

// orNone is nil for the "-" and the empty value that servers write for none.
func orNone(b []byte) []byte {
	if len(b) == 0 || len(b) == 1 && b[0] == '-' {
		return nil
	}
	return b
}

// quoted splits off the text between the quote at b's start and the quote that
// ends it: not an escaped one (\" of Apache and lighttpd; nginx writes \x22),
// and followed by a space or nothing, for servers that escape nothing.
func quoted(b []byte) (in, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return nil, b, false
	}
	for i := 1; i < len(b); i++ {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			break
		}
		i += j
		if (i+1 == len(b) || b[i+1] == ' ') && !escaped(b, i) {
			return b[1:i], b[i+1:], true
		}
	}
	return nil, b, false
}

// escaped reports whether an odd number of backslashes stand before b[i].
func escaped(b []byte, i int) bool {
	n := 0
	for n < i && b[i-1-n] == '\\' {
		n++
	}
	return n&1 == 1
}

// accessTail reads "status size" and the quoted fields: referrer, agent and,
// in nginx's main format, X-Forwarded-For.
func (w *Reader) accessTail(env *event.Message, b []byte, ev *event.Event) {
	b = scan.TrimLeft(b)
	if len(b) >= 3 {
		ev.Status = statusOf(b)
	}
	var header []byte
	for n := 0; n < 3; n++ {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			break
		}
		in, rest, ok := quoted(b[i:])
		if !ok {
			break
		}
		switch n {
		case 0:
			ev.Referrer = orNone(in)
		case 1:
			ev.Agent = orNone(in)
		case 2:
			if w.main { // else it may be anything, a cookie too
				header = in
			}
		}
		b = rest
	}
	w.client.set(ev, header)
}

// statusOf reads a three-digit status at b's start, 0 when there is none.
func statusOf(b []byte) uint16 {
	if len(b) < 3 || len(b) > 3 && b[3]-'0' <= 9 {
		return 0
	}
	n := uint16(0)
	for _, c := range b[:3] {
		if c-'0' > 9 {
			return 0
		}
		n = n*10 + uint16(c-'0')
	}
	return n
}

// judgeStatus says what a request's status means. A 401 without a user is a
// browser asking which credentials are wanted; a user beside any other status
// is what the client claims, and proves no login.
func judgeStatus(ev *event.Event) {
	switch ev.Status {
	case 401, 407:
		if len(ev.User) > 0 {
			ev.Outcome, ev.Count = event.Failure, 1
		}
	case 403:
		ev.Kind = event.Forbidden
	case 429:
		ev.Kind = event.Limited
	}
}
