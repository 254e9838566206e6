package auth

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// pureftpd reads "(user@a) [WARNING] Authentication failed for user [x]" of
// Pure-FTPd (src/ftpd.c, logfile()). Before the login the user is "?", and
// with DontResolve the peer is an address. The text is translated at compile
// time, so a warning that ends with a user in brackets is a failure.
func pureftpd(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "(")
	if !ok {
		return false
	}
	head, m, ok := scan.Cut(m, ") [")
	at := bytes.LastIndexByte(head, '@')
	if !ok || at < 0 {
		return false
	}
	a, ok := scan.Addr(head[at+1:])
	level, m, ok2 := scan.Cut(m, "] ")
	if !ok || !ok2 {
		return false
	}
	ev.Set("pure-ftpd", event.Other, event.Plain, a)
	m = scan.TrimTimes(m)
	switch string(level) {
	case "WARNING":
		pureftpdWarning(m, env.Hint != "" || string(head[:at]) == "?", ev)
	case "INFO", "NOTICE":
		if user, ok := scan.Before(m, " is now logged in"); ok {
			ev.User, ev.Outcome = user, event.Success
		}
	case "ERROR":
		if scan.HasAny(m, "Too many connections", "too many authentication failures", "Too many authentication failures") {
			ev.Outcome, ev.Kind = event.Failure, event.Limited
		}
	}
	return true
}

func pureftpdWarning(m []byte, before bool, ev *event.Event) {
	user, ok := scan.After(m, "Authentication failed for user ")
	if ok {
		ev.Outcome = event.Failure
		if u, ok := scan.After(user, "["); ok {
			ev.User, _ = scan.Before(u, "]")
		}
		return
	}
	head, closed := scan.Before(m, "]")
	if _, user, ok := scan.Cut(head, " ["); closed && before && ok {
		ev.User, ev.Outcome = user, event.Failure
	}
}

// ftpd reads the BSD, MIT (gssftpd) and Washington University FTP servers:
// ftpd.c's "FTP LOGIN FAILED FROM host, user", "repeated login failures from a
// (name)", "failed login from name [a]". Where the host is a name, nobody is
// meant.
func ftpd(env *event.Message, msg []byte, ev *event.Event) bool {
	for i := range ftpdForms {
		f := &ftpdForms[i]
		m, ok := scan.After(msg, f.text)
		if !ok {
			continue
		}
		a, rest, ok := ftpdPeer(m)
		if !ok {
			return false
		}
		ev.Set("ftpd", f.outcome, f.kind, a)
		ev.User, _ = scan.After(rest, ", ")
		return true
	}
	return false
}

var ftpdForms = []struct {
	text    string
	outcome event.Outcome
	kind    event.Kind
}{
	{"FTP LOGIN FAILED FROM ", event.Failure, event.Plain},
	{"FTP LOGIN REFUSED FROM ", event.Failure, event.Forbidden},
	{"FTP LOGIN REFUSED (username in denied-uid) FROM ", event.Failure, event.Forbidden},
	{"FTP LOGIN REFUSED (ftpusers) FROM ", event.Failure, event.Forbidden},
	{"FTP ACCESS DENIED ", event.Failure, event.Forbidden},
	{"ANONYMOUS FTP LOGIN REFUSED FROM ", event.Failure, event.Forbidden},
	{"repeated login failures from ", event.Failure, event.Limited},
	{"failed login from ", event.Failure, event.Plain},
	{"FTP LOGIN FROM ", event.Success, event.Plain},
	{"connection from ", event.Other, event.Plain},
}

// ftpdPeer reads "a", "a (name)" or "name [a]", then a comma or the end.
func ftpdPeer(m []byte) (a netip.Addr, rest []byte, ok bool) {
	host, rest := scan.UpTo(m, ", ([")
	if _, named := scan.After(rest, " ["); named { // the name may look like an address
		return scan.Boxed(m[len(host)+1:])
	}
	a, ok = scan.Addr(host)
	if n, named := scan.After(rest, " ("); named && ok {
		_, rest, _ = scan.Cut(n, ")")
	}
	return a, rest, ok
}
