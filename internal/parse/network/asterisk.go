package network

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// How Asterisk reports one attempt.
const (
	asteriskNotice = 1 + iota
	asteriskSecurity
)

// asterisk reads Asterisk's logs behind their stamp (main/logger.c):
// "NOTICE[1638][C-00000fa9] chan_sip.c: message" or "NOTICE[1638]: chan_sip.c:28926
// handle_request_register: message", and SECURITY events
// (main/security_events.c, res_security_log.c). From headers, extensions and
// call ids are the caller's, on both sides of its address.
func asterisk(env *event.Message, msg []byte, ev *event.Event) bool {
	if ns, rest, ok := scan.Stamp(msg, env.Ref, env.Loc); ok {
		ev.Time, msg = ns, scan.TrimLeft(rest)
	}
	level, _, ok := scan.CutNear(msg, "[", 10)
	if !ok || !scan.OneOf(level, "NOTICE", "SECURITY", "WARNING", "ERROR", "VERBOSE") {
		return false
	}
	m := msg[len(level):]
	for range 2 {
		if r, ok := scan.After(m, "["); ok {
			if _, r, ok = scan.Cut(r, "]"); ok {
				m = r
			}
		}
	}
	m, _ = scan.After(m, ":")
	m = scan.TrimLeft(m)
	if string(level) == "SECURITY" {
		return asteriskEvent(m, ev)
	}
	if rest, ok := scan.After(m, "Ext. "); ok {
		return asteriskUnknown(rest, ev)
	}
	return asteriskMessage(asteriskSource(m), ev)
}

// asteriskSource drops "chan_sip.c: ", "res_pjsip/x.c: " or "chan_sip.c:28926
// handle_request: ".
func asteriskSource(m []byte) []byte {
	file, rest, ok := scan.Cut(m, ":")
	if _, isC := scan.Before(file, ".c"); !ok || !isC || len(file) > 48 {
		return m
	}
	if _, r, ok := scan.CutDigits(rest); ok {
		if _, m, ok := scan.CutNear(r, ": ", 64); ok {
			return m
		}
	}
	return scan.TrimLeft(rest)
}

func asteriskTell(ev *event.Event, k event.Kind, a netip.Addr, class uint8) bool {
	ev.Set("asterisk", event.Failure, k, a)
	ev.Conn, ev.Class = event.ConnFrom("asterisk", nil, a), class
	return true
}

// asteriskMessage reads the messages of the channel drivers.
func asteriskMessage(m []byte, ev *event.Event) bool {
	if i := bytes.Index(m[:min(len(m), 48)], []byte(": Call (")); i > 0 {
		m = m[i+2:] // res_pjsip_session.c begins with the endpoint
	}
	for i := range asteriskForms {
		f := &asteriskForms[i]
		rest, ok := scan.After(m, f.start)
		if !ok {
			continue
		}
		a, ok := onlyAddr(rest, f.before, f.after)
		if !ok {
			return false
		}
		k := event.Plain
		if scan.HasAny(rest, "No matching peer found", "No matching endpoint found") {
			k = event.UnknownUser
		} else if scan.HasAny(rest, "ACL", "extension not found") {
			k = event.Forbidden
		}
		return asteriskTell(ev, k, a, asteriskNotice)
	}
	first, rest := scan.Word(m)
	if string(first) == "Host" {
		first, rest = scan.Word(rest)
	}
	a, ok := scan.Addr(first)
	if !ok {
		return false
	}
	switch {
	case bytes.HasPrefix(rest, []byte("tried to authenticate with nonexistent user")):
		return asteriskTell(ev, event.UnknownUser, a, asteriskNotice)
	case bytes.HasPrefix(rest, []byte("failed ")), bytes.HasPrefix(rest, []byte("denied access to register peer")):
		return asteriskTell(ev, event.Plain, a, asteriskNotice)
	}
	return false
}

// asteriskForms name the text around the address. All that the line holds
// between such texts must be one address.
var asteriskForms = []struct{ start, before, after string }{
	{"Registration from ", "' failed for '", "'"},
	{"Request ", "' failed for '", "'"},
	{"Call from ", " (", ") to extension "},
	{"Call (", "", ") to extension "},
	{"No registration for peer ", " (from ", ")"},
	{"hacking attempt detected ", "'", "'"},
	{"Rejecting unknown SIP connection from ", "", ""},
}

// onlyAddr finds the one address that stands between before and after in m,
// and none when there are two. An empty before is m's start, an empty after
// its end.
func onlyAddr(m []byte, before, after string) (a netip.Addr, ok bool) {
	for first := true; ; first = false {
		if before != "" {
			var more bool
			if _, m, more = scan.Cut(m, before); !more {
				return a, ok
			}
		} else if !first {
			return a, ok
		}
		tok := m
		if after != "" {
			var ended bool
			if tok, _, ended = scan.CutNear(m, after, 80); !ended {
				continue
			}
		}
		found, good := sipAddr(tok)
		if !good {
			continue
		}
		if ok && found != a {
			return a, false
		}
		a, ok = found, true
	}
}

// sipAddr reads "a", "a:port" or "UDP:a:port".
func sipAddr(b []byte) (netip.Addr, bool) {
	for _, proto := range [...]string{"UDP:", "TCP:", "TLS:", "WS:", "WSS:"} {
		b, _ = scan.After(b, proto)
	}
	return scan.AddrPort(b)
}

// asteriskUnknown reads the dial plan's "s: "Rejecting unknown SIP connection
// from a:port"".
func asteriskUnknown(m []byte, ev *event.Event) bool {
	_, rest, ok := scan.Last(m, `"Rejecting unknown SIP connection from `)
	rest, ok2 := scan.Before(rest, `"`)
	a, ok3 := scan.AddrPort(rest)
	return ok && ok2 && ok3 && asteriskTell(ev, event.Forbidden, a, asteriskNotice)
}

// asteriskEvent reads SecurityEvent="InvalidAccountID",…,RemoteAddress=
// "IPV4/UDP/a/5070". Nothing in it is escaped. The account stands before the
// address; behind it, some events carry texts of the peer, and then all
// addresses of the line must be one.
func asteriskEvent(m []byte, ev *event.Event) bool {
	_, m, ok := scan.CutNear(m, `SecurityEvent="`, 96)
	if !ok {
		return false
	}
	name, m, ok := scan.Cut(m, `",`)
	if !ok {
		return false
	}
	e := asteriskEventOf(name)
	if e == nil {
		return false
	}
	_, last, ok := scan.Last(m, `,RemoteAddress="`)
	a, tail, ok2 := securityAddr(last)
	if !ok || !ok2 {
		return false
	}
	if !asteriskOwnTail(tail) {
		for rest := m; ; {
			var more bool
			if _, rest, more = scan.Cut(rest, `,RemoteAddress="`); !more {
				break
			}
			if b, _, ok := securityAddr(rest); ok && b != a {
				return false
			}
		}
	}
	asteriskTell(ev, e.kind, a, asteriskSecurity)
	ev.Outcome = e.outcome
	if _, id, ok := scan.Cut(m, `AccountID="`); ok {
		ev.User, _, _ = scan.Cut(id, `",SessionID="`)
	}
	return true
}

// asteriskOwnTail reports whether what follows the address is Asterisk's.
func asteriskOwnTail(tail []byte) bool {
	return len(tail) == 0 || len(tail) < 80 && (bytes.HasPrefix(tail, []byte(`,ACLName="`)) || bytes.HasPrefix(tail, []byte(`,Module="`))) &&
		!scan.Has(tail, "RemoteAddress")
}

// securityAddr reads `IPV4/UDP/a/5070"` at b's start.
func securityAddr(b []byte) (a netip.Addr, tail []byte, ok bool) {
	v, tail, ok := scan.CutNear(b, `"`, 80)
	if !ok {
		return a, nil, false
	}
	_, v, ok = scan.Cut(v, "/")
	_, v, ok2 := scan.Cut(v, "/")
	addr, _, ok3 := scan.Last(v, "/")
	a, ok4 := scan.Addr(addr)
	return a, tail, ok && ok2 && ok3 && ok4
}

type asteriskSec struct {
	name    string
	outcome event.Outcome
	kind    event.Kind
}

func asteriskEventOf(name []byte) *asteriskSec {
	for i := range asteriskEvents {
		if string(name) == asteriskEvents[i].name {
			return &asteriskEvents[i]
		}
	}
	return nil
}

var asteriskEvents = []asteriskSec{
	{"InvalidAccountID", event.Failure, event.UnknownUser},
	{"InvalidPassword", event.Failure, event.Plain},
	{"ChallengeResponseFailed", event.Failure, event.Plain},
	{"FailedACL", event.Failure, event.Forbidden},
	{"UnexpectedAddress", event.Failure, event.Forbidden},
	{"AuthMethodNotAllowed", event.Failure, event.Forbidden},
	{"RequestNotAllowed", event.Failure, event.Forbidden},
	{"RequestNotSupported", event.Failure, event.Forbidden},
	{"RequestBadFormat", event.Failure, event.Forbidden},
	{"InvalidTransport", event.Failure, event.Forbidden},
	{"SessionLimit", event.Other, event.Limited},
	{"ChallengeSent", event.Other, event.Plain},
	{"SuccessfulAuth", event.Success, event.Plain},
}
