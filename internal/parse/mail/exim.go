package mail

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// exim reads Exim's main and reject logs and their syslog form: src/smtp_in.c,
// src/acl.c, src/host.c, src/receive.c of Exim 4. The peer stands as
// "name (helo) [address]:port I=[ours]:port"; helo, the commands that are
// quoted, and the addresses of mails are the client's text.
func exim(env *event.Message, msg []byte, ev *event.Event) bool {
	if _, rest, ok := scan.Stamp(msg, env.Ref, env.Loc); ok {
		msg = scan.TrimLeft(rest) // syslog with syslog_timestamp
	}
	msg = scan.TrimTimes(eximPrefix(env, msg))
	if !eximMessage(msg, ev) {
		return false
	}
	switch { // one process serves one connection
	case ev.Outcome == event.Failure && ev.Kind == event.Plain:
		env.Join(ev, eximLogin)
	case ev.Outcome == event.Other && ev.Kind == event.Probe:
		env.Join(ev, eximEnd)
	}
	return true
}

// How Exim reports one connection, where it logs process ids.
const (
	eximLogin = 1 + iota
	eximEnd
)

func eximMessage(msg []byte, ev *event.Event) bool {
	if m, ok := scan.After(msg, "H="); ok {
		return eximHostLine(m, ev)
	}
	if m, ok := scan.After(msg, "<= "); ok {
		return eximArrival(m, ev)
	}
	if eximAuth(msg, ev) || eximCommand(msg, ev) {
		return true
	}
	for i := range eximForms {
		f := &eximForms[i]
		if m, ok := scan.After(msg, f.text); ok {
			return eximForm(m, f.unique, f.outcome, f.kind, ev)
		}
	}
	return false
}

// eximPrefix drops "[pid]" and a message id, and keeps the former.
func eximPrefix(env *event.Message, b []byte) []byte {
	if m, ok := scan.After(b, "["); ok {
		if pid, rest, ok := scan.CutDigits(m); ok {
			if rest, ok = scan.After(rest, "] "); ok {
				env.PID, b = pid, rest
			}
		}
	}
	if w, rest := scan.Word(b); eximID(w) {
		b = rest
	}
	return b
}

// eximID reports whether w is a message id: 6-6-2 or, since 4.97, 6-11-4
// letters and digits.
func eximID(w []byte) bool {
	if len(w) != 16 && len(w) != 23 || w[6] != '-' || w[len(w)-3] != '-' && w[len(w)-5] != '-' {
		return false
	}
	for _, c := range w {
		if c-'0' > 9 && (c|0x20)-'a' > 25 && c != '-' {
			return false
		}
	}
	return true
}

// eximPeer reads the peer at b's start. The name behind HELO stands in
// parentheses; one with other characters than names and literals have (which
// helo_accept_junk_hosts lets in) could hold a peer of its own, so then there
// may be one address only in all of b.
func eximPeer(b []byte) (a netip.Addr, rest []byte, ok bool) {
	_, rest = scan.HostName(b)
	rest, _ = scan.After(rest, " ")
	if m, ok := scan.After(rest, "("); ok {
		i := 0
		for i < len(m) && (scan.HostByte(m[i]) || m[i] == '[' || m[i] == ']' || m[i] == ':') {
			i++
		}
		rest, ok = scan.After(m[i:], ") ")
		if !ok {
			return eximUnique(b)
		}
		if a, rest, ok = scan.Boxed(rest); ok && eximOther(rest, a) {
			return a, nil, false
		}
		return a, scan.SkipPort(rest), ok
	}
	if a, rest, ok = scan.Boxed(rest); ok {
		return a, scan.SkipPort(rest), true
	}
	return eximUnique(b)
}

// eximOther reports whether b holds ") [address]" with another address than a:
// then the name behind HELO may have ended there.
func eximOther(b []byte, a netip.Addr) bool {
	for {
		_, rest, ok := scan.Cut(b, ") [")
		if !ok {
			return false
		}
		if other, _, ok := scan.Boxed(b[len(b)-len(rest)-1:]); ok && other != a {
			return true
		}
		b = rest
	}
}

// eximUnique finds the one "[address]" of b that is not our own ("I=[…]").
// When b names two, nobody is meant.
func eximUnique(b []byte) (a netip.Addr, rest []byte, ok bool) {
	for off := 0; off < len(b); off++ {
		i := bytes.IndexByte(b[off:], '[')
		if i < 0 {
			break
		}
		off += i
		found, tail, good := scan.Boxed(b[off:])
		if !good || off > 1 && b[off-1] == '=' && b[off-2] == 'I' {
			continue
		}
		if ok && found != a {
			return a, nil, false
		}
		a, rest, ok = found, scan.SkipPort(tail), true
	}
	return a, rest, ok
}

// eximAuth reads "login authenticator failed for PEER: 535 Incorrect
// authentication data (set_id=user)". The first word is the administrator's.
func eximAuth(msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "authenticator failed for ")
	if !ok {
		var name []byte
		name, m = scan.Word(msg)
		if m, ok = scan.After(m, "authenticator failed for "); !ok || len(name) > 64 {
			return false
		}
	}
	a, rest, ok := eximPeer(m)
	if !ok {
		return false
	}
	_, why, ok := scan.Cut(rest, ": ")
	if !ok {
		return false
	}
	ev.Set("exim", event.Other, event.Plain, a)
	if _, ok := scan.After(why, "535 "); ok {
		ev.Outcome = event.Failure
	}
	if _, user, ok := scan.Cut(why, " (set_id="); ok {
		if user, ok = scan.Before(user, ")"); ok {
			ev.User = user
		}
	}
	return true
}

// eximCommand reads "SMTP protocol error in "AUTH LOGIN" H=PEER why" and "SMTP
// syntax error in …". The quoted command and, in one of the reasons, the word
// before it are the client's, so the peer is read from the end.
func eximCommand(msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, `SMTP syntax error in "`)
	if ok {
		_, m, ok = scan.Last(m, `" H=`)
		a, _, ok2 := eximPeer(m)
		return ok && ok2 && ev.Set("exim", event.Failure, event.Forbidden, a)
	}
	m, ok = scan.After(msg, `SMTP protocol error in "`)
	if !ok {
		return false
	}
	kind := event.Forbidden
	head, ok := scan.Before(m, " AUTH command used when not advertised")
	if !ok {
		if head, ok = scan.Before(m, " authentication mechanism not supported"); ok {
			head, _ = scan.LastWord(head)
		} else if head, ok = scan.Before(m, " STARTTLS command used when not advertised"); !ok {
			a, _, ok := eximUnique(m)
			return ok && ev.Set("exim", event.Failure, kind, a)
		}
	}
	a, ok := eximPeerAtEnd(head)
	return ok && ev.Set("exim", event.Failure, kind, a)
}

// eximPeerAtEnd reads the address of the peer that b ends with.
func eximPeerAtEnd(b []byte) (a netip.Addr, ok bool) {
	for range 4 {
		head, w := scan.LastWord(b)
		switch {
		case len(w) > 3 && (string(w[:2]) == "I=" || string(w[:3]) == "Ci=" || string(w[:2]) == "U="):
			b = head
		default:
			w, _ = scan.After(w, "H=")
			a, rest, ok := scan.Boxed(w)
			return a, ok && len(scan.SkipPort(rest)) == 0
		}
	}
	return a, false
}
