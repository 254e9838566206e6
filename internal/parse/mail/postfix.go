package mail

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// How Postfix's smtpd reports one attempt. "connect from" begins a
// connection again, since a process serves one after another.
const (
	postfixConnect    = 1 + iota
	postfixSASL       // the warning, one an attempt
	postfixDisconnect // "auth=0/2" of the disconnect line (since 3.0)
	postfixLost       // "lost connection after AUTH"
	postfixProtocol   // "too many errors after …", bad commands
	postfixReject
)

// postfixScanner returns the scanner of one of Postfix's services by the last
// part of its tag ("postfix/submission/smtpd"), nil when it has none.
func postfixScanner(tag []byte) event.Scanner {
	if bytes.IndexByte(tag, '/') < 0 {
		switch string(tag) {
		case "postgrey":
			return postgrey
		case "postfix":
			return postfixAny
		}
		return nil
	}
	switch string(scan.Base(tag)) {
	case "smtpd":
		return postfixSMTPD
	case "postscreen", "dnsblog":
		return postscreen
	case "anvil":
		return postfixAnvil
	case "cleanup":
		return smtpdQueue
	}
	return nil
}

// postfixAny reads a message whose service the tag does not tell.
func postfixAny(env *event.Message, msg []byte, ev *event.Event) bool {
	return postfixSMTPD(env, msg, ev) || postscreen(env, msg, ev) || postfixAnvil(env, msg, ev) || postgrey(env, msg, ev)
}

// postfixSMTPD reads the messages of smtpd(8): postfix/src/smtpd/smtpd.c,
// smtpd_check.c, smtpd_sasl_glue.c and smtpd_chat.c. The client stands as
// name[address], where the name is a checked host name or "unknown", before
// everything that it said.
func postfixSMTPD(env *event.Message, msg []byte, ev *event.Event) bool {
	if m, ok := scan.After(msg, "warning: "); ok {
		return smtpdWarning(env, m, ev)
	}
	if m, ok := scan.After(msg, "disconnect from "); ok {
		return smtpdDisconnect(env, m, ev)
	}
	if m, ok := scan.After(msg, "connect from "); ok {
		a, rest, ok := scan.ClientBox(m)
		if !ok || len(rest) > 0 {
			return false
		}
		ev.Set("postfix", event.Other, event.Plain, a)
		env.Join(ev, postfixConnect)
		return true
	}
	if smtpdSession(env, msg, ev) {
		return true
	}
	return smtpdQueue(env, msg, ev)
}

// smtpdSession reads what smtpd says of a session's end and of bad protocol.
func smtpdSession(env *event.Message, msg []byte, ev *event.Event) bool {
	for i := range smtpdSessions {
		s := &smtpdSessions[i]
		m, ok := scan.After(msg, s.text)
		if !ok {
			continue
		}
		var where []byte
		if s.where {
			if where, m, ok = scan.Cut(m, "from "); !ok || !commandWords(where) {
				return false
			}
		}
		a, rest, ok := scan.ClientBox(m)
		if !ok || len(rest) > 0 && rest[0] != ':' && rest[0] != ' ' {
			return false
		}
		ev.Set("postfix", s.outcome, s.kind, a)
		if word, _ := scan.Word(where); s.lost && string(word) == "AUTH" {
			ev.Outcome, ev.Kind = event.Failure, event.Plain
		}
		if s.lost || s.kind == event.Probe {
			env.Join(ev, postfixLost)
		} else {
			env.Join(ev, postfixProtocol)
		}
		return true
	}
	return false
}

var smtpdSessions = []struct {
	text        string
	where, lost bool
	outcome     event.Outcome
	kind        event.Kind
}{
	{"lost connection after ", true, true, event.Other, event.Probe},
	{"timeout after ", true, false, event.Other, event.Probe},
	{"too many errors after ", true, false, event.Failure, event.Forbidden},
	{"improper command pipelining after ", true, false, event.Failure, event.Forbidden},
	{"SSL_accept error from ", false, false, event.Other, event.Probe},
	{"non-SMTP command from ", false, false, event.Failure, event.Forbidden},
	{"bare <LF> received after ", true, false, event.Failure, event.Forbidden},
}

// commandWords reports whether b is the command that smtpd was at: its own
// words in capitals, and "(0 bytes) " behind them.
func commandWords(b []byte) bool {
	if len(b) == 0 || len(b) > 48 || b[len(b)-1] != ' ' {
		return false
	}
	w, rest := scan.Word(b)
	for _, c := range w {
		if c-'A' > 25 && c != '-' && c-'0' > 9 {
			return false
		}
	}
	if n, ok := scan.After(rest, "("); ok {
		_, tail, ok := scan.Uint(n)
		return ok && string(tail) == " bytes) "
	}
	return len(rest) == 0 && len(w) > 0
}

func smtpdWarning(env *event.Message, m []byte, ev *event.Event) bool {
	if rest, ok := scan.After(m, "hostname "); ok {
		return smtpdHostname(rest, ev)
	}
	if rest, ok := scan.After(m, "Illegal address syntax from "); ok {
		a, tail, ok := scan.ClientBox(rest)
		_, ok2 := scan.After(tail, " in ")
		return ok && ok2 && ev.Set("postfix", event.Failure, event.Forbidden, a)
	}
	if smtpdLimit(m, ev) || smtpdSession(env, m, ev) {
		return true
	}
	a, rest, ok := scan.ClientBox(m)
	if !ok {
		return false
	}
	if mech, ok := scan.After(rest, ": SASL "); ok {
		ev.Set("postfix", event.Failure, event.Plain, a)
		return smtpdSASL(env, mech, ev)
	}
	if _, ok := scan.After(rest, " sent "); ok { // "sent message header instead of SMTP command: …"
		return ev.Set("postfix", event.Failure, event.Forbidden, a)
	}
	return false
}

// smtpdSASL reads "LOGIN authentication failed: reason, sasl_username=user".
// The method is the client's first word, the reason often its own text.
func smtpdSASL(env *event.Message, m []byte, ev *event.Event) bool {
	_, m = scan.Word(m)
	if reason, ok := scan.After(m, "authentication failed:"); ok {
		reason, user, _ := scan.Last(reason, ", sasl_username=")
		ev.User = user
		if scan.HasAny(reason, "Connection lost to authentication server", "Temporary authentication failure") {
			ev.Outcome = event.Other
			return true
		}
	} else if string(scan.Trim(m)) == "authentication aborted" {
		ev.Outcome = event.Other // nothing was tried
		return true
	} else if string(scan.Trim(m)) != "authentication failed" {
		return false
	}
	env.Join(ev, postfixSASL)
	return true
}

// smtpdLimit reads "Connection rate limit exceeded: 31 from name[a] for
// service smtpd", and those of the other counters of anvil(8).
func smtpdLimit(m []byte, ev *event.Event) bool {
	head, rest, ok := scan.Cut(m, " limit exceeded: ")
	if !ok || len(head) > 40 || bytes.ContainsAny(head, "[<:\"") {
		return false
	}
	_, rest, ok = scan.Uint(rest)
	if !ok {
		return false
	}
	rest, ok = scan.After(rest, " from ")
	a, rest, ok2 := scan.ClientBox(rest)
	_, ok3 := scan.After(rest, " for service ")
	return ok && ok2 && ok3 && ev.Set("postfix", event.Failure, event.Limited, a)
}

// smtpdHostname reads "hostname x does not resolve to address A[: reason]": a
// peer whose names disagree, which is no failure by itself.
func smtpdHostname(m []byte, ev *event.Event) bool {
	_, rest := scan.HostName(m)
	rest, ok := scan.After(rest, " does not resolve to address ")
	if !ok {
		return false
	}
	addr, _, _ := scan.Cut(rest, ": ")
	a, ok := scan.Addr(addr)
	return ok && ev.Set("postfix", event.Other, event.Plain, a)
}

// smtpdDisconnect reads "name[a] ehlo=1 auth=0/2 quit=1 commands=2/4", where
// n/m is m tries of which n went well.
func smtpdDisconnect(env *event.Message, m []byte, ev *event.Event) bool {
	a, rest, ok := scan.ClientBox(m)
	if !ok || len(rest) > 0 && rest[0] != ' ' {
		return false
	}
	ev.Set("postfix", event.Other, event.Plain, a)
	for len(rest) > 0 {
		var w []byte
		w, rest = scan.Word(rest)
		if string(w) == "commands=0/0" {
			ev.Kind = event.Probe
			env.Join(ev, postfixDisconnect)
		}
		if n, ok := scan.After(w, "auth="); ok {
			if failed := failedOf(n); failed > 0 {
				ev.Outcome, ev.Count = event.Failure, failed
				env.Join(ev, postfixDisconnect)
			}
		}
	}
	return true
}

// failedOf reads "n/m" and returns m-n, 0 for anything else.
func failedOf(b []byte) int {
	good, rest, ok := scan.Uint(b)
	all, ok2 := scan.After(rest, "/")
	n, tail, ok3 := scan.Uint(all)
	if !ok || !ok2 || !ok3 || len(tail) > 0 || n < good || n-good > 10000 {
		return 0
	}
	return int(n - good)
}
