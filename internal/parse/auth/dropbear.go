package auth

import (
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

const (
	dropbearTry     = 1                   // one line a failed try
	dropbearUnknown = event.ClassOnce + 1 // "Login attempt for nonexistent user"
	dropbearExit    = event.ClassOnce + 2 // "Exit before auth"
)

// dropbear reads Dropbear's messages (svr-auth.c, svr-authpasswd.c,
// svr-authpam.c, svr-authpubkey.c, svr-session.c): the user stands in quotes
// before "from ADDR:port", which ends the line.
func dropbear(env *event.Message, msg []byte, ev *event.Event) bool {
	ev.Service = "dropbear"
	if len(env.PID) > 0 {
		ev.Conn = event.ConnID("dropbear", env.PID)
	}
	if rest, ok := scan.After(msg, "Exit before auth"); ok {
		return dropbearEnd(rest, ev)
	}
	if rest, ok := scan.After(msg, "exit before auth"); ok {
		return dropbearEnd(rest, ev)
	}
	if rest, ok := scan.After(msg, "Early exit"); ok {
		return dropbearEnd(rest, ev)
	}
	if rest, ok := scan.After(msg, "Child connection from "); ok {
		ev.Class = sshdOpened
		a, ok := dropbearPeer(rest)
		ev.Addr = a
		return ok
	}
	return dropbearUser(msg, ev)
}

func dropbearUser(msg []byte, ev *event.Event) bool {
	ev.Outcome, ev.Class = event.Failure, dropbearTry
	var rest []byte
	switch {
	case takePrefix(msg, &rest, "Bad password attempt for '"),
		takePrefix(msg, &rest, "Bad PAM password attempt for '"),
		takePrefix(msg, &rest, "Too-long password attempt for '"),
		takePrefix(msg, &rest, "bad password attempt for '"),
		takePrefix(msg, &rest, "bad PAM password attempt for '"),
		takePrefix(msg, &rest, "Pubkey auth attempt with unknown algo for '"),
		takePrefix(msg, &rest, "Pubkey auth bad signature for '"):
	case takePrefix(msg, &rest, "Password auth succeeded for '"),
		takePrefix(msg, &rest, "password auth succeeded for '"),
		takePrefix(msg, &rest, "PAM password auth succeeded for '"),
		takePrefix(msg, &rest, "Pubkey auth succeeded for '"),
		takePrefix(msg, &rest, "pubkey auth succeeded for '"),
		takePrefix(msg, &rest, "Auth succeeded with blank password for '"):
		ev.Outcome, ev.Class = event.Success, 0
	case takePrefix(msg, &rest, "Login attempt for nonexistent user from "),
		takePrefix(msg, &rest, "login attempt for nonexistent user from "):
		ev.Kind, ev.Class = event.UnknownUser, dropbearUnknown
		a, ok := dropbearPeer(rest)
		ev.Addr = a
		return ok
	case takePrefix(msg, &rest, "Login attempt with wrong user "):
		// The name is an account's, and stands there without quotes.
		user, tok, _ := scan.Last(rest, " from ")
		a, ok := dropbearPeer(tok)
		ev.Addr, ev.User, ev.Class = a, user, dropbearUnknown
		return ok
	case takePrefix(msg, &rest, "Login attempt for nonexistent user '"),
		takePrefix(msg, &rest, "login attempt for nonexistent user '"):
		ev.Kind, ev.Class = event.UnknownUser, dropbearUnknown
	default:
		return false
	}
	rest, partial := scan.Before(rest, ", extra auth required")
	if partial {
		ev.Outcome = event.Other
	}
	head, tok, ok := scan.Last(rest, " from ")
	if !ok {
		return false
	}
	ev.User, _, _ = scan.Last(head, "'")
	if ev.Outcome != event.Failure {
		ev.User, _, _ = scan.Cut(head, "'")
	}
	ev.Addr, ok = dropbearPeer(tok)
	return ok
}

// dropbearEnd reads "[ from <ADDR:port>]: (user 'USER', N fails): why". The
// fails were told one by one; naming a user is an attempt by itself.
func dropbearEnd(b []byte, ev *event.Event) bool {
	if rest, ok := scan.After(b, " from <"); ok {
		tok, after, ok := scan.Cut(rest, ">")
		if !ok {
			return false
		}
		if ev.Addr, ok = dropbearPeer(tok); !ok {
			return false
		}
		b = after
	}
	rest, ok := scan.After(b, ": ")
	if !ok {
		rest, ok = scan.After(b, " ")
	}
	if ok && !ev.Addr.IsValid() {
		ev.Addr = dropbearTries(rest)
	}
	if !ok || !ev.Addr.IsValid() && ev.Conn == 0 {
		return false
	}
	ev.Class = dropbearExit
	if user, named := scan.After(rest, "(user '"); named {
		ev.Outcome = event.Failure
		ev.User, _, ok = scan.Last(user, "', ")
		return ok
	}
	if user, tries := scan.After(rest, "Max auth tries reached - user '"); tries {
		ev.Outcome = event.Failure
		ev.User, _, _ = scan.Last(user, "'")
		return true
	}
	ev.Kind, ev.Class = event.Probe, 0
	return true
}

// dropbearTries reads the peer that ends "… Max auth tries reached - user
// 'USER' from ADDR:port", where versions before 2020.79 name it only.
func dropbearTries(b []byte) (a netip.Addr) {
	head, tok, _ := scan.Last(b, "' from ")
	if scan.Has(head, "Max auth tries reached - user '") {
		a, _ = dropbearPeer(tok)
	}
	return a
}

// takePrefix puts what follows prefix into rest.
func takePrefix(b []byte, rest *[]byte, prefix string) bool {
	r, ok := scan.After(b, prefix)
	if ok {
		*rest = r
	}
	return ok
}

// dropbearPeer reads "ADDR:port", where an IPv6 address has no brackets
// (netio.c, get_socket_address): the port is what the last colon parts.
func dropbearPeer(tok []byte) (netip.Addr, bool) {
	host, port, ok := scan.Last(tok, ":")
	if !ok || !scan.Digits(port) || len(port) > 5 {
		return netip.Addr{}, false
	}
	return scan.Addr(host)
}
