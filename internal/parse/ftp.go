package parse

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/scan"
)

// pureftpd reads "(user@a) [WARNING] Authentication failed for user [x]" of
// Pure-FTPd (src/ftpd.c, logfile()). Before the login the user is "?", and
// with DontResolve the peer is an address. The text is translated at compile
// time, so a warning that ends with a user in brackets is a failure.
func pureftpd(p *Parser, msg []byte, ev *Event) bool {
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
	tell(ev, "pure-ftpd", Other, Plain, a)
	m = trimTimes(m)
	switch string(level) {
	case "WARNING":
		pureftpdWarning(m, p.hint() != "" || string(head[:at]) == "?", ev)
	case "INFO", "NOTICE":
		if user, ok := scan.Before(m, " is now logged in"); ok {
			ev.User, ev.Outcome = user, Success
		}
	case "ERROR":
		if hasAny(m, "Too many connections", "too many authentication failures", "Too many authentication failures") {
			ev.Outcome, ev.Kind = Failure, Limited
		}
	}
	return true
}

func pureftpdWarning(m []byte, before bool, ev *Event) {
	user, ok := scan.After(m, "Authentication failed for user ")
	if ok {
		ev.Outcome = Failure
		if u, ok := scan.After(user, "["); ok {
			ev.User, _ = scan.Before(u, "]")
		}
		return
	}
	head, closed := scan.Before(m, "]")
	if _, user, ok := scan.Cut(head, " ["); closed && before && ok {
		ev.User, ev.Outcome = user, Failure
	}
}

// ftpd reads the BSD, MIT (gssftpd) and Washington University FTP servers:
// ftpd.c's "FTP LOGIN FAILED FROM host, user", "repeated login failures from a
// (name)", "failed login from name [a]". Where the host is a name, nobody is
// meant.
func ftpd(p *Parser, msg []byte, ev *Event) bool {
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
		tell(ev, "ftpd", f.outcome, f.kind, a)
		ev.User, _ = scan.After(rest, ", ")
		return true
	}
	return false
}

var ftpdForms = []struct {
	text    string
	outcome Outcome
	kind    Kind
}{
	{"FTP LOGIN FAILED FROM ", Failure, Plain},
	{"FTP LOGIN REFUSED FROM ", Failure, Forbidden},
	{"FTP LOGIN REFUSED (username in denied-uid) FROM ", Failure, Forbidden},
	{"FTP LOGIN REFUSED (ftpusers) FROM ", Failure, Forbidden},
	{"FTP ACCESS DENIED ", Failure, Forbidden},
	{"ANONYMOUS FTP LOGIN REFUSED FROM ", Failure, Forbidden},
	{"repeated login failures from ", Failure, Limited},
	{"failed login from ", Failure, Plain},
	{"FTP LOGIN FROM ", Success, Plain},
	{"connection from ", Other, Plain},
}

// ftpdPeer reads "a", "a (name)" or "name [a]", then a comma or the end.
func ftpdPeer(m []byte) (a netip.Addr, rest []byte, ok bool) {
	host, rest := upTo(m, ", ([")
	if _, named := scan.After(rest, " ["); named { // the name may look like an address
		return boxed(m[len(host)+1:])
	}
	a, ok = scan.Addr(host)
	if n, named := scan.After(rest, " ("); named && ok {
		_, rest, _ = scan.Cut(n, ")")
	}
	return a, rest, ok
}
