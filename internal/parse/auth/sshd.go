package auth

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// The ways in which OpenSSH reports one attempt. Those from ClassOnce up are
// told at most once a connection. Other lines of class sshdOpened begin one.
const (
	sshdOpened = 1
	sshdPAM    = 2 // the first class behind which services number their own

	sshdFailed   = 1 // "Failed password for …" and "error: PAM: …", one each
	sshdKeyboard = 2 // "Failed keyboard-interactive/pam for …", of which "error: PAM: …" tells, too

	sshdInvalid  = event.ClassOnce + 1 // "Invalid user …"
	sshdLeft     = event.ClassOnce + 2 // "Connection closed by authenticating user …"
	sshdTooMany  = event.ClassOnce + 3 // "maximum authentication attempts …"
	sshdRefused  = event.ClassOnce + 4 // "User … not allowed because …"
	sshdNone     = event.ClassOnce + 5 // "Failed none for invalid user …", the question which methods there are
	sshdGoodbye  = event.ClassOnce + 6 // "Received disconnect …: Auth fail"
	sshdDenied   = event.ClassOnce + 7 // account and key restrictions
	sshdTooMany2 = event.ClassOnce + 8 // "Disconnecting …: Too many authentication failures"
	sshdKey      = event.ClassOnce + 9
)

// sshd reads OpenSSH's messages, 3 to 10, as auth.c, auth2.c, auth-pam.c,
// monitor.c, packet.c, kex.c, sshd.c, sshd-session.c and srclimit.c of
// openssh-portable write them. A client chooses the user, of up to a hundred
// bytes of any text, its banner, its reason for leaving, and the names that
// its address maps to.
func sshd(env *event.Message, msg []byte, ev *event.Event) bool {
	ev.Service = "sshd"
	if len(env.PID) > 0 {
		ev.Conn = event.ConnID("sshd", env.PID)
	}
	if rest, ok := scan.After(msg, "PID "); ok { // Cygwin's
		if _, rest, ok = scan.Uint(rest); ok {
			msg, _ = scan.After(rest, ": ")
		}
	}
	msg, pre := scan.Before(msg, " [preauth]")
	if len(msg) < 10 {
		return false
	}
	switch msg[0] {
	case 'F':
		if rest, ok := scan.After(msg, "Failed "); ok {
			return sshdResult(rest, ev, true)
		}
	case 'I', 'i':
		return sshdUnknown(msg, ev)
	case 'A':
		return sshdA(msg, ev)
	case 'C', 'D', 'R':
		return sshdEnd(msg, ev, pre)
	case 'U':
		return sshdU(msg, ev)
	case 'e', 'f':
		for _, level := range [...]string{"error: ", "fatal: "} {
			if rest, ok := scan.After(msg, level); ok && len(rest) > 9 {
				return sshdError(rest, ev, pre)
			}
		}
	}
	return sshdRare(msg, ev)
}

// sshdResult reads "METHOD for [invalid user ]USER from ADDR port N ssh2[: INFO]".
func sshdResult(b []byte, ev *event.Event, failed bool) bool {
	method, rest, ok := scan.Cut(b, " for ")
	if !ok {
		return false
	}
	user, unknown := sshdUser(rest)
	ev.Outcome, ev.Class = event.Failure, sshdFailed
	if scan.HasPrefix(method, "keyboard-interactive") {
		ev.Class = sshdKeyboard
	}
	switch {
	case !failed:
		ev.Outcome = event.Other
	case unknown:
		ev.Kind = event.UnknownUser
		if string(method) == "none" {
			ev.Class = sshdNone
		} else if string(method) == "publickey" {
			ev.Class = sshdKey
		}
	case string(method) == "publickey":
		// A client offers all its keys; only the connection's end tells.
		ev.Outcome, ev.Class = event.Other, 0
	}
	return sshdFrom(user, ev, unknown)
}

// sshdUser drops what marks an account that does not exist.
func sshdUser(b []byte) (user []byte, unknown bool) {
	for _, mark := range [...]string{"invalid user ", "illegal user ", "<invalid username>"} {
		if rest, ok := scan.After(b, mark); ok {
			if mark[0] == '<' {
				return b, true
			}
			return rest, true
		}
	}
	return b, false
}

// sshdFrom reads "USER from ADDR port N[ ssh2][: INFO]". The name of an
// account that exists is nobody's choice: its first reading is the true one.
// The name of one that does not may hold a whole such line, and INFO may, so
// that two readings are none; the line still belongs to its connection. Very
// old versions write no port; then the last word is the address.
func sshdFrom(b []byte, ev *event.Event, unknown bool) bool {
	var found netip.Addr
	var user []byte
	for at := 0; ; {
		i := scan.Index(b[at:], " from ")
		if i < 0 {
			break
		}
		i += at
		at = i + 5
		a, ok := sshdPeer(b[i+6:])
		if !ok || found == a {
			continue
		}
		if found.IsValid() {
			return ev.Conn != 0
		}
		found, user = a, b[:i]
		if !unknown {
			break
		}
	}
	if !found.IsValid() {
		return sshdPortless(b, ev)
	}
	ev.Addr = found
	ev.User, _ = scan.After(user, "user ")
	return true
}

// sshdPeer reads "ADDR port N", " ssh1" or " ssh2" if there, and then the end
// or ": ".
func sshdPeer(b []byte) (netip.Addr, bool) {
	tok, rest := scan.Word(b)
	if rest, ok := scan.After(rest, "port "); ok {
		_, rest, ok = scan.Uint(rest)
		if !ok {
			return netip.Addr{}, false
		}
		if len(rest) > 5 && string(rest[:4]) == " ssh" && rest[5] == ':' {
			rest = rest[5:]
		} else if len(rest) == 5 && string(rest[:4]) == " ssh" {
			rest = nil
		}
		if len(rest) == 0 || rest[0] == ':' {
			return scan.Addr(tok)
		}
	}
	return netip.Addr{}, false
}

func sshdPortless(b []byte, ev *event.Event) bool {
	user, tok, ok := scan.Last(b, " from ")
	if !ok {
		return false
	}
	a, _ := scan.Addr(tok)
	ev.Addr, ev.User = a, user
	return a.IsValid() || ev.Conn != 0
}

// sshdUnknown reads "Invalid user USER from ADDR[ port N]" and
// "input_userauth_request: invalid user USER", which names no address and only
// follows the former.
func sshdUnknown(b []byte, ev *event.Event) bool {
	if rest, ok := scan.After(b, "input_userauth_request: "); ok {
		user, unknown := sshdUser(rest)
		ev.Conn, ev.User = 0, user
		return unknown
	}
	rest, ok := scan.After(b, "Invalid user ")
	if !ok {
		if rest, ok = scan.After(b, "Illegal user "); !ok {
			return false
		}
	}
	ev.Outcome, ev.Kind, ev.Class = event.Failure, event.UnknownUser, sshdInvalid
	return fromEnd(rest, ev)
}

// fromEnd reads "USER from ADDR[ port N]" by its end.
func fromEnd(b []byte, ev *event.Event) bool {
	head, a, ok := addrEnd(b)
	if !ok {
		return false
	}
	if ev.User, ok = scan.Before(head, " from"); !ok {
		if string(head) != "from" {
			return false
		}
		ev.User = nil
	}
	ev.Addr = a
	return true
}

// addrEnd splits "… ADDR[ port N]" before the address; head has no space at
// its end.
func addrEnd(b []byte) (head []byte, a netip.Addr, ok bool) {
	head, tok := scan.LastWord(b)
	if scan.Digits(tok) {
		if h, port := scan.Before(head, " port"); port {
			head, tok = scan.LastWord(h)
		}
	}
	a, ok = scan.Addr(tok)
	return head, a, ok
}

// sshdA reads "Accepted …", "Address … maps to …" and what key restrictions
// write.
func sshdA(b []byte, ev *event.Event) bool {
	if rest, ok := scan.After(b, "Accepted "); ok {
		_, user, ok := scan.Cut(rest, " for ")
		if ok && sshdFrom(user, ev, false) && ev.Addr.IsValid() {
			ev.Outcome, ev.Class = event.Success, 0
			return true
		}
		return false
	}
	if rest, ok := scan.After(b, "Address "); ok {
		tok, rest := scan.Word(rest)
		a, ok := scan.Addr(tok)
		ev.Addr = a
		return ok && bytes.HasPrefix(rest, []byte("maps to "))
	}
	return sshdKeyDenied(b, ev)
}

// sshdKeyDenied reads "Authentication tried for USER with correct key but not
// from a permitted host (host=NAME, ip=ADDR, …)" and "… with valid certificate
// but not from a permitted source address (ADDR)." The account exists.
func sshdKeyDenied(b []byte, ev *event.Event) bool {
	_, rest, ok := scan.Cut(b, "Authentication tried for ")
	if !ok {
		return sshdAccess(b, ev)
	}
	ev.Outcome, ev.Kind, ev.Class = event.Failure, event.Forbidden, sshdDenied
	for _, mark := range [...]string{" with correct key but not from a permitted host (host=", " with valid certificate but not from a permitted source address ("} {
		if user, where, ok := scan.Cut(rest, mark); ok {
			if _, ip, found := scan.Cut(where, ", ip="); found {
				where = ip
			}
			ev.User = user
			ev.Addr, _, _ = scan.AddrPrefix(where)
			return ev.Addr.IsValid() || ev.Conn != 0
		}
	}
	return false
}

func sshdAccess(b []byte, ev *event.Event) bool {
	rest, ok := scan.After(b, "Access denied for user ")
	if !ok {
		return false
	}
	ev.Outcome, ev.Class = event.Failure, sshdDenied
	ev.User, ok = scan.Before(rest, " by PAM account configuration")
	return ok
}

// sshdU reads "User USER from HOST not allowed because …", of an account that
// exists, and "Unable to negotiate with ADDR port N: …".
func sshdU(b []byte, ev *event.Event) bool {
	if rest, ok := scan.After(b, "Unable to negotiate "); ok {
		ev.Kind = event.Probe
		if rest, ok = scan.After(rest, "with "); ok {
			return sshdID(rest, ev)
		}
		return true
	}
	rest, ok := scan.After(b, "User ")
	if !ok {
		return false
	}
	user, _, ok := scan.Last(rest, " not allowed because ")
	if !ok {
		return false
	}
	ev.Outcome, ev.Kind, ev.Class, ev.User = event.Failure, event.Forbidden, sshdRefused, user
	if user, host, ok := scan.Last(user, " from "); ok {
		ev.User = user
		ev.Addr, _ = scan.Addr(host)
	}
	return true
}
