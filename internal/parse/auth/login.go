package auth

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// sudo reads "USER : 3 incorrect password attempts ; TTY=… ; COMMAND=…" and
// "USER : user NOT in sudoers ; …" (logging.c of sudo). There is no address.
func sudo(env *event.Message, msg []byte, ev *event.Event) bool {
	user, rest, ok := scan.Cut(scan.TrimLeft(msg), " : ")
	if !ok || len(user) == 0 || bytes.IndexByte(user, ' ') >= 0 {
		return false
	}
	ev.Service, ev.User = "sudo", user
	if n, after, ok := scan.Uint(rest); ok {
		if scan.HasPrefix(after, " incorrect password attempt") {
			ev.Outcome, ev.Count = event.Failure, int(min(n, maxCount))
			return true
		}
		return false
	}
	for _, head := range [...]string{"user NOT in sudoers ;", "command not allowed ;", "user NOT authorized on host ;", "a password is required ;"} {
		if scan.HasPrefix(rest, head) {
			ev.Outcome, ev.Kind = event.Failure, event.Forbidden
			return true
		}
	}
	return scan.HasPrefix(rest, "TTY=") || scan.HasPrefix(rest, "PWD=")
}

// su reads "FAILED SU (to root) alice on pts/0" (util-linux, shadow), BSD's
// "BAD SU alice to root on /dev/ttyp0", and uses of it: "(to root) alice on
// pts/0" and "Successful su for root by alice". There is no address.
func su(env *event.Message, msg []byte, ev *event.Event) bool {
	ev.Service = "su"
	if rest, ok := scan.After(msg, "(to "); ok {
		user, _, ok := scan.Cut(rest, ") ")
		ev.User = user
		return ok
	}
	if rest, ok := scan.After(msg, "Successful su for "); ok {
		ev.User, _ = scan.Word(rest)
		return true
	}
	if rest, ok := scan.After(msg, "FAILED SU (to "); ok {
		user, _, ok := scan.Cut(rest, ") ")
		ev.Outcome, ev.User = event.Failure, user
		return ok
	}
	if rest, ok := scan.After(msg, "FAILED su for "); ok {
		ev.User, _ = scan.Word(rest)
		ev.Outcome = event.Failure
		return true
	}
	if rest, ok := scan.After(msg, "BAD SU "); ok {
		_, to, ok := scan.Cut(rest, " to ")
		ev.User, _ = scan.Word(to)
		ev.Outcome = event.Failure
		return ok
	}
	return false
}

// login reads login(1)'s "FAILED LOGIN 1 FROM HOST FOR USER, reason" and
// "FAILED LOGIN (1) on '/dev/pts/1' from 'HOST' FOR 'USER', reason"
// (util-linux, shadow), BSD's "1 LOGIN FAILURE FROM HOST, USER", and
// tcp_wrappers' "refused connect from …" of the daemons before it. HOST comes
// before what the client chose.
func login(env *event.Message, msg []byte, ev *event.Event) bool {
	ev.Service, ev.Outcome = "login", event.Failure
	if rest, ok := scan.After(msg, "FAILED LOGIN "); ok {
		return failedLogin(rest, ev)
	}
	if rest, ok := scan.After(msg, "TOO MANY LOGIN TRIES "); ok {
		return failedLogin(rest, ev)
	}
	if scan.HasPrefix(msg, "refused connect from ") {
		return sshdNames(msg, ev)
	}
	n, rest, ok := scan.Uint(msg)
	if ok {
		rest, ok = scan.After(rest, " LOGIN FAILURE")
		ev.Count = int(min(n, maxCount))
	} else {
		rest, ok = scan.After(msg, "REPEATED LOGIN FAILURE")
	}
	if !ok {
		return false
	}
	rest, _ = scan.After(rest, "S")
	rest, ok = scan.After(rest, " FROM ")
	if !ok {
		return false
	}
	ev.Addr, rest, _ = scan.AddrPrefix(rest)
	_, ev.User, _ = scan.Cut(rest, ", ")
	return ev.Addr.IsValid()
}

// failedLogin reads "[1 ][SESSION ][(1) on 'TTY' ]FROM HOST FOR USER, reason".
func failedLogin(b []byte, ev *event.Event) bool {
	b, _ = scan.After(b, "SESSION ")
	for _, from := range [...]string{"FROM ", "from '", "FROM ("} {
		head, rest, ok := scan.Cut(b, from)
		if !ok || len(head) > 64 || scan.Has(head, " FOR ") {
			continue
		}
		a, rest, ok := scan.AddrPrefix(rest)
		if !ok {
			return false
		}
		ev.Addr = a
		_, user, ok := scan.Cut(rest, "FOR ")
		if !ok {
			return false
		}
		user, reason, _ := scan.Last(user, ", ")
		ev.User = bytes.Trim(user, "'`")
		if scan.Has(reason, "not known") {
			ev.Kind = event.UnknownUser
		}
		return true
	}
	return false
}
