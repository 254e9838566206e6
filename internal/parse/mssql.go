package parse

import "stoplog/internal/parse/scan"

// mssql reads SQL Server's error log behind its stamp: "Logon       Login
// failed for user 'u'. Reason: … [CLIENT: a]". The user is the client's; the
// address is the fixed end of the line.
func mssql(p *Parser, msg []byte, ev *Event) bool {
	m, ok := scan.After(msg, "Logon ")
	if !ok {
		return false
	}
	m = scan.TrimLeft(m)
	head, rest, ok := scan.Last(trimTimes(m), " [CLIENT: ")
	addr, ok2 := scan.Before(rest, "]")
	a, ok3 := scan.Addr(addr)
	if !ok || !ok2 || !ok3 {
		return false
	}
	tell(ev, "mssql", Other, Probe, a)
	if rest, ok := scan.After(head, "Login failed"); ok {
		ev.Outcome, ev.Kind = Failure, Plain
		if rest, ok := scan.After(rest, " for user '"); ok {
			ev.User, _, _ = scan.Last(rest, "'. Reason: ")
			if scan.Has(rest, "Could not find a login matching the name") {
				ev.Kind = UnknownUser
			}
			if u, ok := scan.Before(ev.User, "'."); ok {
				ev.User = u
			}
		}
	} else if rest, ok := scan.After(head, "Login succeeded for user '"); ok {
		ev.Outcome, ev.Kind = Success, Plain
		ev.User, _, _ = scan.Last(rest, "'. Connection made using ")
	} else if _, ok := scan.After(head, "SSPI handshake failed"); ok {
		ev.Outcome, ev.Kind = Failure, Plain
	}
	return true
}
