package mail

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// How Dovecot reports one attempt to log in.
const (
	dovecotLogin = 1 + iota // the login process, at the end of a connection
	dovecotAuth             // the auth process, with auth_verbose
)

// dovecotTag reports whether tag is Dovecot's, or that of one of its processes
// in its own log file.
func dovecotTag(tag []byte) bool {
	if _, ok := scan.Before(tag, "-login"); ok {
		return scan.OneOf(tag, "imap-login", "pop3-login", "managesieve-login", "submission-login", "imaps-login", "pop3s-login")
	}
	return scan.OneOf(tag, "dovecot", "dovecot-auth", "auth-worker", "auth")
}

// dovecot reads Dovecot's login and auth processes, 1.0 to 2.4:
// src/login-common/client-common.c, src/auth/auth-request.c and the passdb
// drivers.
func dovecot(env *event.Message, msg []byte, ev *event.Event) bool {
	if !scan.OneOf(env.Tag, "dovecot", "dovecot-auth") && dovecotTag(env.Tag) {
		return dovecotFrom(env.Tag, msg, ev)
	}
	for range 3 { // "dovecot: auth(default): …" inside a dovecot envelope
		name, rest, ok := scan.Cut(msg, ": ")
		if !ok {
			return false
		}
		if !scan.OneOf(name, "dovecot", "master", "Info") {
			return dovecotLine(msg, ev)
		}
		msg = rest
	}
	return false
}

// dovecotLine reads a message that begins with its process: "imap-login: …",
// "auth-worker(304): …".
func dovecotLine(msg []byte, ev *event.Event) bool {
	name, rest := scan.HostName(msg)
	if !dovecotTag(name) {
		return dovecotPassdb(msg, ev)
	}
	if m, ok := scan.After(rest, ": "); ok {
		return dovecotFrom(name, m, ev)
	}
	if id, m, ok := scan.Cut(rest, "): "); ok && len(id) < 24 && !bytes.ContainsAny(id, ",<: ") {
		return dovecotFrom(name, m, ev)
	}
	return dovecotPassdb(msg, ev) // 2.3.13 on: "auth(user,a,sasl:plain)<session>: …"
}

func dovecotFrom(process, msg []byte, ev *event.Event) bool {
	for _, level := range [...]string{"Info: ", "Warning: ", "Error: ", "Debug: "} {
		msg, _ = scan.After(msg, level)
	}
	if _, ok := scan.Before(process, "-login"); ok {
		return dovecotLoginLine(msg, ev)
	}
	return dovecotPassdb(msg, ev)
}

// dovecotLoginLine reads "Disconnected: Inactivity (auth failed, 1 attempts in
// 9 secs): user=<u>, method=PLAIN, rip=a, lip=b, TLS, session=<s>". The reason
// before the fields is Dovecot's; user and method are the client's.
func dovecotLoginLine(msg []byte, ev *event.Event) bool {
	reason, fields, ok := dovecotFields(msg)
	if !ok {
		return false
	}
	a, tail, ok := dovecotRip(fields)
	if !ok {
		return false
	}
	ev.Set("dovecot", event.Other, event.Plain, a)
	dovecotReason(reason, ev)
	if user, ok := scan.After(fields, "user=<"); ok {
		ev.User, _, _ = dovecotUser(user)
	}
	if ev.Outcome == event.Failure {
		dovecotSession(tail, ev)
	}
	return true
}

// dovecotFields splits the reason from the fields.
func dovecotFields(msg []byte) (reason, fields []byte, ok bool) {
	u, r := scan.Index(msg, ": user=<"), scan.Index(msg, ": rip=")
	if u < 0 || r >= 0 && r < u {
		u = r
	}
	if u < 0 {
		u = scan.Index(msg, "): ") + 1 // other login_log_format_elements
	}
	if u <= 0 {
		return nil, nil, false
	}
	return msg[:u], msg[u+2:], true
}

// dovecotRip finds the client's address. User and method stand before it, so
// that the last "rip=" is Dovecot's; where the administrator put the address
// before the user, an address behind it is none.
func dovecotRip(fields []byte) (a netip.Addr, tail []byte, ok bool) {
	head, rest, ok := scan.Last(fields, "rip=")
	if !ok || len(head) > 0 && head[len(head)-1] != ' ' {
		return a, nil, false
	}
	if !scan.Has(head, "user=<") && scan.Has(rest, "user=<") || bytes.HasPrefix(head, []byte("rip=")) {
		return a, nil, false
	}
	addr, tail := scan.UpTo(rest, ", ")
	a, ok = scan.Addr(addr)
	return a, tail, ok
}

// dovecotUser splits "u>, method=PLAIN, rip=…" at the field behind it. A user
// that holds ">, " is cut there, which harms nobody.
func dovecotUser(b []byte) (user, rest []byte, ok bool) {
	return scan.Cut(b, ">, ")
}

// dovecotReason sets what became of the login.
func dovecotReason(reason []byte, ev *event.Event) {
	if n, ok := dovecotAttempts(reason); ok {
		ev.Outcome, ev.Count = event.Failure, n
		return
	}
	switch {
	case scan.OneOf(reason, "Login", "Logged in") || scan.Has(reason, "started proxying to "):
		ev.Outcome = event.Success
	case scan.HasAny(reason, "(auth failed", "(proxy dest auth failed", "(auth_failed)", "Authentication failed"):
		ev.Outcome = event.Failure
	case scan.HasAny(reason, "(tried to use dis", "(tried to use unsupported", "invalid cert", "(user disabled)", "(login disabled)"):
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	case scan.HasAny(reason, "no auth attempts", "before auth was ready", "disconnected during TLS handshake",
		"cert required", "didn't finish SASL"):
		ev.Kind = event.Probe
	case scan.Has(reason, " authentication attempts"): // 1.0: "Aborted login [3 authentication attempts]"
		ev.Outcome = event.Failure
		if _, n, ok := scan.CutNear(reason, "Aborted login ", 14); ok && len(n) > 1 {
			if v, _, ok := scan.Uint(n[1:]); ok && v < 1000 {
				ev.Count = max(int(v), 1)
			}
		}
	}
}

// dovecotAttempts reads "(auth failed, 3 attempts in 9 secs)".
func dovecotAttempts(reason []byte) (int, bool) {
	_, rest, ok := scan.Last(reason, "(auth failed, ")
	n, rest, ok2 := scan.Uint(rest)
	_, ok3 := scan.After(rest, " attempts")
	return int(n), ok && ok2 && ok3 && n > 0 && n < 1000
}

// dovecotSession joins the lines of one session: by its id, and without one by
// the user and the address.
func dovecotSession(tail []byte, ev *event.Event) {
	if _, s, ok := scan.Last(tail, "session=<"); ok {
		if id, _, ok := scan.Cut(s, ">"); ok && len(id) > 0 {
			ev.Conn, ev.Class = event.ConnID("dovecot", id), dovecotLogin
			return
		}
	}
	joinUser(ev, dovecotLogin)
}

// joinUser marks ev as one of several that report ev.User's attempts from
// ev.Addr, without a session's id.
func joinUser(ev *event.Event, class uint8) {
	ev.Conn, ev.Class = event.ConnFrom(ev.Service, ev.User, ev.Addr), class
}
