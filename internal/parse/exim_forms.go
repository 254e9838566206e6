package parse

import "stoplog/internal/parse/scan"

// eximForms are the messages that begin with a text of Exim's own. Those
// marked unique quote the client before they name it.
var eximForms = []struct {
	text    string
	unique  bool
	outcome Outcome
	kind    Kind
}{
	{"SMTP call from ", false, Failure, Forbidden}, // "dropped: too many nonmail commands (last was …"
	{"SMTP connection from ", false, Other, Plain},
	{"no MAIL in SMTP connection from ", false, Other, Probe},
	{"no MAIL in TLS connection from ", false, Other, Probe},
	{"SMTP command timeout on connection from ", false, Other, Probe},
	{"SMTP command timeout on TLS connection from ", false, Other, Probe},
	{"unexpected disconnection while reading SMTP command from ", false, Other, Probe},
	{"TLS error on connection from ", false, Other, Probe},
	{"refused connection from ", false, Failure, Forbidden},
	{"Connection from ", false, Failure, Limited}, // "refused: too many connections"
	{"rejected EHLO from ", false, Failure, Forbidden},
	{"rejected HELO from ", false, Failure, Forbidden},
	{"rejected VRFY from ", false, Failure, Forbidden},
	{"rejected EXPN from ", false, Failure, Forbidden},
	{"rejected connection from ", false, Failure, Forbidden},
	{"SMTP protocol synchronization error ", true, Failure, Forbidden},
	{"unqualified sender rejected: ", true, Failure, Forbidden},
	{"unqualified recipient rejected: ", true, Failure, Forbidden},
	{"rejected MAIL ", true, Failure, Forbidden},
	{"rejected RCPT ", true, Failure, Forbidden},
	{"rejected from ", true, Failure, Forbidden},
	{"no IP address found for host ", true, Other, Plain},
	{"SA: Action: flagged as Spam", true, Failure, Forbidden},
	{"SA: Action: silently tossed message", true, Failure, Forbidden},
	{"SA: Action: permanently rejected message", true, Failure, Forbidden},
	{"SA: Action: temporarily rejected message", true, Failure, Forbidden},
}

func eximForm(m []byte, unique bool, o Outcome, k Kind, ev *Event) bool {
	if unique {
		a, _, ok := eximUnique(m)
		return ok && tell(ev, "exim", o, k, a)
	}
	m, _ = scan.After(m, "H=")
	a, rest, ok := eximPeer(m)
	if !ok {
		return false
	}
	if _, ok := scan.Before(rest, " closed by DROP in ACL"); ok {
		o, k = Failure, Forbidden
	}
	return tell(ev, "exim", o, k, a)
}

// eximHostLine reads what follows "H=": "PEER F=<sender> rejected RCPT <to>:
// why", "PEER sender verify fail for <…", "PEER dropped by 'connect' ACL".
func eximHostLine(m []byte, ev *Event) bool {
	a, rest, ok := eximPeer(m)
	if !ok {
		return false
	}
	if !hasAny(rest, " rejected ", " sender verify ", " dropped", " Warning: ") {
		return false
	}
	tell(ev, "exim", Failure, Forbidden, a)
	switch {
	case hasAny(rest, " rejected ", " sender verify fail", " dropped"):
		if scan.Has(rest, "atelimited") {
			ev.Kind = Limited
		}
		if scan.Has(rest, "temporarily rejected") && hasAny(rest, "reylist", "Temporary local problem") ||
			scan.Has(rest, "sender verify defer") {
			ev.Outcome, ev.Kind = Other, Plain
		}
	default:
		ev.Outcome, ev.Kind = Other, Plain
	}
	return true
}

// eximArrival reads "sender H=PEER P=esmtpa A=login:user S=623 …" of a mail
// that came in. The sender must be one plain word.
func eximArrival(m []byte, ev *Event) bool {
	sender, m := scan.Word(m)
	m, ok := scan.After(m, "H=")
	if !ok || scan.Has(sender, `"`) {
		return false
	}
	a, rest, ok := eximPeer(m)
	if !ok {
		return false
	}
	tell(ev, "exim", Other, Plain, a)
	rest, _, _ = scan.Cut(rest, " S=")
	if _, auth, ok := scan.Cut(rest, " A="); ok {
		auth, _ = scan.Word(auth)
		if _, user, ok := scan.Cut(auth, ":"); ok {
			ev.User, ev.Outcome = user, Success
		}
	}
	return true
}
