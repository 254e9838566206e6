package mail

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// imapServer reads whichever server calls itself imapd, pop3d or ipop3d:
// Courier or Cyrus. The University of Washington's is a pack.
func imapServer(env *event.Message, msg []byte, ev *event.Event) bool {
	return courier(env, msg, ev) || cyrus(env, msg, ev)
}

// courier reads Courier's mailbox servers (libs/imap: "LOGIN FAILED, user=u,
// ip=[a], port=[n]") and its SMTP server ("error,relay=a,port=n,msg=…"). The
// user is the client's; the fields behind it are Courier's.
func courier(env *event.Message, msg []byte, ev *event.Event) bool {
	if m, ok := scan.After(msg, "error,relay="); ok {
		addr, rest := scan.UpTo(m, ",: ")
		if len(rest) > 0 && rest[0] == ':' { // ::ffff:192.0.2.1 or IPv6
			addr, _ = scan.UpTo(m, ", ")
		}
		a, ok := scan.Addr(addr)
		if !ok || len(addr) == len(m) {
			return false
		}
		ev.Set("courier", event.Failure, event.Forbidden, a)
		if scan.Has(msg, `msg="535 `) {
			ev.Kind = event.Plain
		} else if _, code, ok := scan.Last(msg, ": "); ok && len(code) > 3 && code[0] == '4' && code[3] == ' ' {
			ev.Outcome, ev.Kind = event.Other, event.Plain // try again later
		}
		return true
	}
	o := event.Failure
	m, ok := scan.After(msg, "LOGIN FAILED, ")
	if !ok {
		if m, ok = scan.After(msg, "LOGIN, "); !ok {
			return false
		}
		o = event.Success
	}
	m = scan.TrimTimes(m)
	head, rest, ok := scan.Last(m, "ip=[")
	addr, rest, ok2 := scan.Cut(rest, "]")
	a, ok3 := scan.Addr(addr)
	if !ok || !ok2 || !ok3 || !courierTail(rest) {
		return false
	}
	ev.Set("courier", o, event.Plain, a)
	if user, ok := scan.After(head, "user="); ok {
		ev.User, _ = scan.Before(user, ", ")
	}
	return true
}

// courierTail reports whether rest is ", port=[255]", ", protocol=IMAP" or
// nothing.
func courierTail(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	m := rest
	if port, ok := scan.After(rest, ", port=["); ok {
		_, port, _ = scan.Uint(port)
		if m, ok = scan.After(port, "]"); !ok {
			return false
		}
	}
	return len(m) == 0 || len(m) < 32 && bytes.HasPrefix(m, []byte(", protocol="))
}

// cyrus reads Cyrus IMAP's servers (imap/imapd.c, pop3d.c, timsieved): the
// peer, "name [a]", comes before mechanism and user.
func cyrus(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "badlogin: ")
	o := event.Failure
	if !ok {
		if m, ok = scan.After(msg, "login: "); ok {
			o = event.Success
		} else if _, m, ok = scan.CutNear(msg, "TLS negotiation failed: ", 40); ok {
			o = event.Other
		} else {
			return false
		}
	}
	a, rest, ok := sendmailBox(m)
	if !ok {
		return false
	}
	rest, _ = scan.After(rest, " ")
	ev.Set("cyrus", o, event.Plain, a)
	switch o {
	case event.Failure:
		_, rest = scan.Word(rest)
		if user, _, ok := scan.Cut(rest, " SASL("); ok {
			ev.User = user
		} else if user, _, ok := scan.Cut(rest, " [SASL("); ok {
			ev.User = user
		}
		if scan.HasAny(rest, "user not found", "no user in db") {
			ev.Kind = event.UnknownUser
		}
	case event.Success:
		if _, ok := scan.Before(trimSession(rest), "User logged in"); !ok {
			return false
		}
		ev.User, _ = scan.Word(rest)
	default:
		ev.Kind = event.Probe
	}
	return true
}

// trimSession drops " SESSIONID=<…>" at b's end.
func trimSession(b []byte) []byte {
	if head, _, ok := scan.Last(b, " SESSIONID=<"); ok {
		return head
	}
	return b
}

// opensmtpd reads "id smtp event=failed-command address=a host=n command="…"
// result="535 …"" and, since 6.4, "id smtp failed-command command=…", whose
// address is of the same session's "connected" line.
func opensmtpd(env *event.Message, msg []byte, ev *event.Event) bool {
	id, m := scan.Word(msg)
	m, ok := scan.After(m, "smtp ")
	if !ok || len(id) != 16 || !queueID(id) {
		return false
	}
	m, _ = scan.After(m, "event=")
	what, m := scan.Word(m)
	switch string(what) {
	case "connected", "failed-command", "authentication", "bad-input", "disconnected":
	default:
		return false
	}
	ev.Set("opensmtpd", event.Other, event.Plain, ev.Addr)
	ev.Conn, ev.Class = event.ConnID("opensmtpd", id), 1
	opensmtpdAddr(m, ev)
	if string(what) == "failed-command" {
		ev.Class = 2
		opensmtpdFailed(m, ev)
	} else if string(what) == "authentication" {
		opensmtpdLogin(m, ev)
	}
	return ev.Addr.IsValid() || ev.Outcome != event.Other
}

// opensmtpdLogin reads "user=u result=permfail", whose refusal the client also
// gets as a failed command: that one is counted where both are logged.
func opensmtpdLogin(m []byte, ev *event.Event) {
	if user, ok := scan.After(m, "user="); ok {
		ev.User, _, _ = scan.Cut(user, " ")
	}
	_, r, _ := scan.Last(m, "result=")
	switch string(r) {
	case "ok", "success":
		ev.Outcome = event.Success
	case "permfail":
		ev.Outcome, ev.Class = event.Failure, 3
	}
}

// opensmtpdAddr reads "address=a host=", which stands first.
func opensmtpdAddr(m []byte, ev *event.Event) {
	if m, ok := scan.After(m, "address="); ok {
		addr, _ := scan.Word(m)
		if len(addr) > 5 && scan.FoldEqual(addr[:5], "ipv6:") {
			addr = addr[5:]
		}
		if a, ok := scan.Addr(addr); ok {
			ev.Addr = a
		}
	}
}

// opensmtpdFailed reads the result, which is the server's and ends the line.
func opensmtpdFailed(m []byte, ev *event.Event) {
	if _, result, ok := scan.Last(m, `result="`); ok && len(result) > 3 && result[0] == '5' {
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
		if bytes.HasPrefix(result, []byte("535")) {
			ev.Kind = event.Plain
		}
	}
}
