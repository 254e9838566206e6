package mail

import (
	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// eximForms are the messages that begin with a text of Exim's own. Those
// marked unique quote the client before they name it.
var eximForms = []struct {
	text    string
	unique  bool
	outcome event.Outcome
	kind    event.Kind
}{
	{"SMTP call from ", false, event.Failure, event.Forbidden}, // "dropped: too many nonmail commands (last was …"
	{"SMTP connection from ", false, event.Other, event.Plain},
	{"no MAIL in SMTP connection from ", false, event.Other, event.Probe},
	{"no MAIL in TLS connection from ", false, event.Other, event.Probe},
	{"SMTP command timeout on connection from ", false, event.Other, event.Probe},
	{"SMTP command timeout on TLS connection from ", false, event.Other, event.Probe},
	{"unexpected disconnection while reading SMTP command from ", false, event.Other, event.Probe},
	{"TLS error on connection from ", false, event.Other, event.Probe},
	{"refused connection from ", false, event.Failure, event.Forbidden},
	{"Connection from ", false, event.Failure, event.Limited}, // "refused: too many connections"
	{"rejected EHLO from ", false, event.Failure, event.Forbidden},
	{"rejected HELO from ", false, event.Failure, event.Forbidden},
	{"rejected VRFY from ", false, event.Failure, event.Forbidden},
	{"rejected EXPN from ", false, event.Failure, event.Forbidden},
	{"rejected connection from ", false, event.Failure, event.Forbidden},
	{"SMTP protocol synchronization error ", true, event.Failure, event.Forbidden},
	{"unqualified sender rejected: ", true, event.Failure, event.Forbidden},
	{"unqualified recipient rejected: ", true, event.Failure, event.Forbidden},
	{"rejected MAIL ", true, event.Failure, event.Forbidden},
	{"rejected RCPT ", true, event.Failure, event.Forbidden},
	{"rejected from ", true, event.Failure, event.Forbidden},
	{"no IP address found for host ", true, event.Other, event.Plain},
	{"SA: Action: flagged as Spam", true, event.Failure, event.Forbidden},
	{"SA: Action: silently tossed message", true, event.Failure, event.Forbidden},
	{"SA: Action: permanently rejected message", true, event.Failure, event.Forbidden},
	{"SA: Action: temporarily rejected message", true, event.Failure, event.Forbidden},
}

func eximForm(m []byte, unique bool, o event.Outcome, k event.Kind, ev *event.Event) bool {
	if unique {
		a, _, ok := eximUnique(m)
		return ok && ev.Set("exim", o, k, a)
	}
	m, _ = scan.After(m, "H=")
	a, rest, ok := eximPeer(m)
	if !ok {
		return false
	}
	if _, ok := scan.Before(rest, " closed by DROP in ACL"); ok {
		o, k = event.Failure, event.Forbidden
	}
	return ev.Set("exim", o, k, a)
}

// eximHostLine reads what follows "H=": "PEER F=<sender> rejected RCPT <to>:
// why", "PEER sender verify fail for <…", "PEER dropped by 'connect' ACL".
func eximHostLine(m []byte, ev *event.Event) bool {
	a, rest, ok := eximPeer(m)
	if !ok {
		return false
	}
	if !scan.HasAny(rest, " rejected ", " sender verify ", " dropped", " Warning: ") {
		return false
	}
	ev.Set("exim", event.Failure, event.Forbidden, a)
	switch {
	case scan.HasAny(rest, " rejected ", " sender verify fail", " dropped"):
		if scan.Has(rest, "atelimited") {
			ev.Kind = event.Limited
		}
		if scan.Has(rest, "temporarily rejected") && scan.HasAny(rest, "reylist", "Temporary local problem") ||
			scan.Has(rest, "sender verify defer") {
			ev.Outcome, ev.Kind = event.Other, event.Plain
		}
	default:
		ev.Outcome, ev.Kind = event.Other, event.Plain
	}
	return true
}

// eximArrival reads "sender H=PEER P=esmtpa A=login:user S=623 …" of a mail
// that came in. The sender must be one plain word.
func eximArrival(m []byte, ev *event.Event) bool {
	sender, m := scan.Word(m)
	m, ok := scan.After(m, "H=")
	if !ok || scan.Has(sender, `"`) {
		return false
	}
	a, rest, ok := eximPeer(m)
	if !ok {
		return false
	}
	ev.Set("exim", event.Other, event.Plain, a)
	rest, _, _ = scan.Cut(rest, " S=")
	if _, auth, ok := scan.Cut(rest, " A="); ok {
		auth, _ = scan.Word(auth)
		if _, user, ok := scan.Cut(auth, ":"); ok {
			ev.User, ev.Outcome = user, event.Success
		}
	}
	return true
}
