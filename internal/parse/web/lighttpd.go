package web

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// lighttpd's error log (src/log.c, mod_auth.c, http_auth.c, mod_evasive.c):
//
//	2018-01-16 14:10:32: (mod_auth.c.525) password doesn't match for /x username: U, IP: A
//
// U and the path come before the address and are not escaped; the address is
// the very end of the line, so that only the last one is lighttpd's. A line as
// long as a relay's limit may have lost its end.

const lighttpdCut = 1000

// lighttpdError reads a line of it, with its stamp.
func (w *Reader) lighttpdError(env *event.Message, line []byte, ev *event.Event) bool {
	if len(line) < 26 || line[4] != '-' || line[10] != ' ' || line[19] != ':' {
		return false
	}
	ns, rest, ok := scan.Stamp(line[:19], env.Ref, env.Loc)
	if !ok || len(rest) > 0 || !scan.HasPrefix(line[19:], ": ") || !w.lighttpdTagged(env, line[21:], ev) {
		return false
	}
	ev.Time = ns
	return true
}

// lighttpdTagged reads "(mod_auth.c.525) message".
func (w *Reader) lighttpdTagged(env *event.Message, b []byte, ev *event.Event) bool {
	place, msg, ok := scan.Cut(b, ") ")
	if !ok || len(place) > 48 {
		return false
	}
	place, _ = scan.After(place, "(")
	file, num, ok := scan.Last(place, ".c.")
	if !ok || !scan.Digits(num) || !vhostName(file) {
		return false
	}
	ev.Service, ev.Count = "lighttpd", 1
	lighttpdMessage(msg, ev)
	w.client.set(ev, nil)
	return true
}

func lighttpdMessage(msg []byte, ev *event.Event) {
	if alert, ok := suhosinIn(msg); ok {
		suhosinAlert(alert, ev)
		return
	}
	if who, rest := scan.Word(msg); scan.HasPrefix(rest, "turned away. ") {
		if a, ok := scan.AddrPort(who); ok {
			ev.Addr, ev.Outcome, ev.Kind = a, event.Failure, event.Limited
		}
		return
	}
	head, tail, ok := scan.Last(msg, " IP: ")
	if !ok || len(msg) >= lighttpdCut {
		return
	}
	a, ok := scan.Addr(tail)
	if !ok {
		return
	}
	if lighttpdAuth(bytes.TrimSuffix(head, []byte{','}), ev); ev.Outcome == event.Failure {
		ev.Addr = a // of another message it may be what the client sent
	}
}

// lighttpdAuth judges the text before the address.
func lighttpdAuth(head []byte, ev *event.Event) {
	if scan.HasPrefix(head, "password doesn't match for ") {
		ev.Outcome = event.Failure
		if _, user, ok := scan.Last(head, " username: "); ok {
			ev.User = orNone(user)
		}
		return
	}
	if rest, ok := scan.After(head, "digest: auth failed for "); ok {
		ev.Outcome = event.Failure
		if user, ok := scan.Before(rest, ": wrong password"); ok {
			ev.User = orNone(scan.Trim(user))
		}
		return
	}
	switch {
	case scan.HasPrefix(head, "get_password failed"):
		ev.Outcome, ev.Kind = event.Failure, event.UnknownUser
	case scan.HasPrefix(head, "digest: auth failed"):
		ev.Outcome = event.Failure
	}
}
