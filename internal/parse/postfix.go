package parse

import (
	"bytes"

	"stoplog/internal/parse/scan"
)

// Ways in which Postfix's smtpd tells of one attempt. "connect from" begins a
// connection anew, since a process serves one after another.
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
func postfixScanner(tag []byte) scanner {
	if bytes.IndexByte(tag, '/') < 0 {
		switch string(tag) {
		case "postgrey":
			return postgrey
		case "postfix":
			return postfixAny
		}
		return nil
	}
	switch string(baseName(tag)) {
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
func postfixAny(p *Parser, msg []byte, ev *Event) bool {
	return postfixSMTPD(p, msg, ev) || postscreen(p, msg, ev) || postfixAnvil(p, msg, ev) || postgrey(p, msg, ev)
}

// postfixSMTPD reads the messages of smtpd(8): postfix/src/smtpd/smtpd.c,
// smtpd_check.c, smtpd_sasl_glue.c and smtpd_chat.c. The client stands as
// name[address], where the name is a checked host name or "unknown", before
// everything that it said.
func postfixSMTPD(p *Parser, msg []byte, ev *Event) bool {
	if m, ok := scan.After(msg, "warning: "); ok {
		return smtpdWarning(p, m, ev)
	}
	if m, ok := scan.After(msg, "disconnect from "); ok {
		return smtpdDisconnect(p, m, ev)
	}
	if m, ok := scan.After(msg, "connect from "); ok {
		a, rest, ok := clientBox(m)
		if !ok || len(rest) > 0 {
			return false
		}
		tell(ev, "postfix", Other, Plain, a)
		p.joinProcess(ev, postfixConnect)
		return true
	}
	if smtpdSession(p, msg, ev) {
		return true
	}
	return smtpdQueue(p, msg, ev)
}

// smtpdSession reads what smtpd says of a session's end and of bad protocol.
func smtpdSession(p *Parser, msg []byte, ev *Event) bool {
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
		a, rest, ok := clientBox(m)
		if !ok || len(rest) > 0 && rest[0] != ':' && rest[0] != ' ' {
			return false
		}
		tell(ev, "postfix", s.outcome, s.kind, a)
		if word, _ := scan.Word(where); s.lost && string(word) == "AUTH" {
			ev.Outcome, ev.Kind = Failure, Plain
		}
		if s.lost || s.kind == Probe {
			p.joinProcess(ev, postfixLost)
		} else {
			p.joinProcess(ev, postfixProtocol)
		}
		return true
	}
	return false
}

var smtpdSessions = []struct {
	text        string
	where, lost bool
	outcome     Outcome
	kind        Kind
}{
	{"lost connection after ", true, true, Other, Probe},
	{"timeout after ", true, false, Other, Probe},
	{"too many errors after ", true, false, Failure, Forbidden},
	{"improper command pipelining after ", true, false, Failure, Forbidden},
	{"SSL_accept error from ", false, false, Other, Probe},
	{"non-SMTP command from ", false, false, Failure, Forbidden},
	{"bare <LF> received after ", true, false, Failure, Forbidden},
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

func smtpdWarning(p *Parser, m []byte, ev *Event) bool {
	if rest, ok := scan.After(m, "hostname "); ok {
		return smtpdHostname(rest, ev)
	}
	if rest, ok := scan.After(m, "Illegal address syntax from "); ok {
		a, tail, ok := clientBox(rest)
		_, ok2 := scan.After(tail, " in ")
		return ok && ok2 && tell(ev, "postfix", Failure, Forbidden, a)
	}
	if smtpdLimit(m, ev) || smtpdSession(p, m, ev) {
		return true
	}
	a, rest, ok := clientBox(m)
	if !ok {
		return false
	}
	if mech, ok := scan.After(rest, ": SASL "); ok {
		tell(ev, "postfix", Failure, Plain, a)
		return smtpdSASL(p, mech, ev)
	}
	if _, ok := scan.After(rest, " sent "); ok { // "sent message header instead of SMTP command: …"
		return tell(ev, "postfix", Failure, Forbidden, a)
	}
	return false
}

// smtpdSASL reads "LOGIN authentication failed: reason, sasl_username=user".
// The method is the client's first word, the reason often its own text.
func smtpdSASL(p *Parser, m []byte, ev *Event) bool {
	_, m = scan.Word(m)
	if reason, ok := scan.After(m, "authentication failed:"); ok {
		reason, user, _ := scan.Last(reason, ", sasl_username=")
		ev.User = user
		if hasAny(reason, "Connection lost to authentication server", "Temporary authentication failure") {
			ev.Outcome = Other
			return true
		}
	} else if string(scan.Trim(m)) == "authentication aborted" {
		ev.Outcome = Other // nothing was tried
		return true
	} else if string(scan.Trim(m)) != "authentication failed" {
		return false
	}
	p.joinProcess(ev, postfixSASL)
	return true
}

// smtpdLimit reads "Connection rate limit exceeded: 31 from name[a] for
// service smtpd", and those of the other counters of anvil(8).
func smtpdLimit(m []byte, ev *Event) bool {
	head, rest, ok := scan.Cut(m, " limit exceeded: ")
	if !ok || len(head) > 40 || bytes.ContainsAny(head, "[<:\"") {
		return false
	}
	_, rest, ok = scan.Uint(rest)
	if !ok {
		return false
	}
	rest, ok = scan.After(rest, " from ")
	a, rest, ok2 := clientBox(rest)
	_, ok3 := scan.After(rest, " for service ")
	return ok && ok2 && ok3 && tell(ev, "postfix", Failure, Limited, a)
}

// smtpdHostname reads "hostname x does not resolve to address A[: reason]": a
// peer whose names disagree, which is no failure by itself.
func smtpdHostname(m []byte, ev *Event) bool {
	_, rest := hostName(m)
	rest, ok := scan.After(rest, " does not resolve to address ")
	if !ok {
		return false
	}
	addr, _, _ := scan.Cut(rest, ": ")
	a, ok := scan.Addr(addr)
	return ok && tell(ev, "postfix", Other, Plain, a)
}

// smtpdDisconnect reads "name[a] ehlo=1 auth=0/2 quit=1 commands=2/4", where
// n/m is m tries of which n went well.
func smtpdDisconnect(p *Parser, m []byte, ev *Event) bool {
	a, rest, ok := clientBox(m)
	if !ok || len(rest) > 0 && rest[0] != ' ' {
		return false
	}
	tell(ev, "postfix", Other, Plain, a)
	for len(rest) > 0 {
		var w []byte
		w, rest = scan.Word(rest)
		if string(w) == "commands=0/0" {
			ev.Kind = Probe
			p.joinProcess(ev, postfixDisconnect)
		}
		if n, ok := scan.After(w, "auth="); ok {
			if failed := failedOf(n); failed > 0 {
				ev.Outcome, ev.Count = Failure, failed
				p.joinProcess(ev, postfixDisconnect)
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
