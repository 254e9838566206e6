package parse

import (
	"net/netip"

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
func vsftpd(p *Parser, msg []byte, ev *Event) bool {
	m := msg
	if rest, ok := scan.After(m, "authentication failure; "); ok { // PAM's, the module's name cut off
		tell(ev, "vsftpd", Failure, Plain, netip.Addr{})
		return pamFields(rest, ev)
	}
	if rest, ok := scan.After(m, "[pid "); ok {
		if p.pid, m, ok = scan.Cut(rest, "] "); !ok {
			return false
		}
	}
	a, count, ok := vsftpdClients(m)
	if !ok {
		return false
	}
	tell(ev, "vsftpd", Other, Plain, a)
	if _, ok := scan.After(m, "CONNECT: "); ok {
		return true
	}
	user, ok := scan.After(m, "[")
	if !ok && p.hint() == "" {
		return false
	}
	switch {
	case scan.Has(m, `FAIL LOGIN: Client "`):
		ev.Outcome = Failure
		if u, _, ok := scan.Last(user, `] FAIL LOGIN: Client "`); ok {
			ev.User = u
		}
		if len(p.pid) > 0 {
			ev.Conn, ev.Class = ConnID("vsftpd", p.pid), vsftpdLogin
		}
	case count == 1:
		if u, _, ok := scan.Cut(user, `] OK LOGIN: Client "`); ok {
			ev.User, ev.Outcome = u, Success
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
		addr, _ := upTo(rest[:min(len(rest), 64)], `"`)
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
