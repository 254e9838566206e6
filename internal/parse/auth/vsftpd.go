package auth

import (
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// vsftpdLogin is the class of vsftpd's own lines; PAM's of the same process
// have another.
const vsftpdLogin = sshdPAM + 1

// vsftpd reads vsftpd's own log and its syslog form (logging.c):
//
//	[pid 27202] [user] FAIL LOGIN: Client "a"
//
// User, anonymous password and file names are the client's and unescaped, so
// every ‹: Client "address"› of the line must be the same address.
func vsftpd(env *event.Message, msg []byte, ev *event.Event) bool {
	m := msg
	if rest, ok := scan.After(m, "authentication failure; "); ok { // PAM's, the module's name cut off
		ev.Set("vsftpd", event.Failure, event.Plain, netip.Addr{})
		return pamFields(rest, ev)
	}
	if rest, ok := scan.After(m, "[pid "); ok {
		if env.PID, m, ok = scan.Cut(rest, "] "); !ok {
			return false
		}
	}
	a, count, ok := vsftpdClients(m)
	if !ok {
		return false
	}
	ev.Set("vsftpd", event.Other, event.Plain, a)
	if _, ok := scan.After(m, "CONNECT: "); ok {
		return true
	}
	user, ok := scan.After(m, "[")
	if !ok && env.Hint == "" {
		return false
	}
	switch {
	case scan.Has(m, `FAIL LOGIN: Client "`):
		ev.Outcome = event.Failure
		if u, _, ok := scan.Last(user, `] FAIL LOGIN: Client "`); ok {
			ev.User = u
		}
		if len(env.PID) > 0 {
			ev.Conn, ev.Class = event.ConnID("vsftpd", env.PID), vsftpdLogin
		}
	case count == 1:
		if u, _, ok := scan.Cut(user, `] OK LOGIN: Client "`); ok {
			ev.User, ev.Outcome = u, event.Success
		}
	}
	return true
}

// vsftpdClients returns the address that all of m's clients have, and how
// many there are.
func vsftpdClients(m []byte) (a netip.Addr, count int, ok bool) {
	for {
		_, rest, more := scan.Cut(m, `: Client "`)
		if !more {
			return a, count, ok
		}
		addr, _ := scan.UpTo(rest[:min(len(rest), 64)], `"`)
		m = rest
		found, good := scan.Addr(addr)
		if !good {
			continue
		}
		if ok && found != a {
			return a, 0, false
		}
		a, ok = found, true
		count++
	}
}
