package auth

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// How ProFTPD reports one attempt to log in.
const (
	proftpdLogin = 1 + iota
	proftpdPAM
	proftpdEnd // "Maximum login attempts", "SECURITY VIOLATION"
)

// proftpd reads "server (name[a]) - message" (syslog) and "server (name[a]):
// message" (its own logs): src/log.c, modules/mod_auth.c, mod_auth_pam.c. The
// name is a host name; all that the client said comes after the address.
func proftpd(env *event.Message, msg []byte, ev *event.Event) bool {
	_, m := scan.HostName(msg)
	if own, ok := scan.After(m, " proftpd["); ok { // its own log: "host proftpd[pid] server (name[a]): "
		if env.PID, own, ok = scan.Cut(own, "] "); !ok || !scan.Digits(env.PID) {
			return false
		}
		_, m = scan.HostName(own)
	}
	in, ok := scan.After(m, " (")
	if !ok {
		return false
	}
	a, m, ok := scan.ClientBox(in)
	if !ok {
		_, m = scan.HostName(in) // "name (name [a])" of 1.2
		m, _ = scan.After(m, " ")
		if a, m, ok = scan.Boxed(m); !ok {
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
	ev.Set("proftpd", event.Other, event.Plain, a)
	proftpdMessage(env, scan.TrimTimes(m), ev)
	return true
}

func proftpdMessage(env *event.Message, m []byte, ev *event.Event) {
	if user, ok := scan.After(m, "USER "); ok {
		proftpdUser(env, user, ev)
		return
	}
	if pam, ok := scan.After(m, "PAM("); ok {
		if user, _, ok := scan.Last(pam, "): Authentication failure"); ok {
			ev.Outcome, ev.User = event.Failure, user
			env.Join(ev, proftpdPAM)
		}
		return
	}
	if user, ok := scan.After(m, "ANON "); ok {
		if user, _, ok = scan.Last(user, ": Login successful"); ok {
			ev.User, ev.Outcome = user, event.Success
		}
		return
	}
	for i := range proftpdForms {
		if _, ok := scan.After(m, proftpdForms[i].text); ok {
			ev.Outcome, ev.Kind = proftpdForms[i].outcome, proftpdForms[i].kind
			env.Join(ev, proftpdEnd)
			return
		}
	}
	if env.Hint != "" && scan.Has(m, "no such user") {
		ev.Outcome, ev.Kind = event.Failure, event.UnknownUser
	}
}

// proftpdUser reads what follows "USER": "x: no such user found from name [a]
// to b:21", "x (Login failed): Incorrect password", "x: Login successful".
func proftpdUser(env *event.Message, m []byte, ev *event.Event) {
	if user, why, ok := scan.Last(m, " (Login failed): "); ok {
		ev.Outcome, ev.User = event.Failure, user
		if _, ok := scan.After(why, "No such user"); ok {
			ev.Kind = event.UnknownUser
		} else if scan.HasAny(why, "Limit ", "denied", "Denied") {
			ev.Kind = event.Forbidden
		}
	} else if user, _, ok := scan.Last(m, ": no such user found from "); ok {
		ev.Outcome, ev.Kind, ev.User = event.Failure, event.UnknownUser, user
	} else if user, ok := scan.Before(m, " (Login failed)"); ok {
		ev.Outcome, ev.User = event.Failure, user
	} else if user, rest, ok := scan.Last(m, ": Login successful"); ok && len(rest) < 2 {
		ev.Outcome, ev.User = event.Success, user
		return
	} else {
		return
	}
	env.Join(ev, proftpdLogin)
}

var proftpdForms = []struct {
	text    string
	outcome event.Outcome
	kind    event.Kind
}{
	{"SECURITY VIOLATION", event.Failure, event.Forbidden},
	{"Maximum login attempts", event.Failure, event.Limited},
	{"Connection refused", event.Failure, event.Forbidden},
	{"Connection from ", event.Failure, event.Forbidden}, // "… denied"
	{"Connection denied", event.Failure, event.Forbidden},
	{"Refused user ", event.Failure, event.Forbidden},
	{"Refused connection", event.Failure, event.Forbidden},
	{"refused connection", event.Failure, event.Forbidden},
	{"login from ", event.Failure, event.Forbidden}, // mod_ban's "… denied due to …"
	{"Login timeout exceeded", event.Other, event.Probe},
	{"FTP login timed out", event.Other, event.Probe},
	{"Unable to negotiate", event.Other, event.Probe},
}

// proftpdReach is longer than ProFTPD's longest command (CommandBufferSize) and
// what it writes around one.
const proftpdReach = 4096

// ProFTPDShape: a command goes on at a line feed without a carriage return, and
// the log of its own holds a user's name as it came. Each record names the client
// before that.
func ProFTPDShape(ev *event.Event) (s event.Shape) {
	if !ev.Addr.IsValid() || bytes.HasSuffix(ev.Message, []byte("FTP session opened.")) || bytes.HasSuffix(ev.Message, []byte("FTP session closed.")) {
		return s
	}
	return event.Shape{Reach: proftpdReach, Time: ev.Time, First: ev.Addr}
}
