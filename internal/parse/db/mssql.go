package db

import (
	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// mssql reads SQL Server's error log behind its stamp: "Logon       Login
// failed for user 'u'. Reason: … [CLIENT: a]". The user is the client's; the
// address is the fixed end of the line.
func mssql(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "Logon ")
	if !ok {
		return false
	}
	m = scan.TrimLeft(m)
	head, rest, ok := scan.Last(scan.TrimTimes(m), " [CLIENT: ")
	addr, ok2 := scan.Before(rest, "]")
	a, ok3 := scan.Addr(addr)
	if !ok || !ok2 || !ok3 {
		return false
	}
	ev.Set("mssql", event.Other, event.Probe, a)
	if rest, ok := scan.After(head, "Login failed"); ok {
		ev.Outcome, ev.Kind = event.Failure, event.Plain
		if rest, ok := scan.After(rest, " for user '"); ok {
			ev.User, _, _ = scan.Last(rest, "'. Reason: ")
			if scan.Has(rest, "Could not find a login matching the name") {
				ev.Kind = event.UnknownUser
			}
			if u, ok := scan.Before(ev.User, "'."); ok {
				ev.User = u
			}
		}
	} else if rest, ok := scan.After(head, "Login succeeded for user '"); ok {
		ev.Outcome, ev.Kind = event.Success, event.Plain
		ev.User, _, _ = scan.Last(rest, "'. Connection made using ")
	} else if _, ok := scan.After(head, "SSPI handshake failed"); ok {
		ev.Outcome, ev.Kind = event.Failure, event.Plain
	}
	return true
}
