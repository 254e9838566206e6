package mail

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// perdition reads the mail proxy's messages (perdition.c): "Auth:
// a:2274->b:993 … authentication_id="u" … status="failed: why"".
func perdition(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "Auth: ")
	fatal := false
	if !ok {
		if m, ok = scan.After(msg, "Fatal Error reading authentication information from client "); !ok {
			return false
		}
		fatal = true
	}
	peer, rest, ok := scan.Cut(m, "->")
	a, ok2 := scan.AddrPort(peer)
	if !ok || !ok2 {
		return false
	}
	ev.Set("perdition", event.Other, event.Plain, a)
	_, status, _ := scan.Last(rest, ` status="`)
	if _, failed := scan.After(status, "failed"); failed || fatal {
		ev.Outcome = event.Failure
	} else if _, ok := scan.After(status, "ok"); ok {
		ev.Outcome = event.Success
	}
	if _, user, ok := scan.Cut(rest, `authentication_id="`); ok {
		ev.User, _, _ = scan.Cut(user, `" server=`)
	}
	return true
}

// qmail reads rblsmtpd ("a pid 19597 list: 451 …", and a patched one's "list
// blocked a name -") and qmail-smtpd's "421 badiprbl: ip a rbl: list", behind
// the tai64-like stamps of splogger.
func qmail(env *event.Message, msg []byte, ev *event.Event) bool {
	if w, rest := scan.Word(msg); len(w) > 10 && len(bytes.Trim(w, "0123456789.")) == 0 {
		msg = rest
	}
	if m, ok := scan.After(msg, "rblsmtpd: "); ok {
		msg = m
	} else if m, ok := scan.After(msg, "qmail-smtpd: "); ok {
		if _, m, ok = scan.Cut(m, "badiprbl: ip "); !ok {
			return false
		}
		addr, _ := scan.Word(m)
		a, ok := scan.Addr(addr)
		return ok && ev.Set("qmail", event.Failure, event.Forbidden, a)
	} else if !scan.OneOf(env.Tag, "rblsmtpd") && env.Hint == "" {
		return false
	}
	first, rest := scan.Word(msg)
	if _, ok := scan.After(rest, "pid "); ok {
		a, ok := scan.Addr(first)
		return ok && ev.Set("qmail", event.Failure, event.Forbidden, a)
	}
	if m, ok := scan.After(rest, "blocked "); ok {
		addr, _ := scan.Word(m)
		a, ok := scan.Addr(addr)
		return ok && ev.Set("qmail", event.Failure, event.Forbidden, a)
	}
	return false
}

// vpopmail reads vchkpw.c's "vchkpw-pop3: password fail (pass: 'x') u@d:a" and
// "vpopmail user not found u@d:a". Password and user are the client's; the
// address ends the line.
func vpopmail(env *event.Message, msg []byte, ev *event.Event) bool {
	m := msg
	if name, rest, ok := scan.CutNear(m, ": ", 24); ok && bytes.HasPrefix(name, []byte("vchkpw")) {
		m = rest
	}
	kind, o := event.Plain, event.Failure
	switch {
	case bytes.HasPrefix(m, []byte("vpopmail user not found ")), bytes.HasPrefix(m, []byte("invalid user/domain")):
		kind = event.UnknownUser
	case bytes.HasPrefix(m, []byte("password fail")), bytes.HasPrefix(m, []byte("no auth method")),
		bytes.HasPrefix(m, []byte("null password given")), bytes.HasPrefix(m, []byte("user not found")):
	case bytes.HasPrefix(m, []byte("(")) && scan.Has(m[:min(len(m), 24)], ") login success "):
		o = event.Success
	default:
		return false
	}
	head, addr, ok := scan.Last(scan.TrimTimes(m), ":")
	a, ok2 := scan.Addr(addr)
	if !ok || !ok2 {
		return false
	}
	_, ev.User = scan.LastWord(head)
	return ev.Set("vpopmail", o, kind, a)
}

// cucipop reads "authentication failure user a", which only ends with an
// address of its own; and Solid POP3's "authentication failed: why: u - a" and
// "APOP authentication failed for user u - a".
func cucipop(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "authentication failure ")
	if ok {
		head, w := scan.LastWord(scan.TrimTimes(m))
		a, ok := scan.Addr(w)
		ev.User = head
		return ok && ev.Set("cucipop", event.Failure, event.Plain, a)
	}
	if _, m, ok = scan.CutNear(msg, "authentication failed", 48); !ok {
		return false
	}
	_, last, ok := scan.Last(scan.TrimTimes(m), " - ")
	a, ok2 := scan.Addr(last)
	if !ok2 {
		var rest []byte
		a, rest, ok2 = sendmailBox(last)
		ok2 = ok2 && len(rest) == 0
	}
	return ok && ok2 && ev.Set("solid-pop3d", event.Failure, event.Plain, a)
}

// DominoEnd ends a line of Domino's whose user, a client's word, follows what
// looks like a tag.
const DominoEnd = " authentication failure using internet password"

// domino reads HCL Domino's console log behind its stamp: "smtp: u [a]
// authentication failure using internet password", "SMTP Server [id]
// Authentication failed for user u ; connecting host [a]".
func domino(env *event.Message, msg []byte, ev *event.Event) bool {
	if head, ok := scan.Before(msg, DominoEnd); ok {
		proto, head, ok := scan.Cut(head, ": ")
		if !ok || len(proto) > 8 {
			return false
		}
		user, w := scan.LastWord(head)
		a, ok := scan.Addr(w)
		ev.User = user
		return ok && ev.Set("domino", event.Failure, event.Plain, a)
	}
	_, m, ok := scan.CutNear(msg, " Server", 16)
	if !ok {
		return false
	}
	if rest, ok := scan.After(m, " ["); ok {
		_, m, _ = scan.Cut(rest, "]")
	}
	m, _ = scan.After(m, ":")
	m = scan.TrimLeft(m)
	if rest, ok := scan.After(m, "Authentication failed for user "); ok {
		user, host, ok := scan.Last(rest, " ; connecting host ")
		a, ok2 := scan.Addr(host)
		ev.User = user
		return ok && ok2 && ev.Set("domino", event.Failure, event.Plain, a)
	}
	if rest, ok := scan.After(m, "Connection from "); ok {
		a, rest, ok := scan.Boxed(rest)
		_, ok2 := scan.After(rest, " rejected for policy reasons")
		return ok && ok2 && ev.Set("domino", event.Failure, event.Forbidden, a)
	}
	return false
}

// assp reads the Anti-Spam SMTP Proxy's maillog behind its stamp: "id
// [Worker_1] [TLS-in] a [SMTP Error] 535 …: authentication failed".
func assp(env *event.Message, msg []byte, ev *event.Event) bool {
	m := msg
	if rest, ok := scan.After(m, "Blocking "); ok {
		w, rest := scan.Word(rest)
		a, ok := scan.Addr(w)
		_, ok2 := scan.After(rest, "- too much AUTH errors")
		return ok && ok2 && ev.Set("assp", event.Failure, event.Limited, a)
	}
	if w, rest := scan.Word(m); bytes.HasPrefix(w, []byte("m")) && bytes.Count(w, []byte("-")) == 2 {
		m = rest
	}
	for range 6 {
		rest, ok := scan.After(m, "[")
		if !ok {
			break
		}
		if _, rest, ok = scan.Cut(rest, "] "); !ok {
			return false
		}
		m = rest
	}
	w, m := scan.Word(m)
	a, ok := scan.Addr(w)
	if !ok {
		return false
	}
	switch {
	case bytes.HasPrefix(m, []byte("SSL negotiation with client failed")):
		return ev.Set("assp", event.Failure, event.Forbidden, a)
	case bytes.HasPrefix(m, []byte("max sender authentication errors")):
		return ev.Set("assp", event.Failure, event.Limited, a)
	case bytes.HasPrefix(m, []byte("[SMTP Error] 535 ")):
		return ev.Set("assp", event.Failure, event.Plain, a)
	case bytes.HasPrefix(m, []byte("<")) && scan.Has(m, " relay attempt blocked for"):
		return ev.Set("assp", event.Failure, event.Forbidden, a)
	}
	return false
}
