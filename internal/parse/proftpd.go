package parse

import "stoplog/internal/parse/scan"

// Ways in which ProFTPD tells of one attempt to log in.
const (
	proftpdLogin = 1 + iota
	proftpdPAM
	proftpdEnd // "Maximum login attempts", "SECURITY VIOLATION"
)

// proftpd reads "server (name[a]) - message" (syslog) and "server (name[a]):
// message" (its own logs): src/log.c, modules/mod_auth.c, mod_auth_pam.c. The
// name is a host name; all that the client said comes after the address.
func proftpd(p *Parser, msg []byte, ev *Event) bool {
	_, m := hostName(msg)
	if own, ok := scan.After(m, " proftpd["); ok { // its own log: "host proftpd[pid] server (name[a]): "
		if p.pid, own, ok = scan.Cut(own, "] "); !ok || !scan.Digits(p.pid) {
			return false
		}
		_, m = hostName(own)
	}
	in, ok := scan.After(m, " (")
	if !ok {
		return false
	}
	a, m, ok := clientBox(in)
	if !ok {
		_, m = hostName(in) // "name (name [a])" of 1.2
		m, _ = scan.After(m, " ")
		if a, m, ok = boxed(m); !ok {
			return false
		}
	}
	m, ok = scan.After(m, ")")
	if !ok {
		return false
	}
	for _, sep := range [...]string{" - ", ": ", " "} {
		if rest, ok := scan.After(m, sep); ok {
			m = rest
			break
		}
	}
	tell(ev, "proftpd", Other, Plain, a)
	proftpdMessage(p, trimTimes(m), ev)
	return true
}

func proftpdMessage(p *Parser, m []byte, ev *Event) {
	if user, ok := scan.After(m, "USER "); ok {
		proftpdUser(p, user, ev)
		return
	}
	if pam, ok := scan.After(m, "PAM("); ok {
		if user, _, ok := scan.Last(pam, "): Authentication failure"); ok {
			ev.Outcome, ev.User = Failure, user
			p.joinProcess(ev, proftpdPAM)
		}
		return
	}
	if user, ok := scan.After(m, "ANON "); ok {
		if user, _, ok = scan.Last(user, ": Login successful"); ok {
			ev.User, ev.Outcome = user, Success
		}
		return
	}
	for i := range proftpdForms {
		if _, ok := scan.After(m, proftpdForms[i].text); ok {
			ev.Outcome, ev.Kind = proftpdForms[i].outcome, proftpdForms[i].kind
			p.joinProcess(ev, proftpdEnd)
			return
		}
	}
	if p.hint() != "" && scan.Has(m, "no such user") {
		ev.Outcome, ev.Kind = Failure, UnknownUser
	}
}

// proftpdUser reads what follows "USER": "x: no such user found from name [a]
// to b:21", "x (Login failed): Incorrect password", "x: Login successful".
func proftpdUser(p *Parser, m []byte, ev *Event) {
	if user, why, ok := scan.Last(m, " (Login failed): "); ok {
		ev.Outcome, ev.User = Failure, user
		if _, ok := scan.After(why, "No such user"); ok {
			ev.Kind = UnknownUser
		} else if hasAny(why, "Limit ", "denied", "Denied") {
			ev.Kind = Forbidden
		}
	} else if user, _, ok := scan.Last(m, ": no such user found from "); ok {
		ev.Outcome, ev.Kind, ev.User = Failure, UnknownUser, user
	} else if user, ok := scan.Before(m, " (Login failed)"); ok {
		ev.Outcome, ev.User = Failure, user
	} else if user, rest, ok := scan.Last(m, ": Login successful"); ok && len(rest) < 2 {
		ev.Outcome, ev.User = Success, user
		return
	} else {
		return
	}
	p.joinProcess(ev, proftpdLogin)
}

var proftpdForms = []struct {
	text    string
	outcome Outcome
	kind    Kind
}{
	{"SECURITY VIOLATION", Failure, Forbidden},
	{"Maximum login attempts", Failure, Limited},
	{"Connection refused", Failure, Forbidden},
	{"Connection from ", Failure, Forbidden}, // "… denied"
	{"Connection denied", Failure, Forbidden},
	{"Refused user ", Failure, Forbidden},
	{"Refused connection", Failure, Forbidden},
	{"refused connection", Failure, Forbidden},
	{"login from ", Failure, Forbidden}, // mod_ban's "… denied due to …"
	{"Login timeout exceeded", Other, Probe},
	{"FTP login timed out", Other, Probe},
	{"Unable to negotiate", Other, Probe},
}
