package auth

import (
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// sshdEnd reads how connections begin and end: packet.c's remote_id is
// "[[invalid |authenticating ]user USER ]ADDR port N".
func sshdEnd(b []byte, ev *event.Event, pre bool) bool {
	for _, head := range [...]string{"Connection closed by ", "Connection reset by ", "Disconnected from "} {
		if rest, ok := scan.After(b, head); ok {
			return sshdGone(rest, ev, pre)
		}
	}
	switch b[0] {
	case 'C':
		return sshdConnection(b, ev, pre)
	case 'D':
		return sshdDisconnecting(b, ev)
	}
	return sshdReceived(b, ev, pre)
}

// sshdGone reads the remote_id that ends a line. Naming an account before
// authentication is an attempt, also where only keys are taken and nothing
// else is written; naming none is a probe.
func sshdGone(b []byte, ev *event.Event, pre bool) bool {
	head, a, ok := addrEnd(b)
	if !ok {
		return false
	}
	ev.Addr = a
	switch user, state := sshdPreamble(head); {
	case state == sshdNobody:
		if len(head) > 0 {
			return false
		}
		if pre {
			ev.Kind = event.Probe
		}
	case state == sshdKnown:
		ev.User = user
	default:
		ev.Outcome, ev.Class, ev.User = event.Failure, sshdLeft, user
		if state == sshdStranger {
			ev.Kind = event.UnknownUser
		}
	}
	return true
}

const (
	sshdNobody   = iota
	sshdKnown    // "user USER": logged in
	sshdTrying   // "authenticating user USER"
	sshdStranger // "invalid user USER"
)

// sshdPreamble reads "[invalid |authenticating ]user USER".
func sshdPreamble(b []byte) (user []byte, state int) {
	for i, mark := range [...]string{"user", "authenticating user", "invalid user"} {
		if rest, ok := scan.After(b, mark); ok && (len(rest) == 0 || rest[0] == ' ') {
			if len(rest) > 0 {
				rest = rest[1:]
			}
			return rest, sshdKnown + i
		}
	}
	return nil, sshdNobody
}

// sshdConnection reads "Connection from …", which opens one when a port of
// ours follows, and else says why one failed; and "Could not write ident
// string to ADDR port N".
func sshdConnection(b []byte, ev *event.Event, pre bool) bool {
	if rest, ok := scan.After(b, "Connection from "); ok {
		a, after, ok := scan.AddrPrefix(rest)
		if !ok {
			return sshdTrouble(rest, ev)
		}
		ev.Addr, ev.Class = a, sshdOpened
		if rest, ok := scan.After(after, " port "); ok {
			_, after, _ = scan.Uint(rest)
		}
		if len(after) > 0 && after[0] == ':' {
			ev.Class, ev.Kind = 0, event.Probe
		}
		return len(after) == 0 || after[0] == ' ' || after[0] == ':'
	}
	if rest, ok := scan.After(b, "Could not write ident string to "); ok {
		ev.Kind = event.Probe
		return sshdID(rest, ev)
	}
	if rest, ok := scan.After(b, "Connection "); ok {
		if rest, ok = scan.Before(rest, " timed out"); ok {
			return sshdGone(rest, ev, pre)
		}
	}
	return sshdSession(b, ev)
}

// sshdTrouble reads "REMOTE_ID: why" where the account's name may hold the
// like: two readings are none.
func sshdTrouble(b []byte, ev *event.Event) bool {
	user, state := sshdPreamble(b)
	a, before, ok := sshdOnlyPort(b)
	if !ok {
		return ev.Conn != 0 && state != sshdNobody
	}
	ev.Addr = a
	switch state {
	case sshdNobody:
		ev.Kind = event.Probe
		return before == 0
	case sshdKnown:
		return true
	}
	ev.Outcome, ev.Class, ev.User = event.Failure, sshdLeft, nil
	if n := before - (len(b) - len(user)); n > 0 {
		ev.User = user[:n-1]
	}
	if state == sshdStranger {
		ev.Kind = event.UnknownUser
	}
	return true
}

// sshdOnlyPort finds the one address in b that is followed by " port N: ", and
// how many bytes stand before it.
func sshdOnlyPort(b []byte) (a netip.Addr, before int, ok bool) {
	for at := 0; ; {
		i := scan.Index(b[at:], " port ")
		if i < 0 {
			return a, before, a.IsValid()
		}
		i += at
		at = i + 5
		_, rest, digits := scan.Uint(b[i+6:])
		if !digits || len(rest) == 0 || rest[0] != ':' {
			continue
		}
		_, tok := scan.LastWord(b[:i])
		this, ok := scan.Addr(tok)
		if !ok || this == a {
			continue
		}
		if a.IsValid() {
			return netip.Addr{}, 0, false
		}
		a, before = this, i-len(tok)
	}
}

// sshdDisconnecting reads "Disconnecting REMOTE_ID: why", "Disconnecting: why",
// and "Did not receive identification string from ADDR".
func sshdDisconnecting(b []byte, ev *event.Event) bool {
	if rest, ok := scan.After(b, "Did not receive identification string from "); ok {
		ev.Kind = event.Probe
		return sshdID(rest, ev)
	}
	if rest, ok := scan.After(b, "Disconnecting: "); ok {
		if !scan.HasPrefix(rest, "Too many authentication failures") {
			ev.Kind = event.Probe
			return true
		}
		ev.Outcome, ev.Class = event.Failure, sshdTooMany2
		if _, user, ok := scan.Cut(rest, " failures for "); ok {
			user, unknown := sshdUser(user)
			if ev.User = user; unknown {
				ev.Kind = event.UnknownUser
			}
		}
		return true
	}
	rest, ok := scan.After(b, "Disconnecting ")
	if !ok || !sshdTrouble(rest, ev) {
		return false
	}
	if ev.Outcome == event.Failure {
		ev.Class = sshdTooMany2
	} else if ev.Kind == event.Probe && scan.Has(rest, ": Too many authentication failures") {
		ev.Outcome, ev.Kind, ev.Class = event.Failure, event.Plain, sshdTooMany2
	}
	return true
}

// sshdReceived reads "Received disconnect from ADDR[ port N]:CODE: TEXT" and
// "ROOT LOGIN REFUSED FROM ADDR[ port N]". A client that leaves since no method
// suits it, or says that authentication failed, has tried; RFC 4253, section
// 11.1, numbers the reasons.
func sshdReceived(b []byte, ev *event.Event, pre bool) bool {
	if rest, ok := scan.After(b, "ROOT LOGIN REFUSED FROM "); ok {
		ev.Outcome, ev.Class, ev.User = event.Failure, sshdRefused, []byte("root")
		return sshdID(rest, ev)
	}
	if rest, ok := scan.After(b, "Read error from remote host "); ok {
		return sshdID(rest, ev)
	}
	rest, ok := scan.After(b, "Received disconnect from ")
	if !ok {
		return false
	}
	a, rest, ok := scan.AddrPrefix(rest)
	if !ok {
		return false
	}
	ev.Addr = a
	after, port := scan.After(rest, " port ")
	if port {
		// "Disconnected from …" follows, which says whether a user was named.
		_, rest, _ = scan.Uint(after)
	}
	if len(rest) == 0 || rest[0] != ':' {
		return false
	}
	code, text, _ := scan.Uint(scan.TrimLeft(rest[1:]))
	_, failed := scan.Before(text, "Auth fail")
	switch {
	case code == 14 || failed:
		ev.Outcome, ev.Class = event.Failure, sshdGoodbye
	case pre && !port:
		ev.Kind = event.Probe
	}
	return true
}

// sshdID reads "ADDR[ port N]" at b's start; the end, a colon or a space
// follows.
func sshdID(b []byte, ev *event.Event) bool {
	a, _, ok := scan.AddrPrefix(b)
	ev.Addr = a
	return ok
}
