package mail

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// smtpdQueue reads the messages that begin with a queue id, or with NOQUEUE:
// rejections, and the client of a mail that was let in.
func smtpdQueue(env *event.Message, msg []byte, ev *event.Event) bool {
	id, m, ok := scan.Cut(msg, ": ")
	if !ok || !queueID(id) {
		return false
	}
	if c, ok := scan.After(m, "client="); ok {
		return smtpdClient(c, ev)
	}
	verb, m, ok := scan.Cut(m, ": ")
	if !ok || !scan.OneOf(verb, "reject", "milter-reject", "proxy-reject", "reject_warning", "discard", "hold", "filter", "redirect") {
		return false
	}
	where, m, ok := scan.Cut(m, "from ")
	if !ok || !commandWords(where) {
		return false
	}
	a, m, ok := scan.ClientBox(m)
	if !ok || len(m) == 0 || m[0] != ':' && m[0] != ';' {
		return false
	}
	ev.Set("postfix", event.Failure, event.Forbidden, a)
	_, isReject := scan.Before(verb, "reject")
	if !isReject || harmlessReject(m) {
		ev.Outcome, ev.Kind = event.Other, event.Plain
		return true
	}
	env.Join(ev, postfixReject)
	return true
}

func queueID(b []byte) bool {
	for _, c := range b {
		if c-'0' > 9 && (c|0x20)-'a' > 25 {
			return false
		}
	}
	return len(b) > 0 && len(b) <= 32
}

// harmlessReject reports whether m, ": 450 4.2.0 <who>: why; from=<…", tells
// a client to come again (greylisting, postscreen's first test) or of a fault
// that is not the client's (a full mailbox, a broken table, a postscreen with
// too much to do): RFC 3463's classes 2 and 3, postscreen.c's and
// postscreen_early.c's words, and those of policy services. What the client chose
// can only make it look worse, not blame another.
func harmlessReject(m []byte) bool {
	m, _ = scan.After(m, ": ")
	if scan.OneOf(m, "all server ports busy", "all screening ports busy") {
		return true
	}
	code, rest := scan.Word(m)
	if len(code) != 3 {
		return false
	}
	text, _, _ := scan.Cut(rest, "; from=<")
	if code[0] == '4' && (scan.Has(text, "reylist") || scan.Has(text, "unverified address")) {
		return true
	}
	status, _ := scan.Word(rest)
	return len(status) > 4 && status[1] == '.' && (status[2] == '2' || status[2] == '3') && status[3] == '.'
}

// smtpdClient reads "name[a], sasl_method=LOGIN, sasl_username=user".
func smtpdClient(m []byte, ev *event.Event) bool {
	a, rest, ok := scan.ClientBox(m)
	if !ok || len(rest) > 0 && rest[0] != ',' {
		return false
	}
	ev.Set("postfix", event.Other, event.Plain, a)
	if sasl, ok := scan.After(rest, ", sasl_method="); ok {
		if _, user, ok := scan.Cut(sasl, ", sasl_username="); ok {
			ev.User, _, _ = scan.Cut(user, ", ")
			ev.Outcome = event.Success
		}
	}
	return true
}

// postscreen reads the messages of postscreen(8): src/postscreen. The client
// stands as [address]:port before what it said.
func postscreen(env *event.Message, msg []byte, ev *event.Event) bool {
	for i := range postscreens {
		s := &postscreens[i]
		m, ok := scan.After(msg, s.text)
		if !ok {
			continue
		}
		if s.numbers {
			if m, ok = afterNumbers(m); !ok {
				return false
			}
		}
		a, rest, ok := scan.Boxed(m)
		if rest = scan.SkipPort(rest); !ok || len(rest) > 0 && rest[0] != ' ' && rest[0] != ':' {
			return false
		}
		return ev.Set("postfix", s.outcome, s.kind, a)
	}
	if m, ok := scan.After(msg, "warning: "); ok {
		return smtpdLimit(m, ev)
	}
	return smtpdQueue(env, msg, ev)
}

// afterNumbers drops what stands before the client: "16 after 2.6 from ", or
// "3 for ".
func afterNumbers(m []byte) ([]byte, bool) {
	i := bytes.IndexByte(m, '[')
	if i < 0 || i > 32 {
		return nil, false
	}
	return m[i:], len(bytes.Trim(m[:i], "0123456789. afterfom")) == 0
}

var postscreens = []struct {
	text    string
	numbers bool // numbers stand before the client
	outcome event.Outcome
	kind    event.Kind
}{
	{"CONNECT from ", false, event.Other, event.Plain},
	{"PREGREET ", true, event.Failure, event.Forbidden},
	{"DNSBL rank ", true, event.Failure, event.Forbidden},
	{"HANGUP after ", true, event.Other, event.Probe},
	{"DENYLISTED ", false, event.Failure, event.Forbidden},
	{"BLACKLISTED ", false, event.Failure, event.Forbidden},
	{"BARE NEWLINE from ", false, event.Failure, event.Forbidden},
	{"COMMAND PIPELINING from ", false, event.Failure, event.Forbidden},
	{"NON-SMTP COMMAND from ", false, event.Failure, event.Forbidden},
	{"COMMAND COUNT LIMIT from ", false, event.Failure, event.Limited},
	{"COMMAND TIME LIMIT from ", false, event.Other, event.Probe},
	{"COMMAND LENGTH LIMIT from ", false, event.Failure, event.Limited},
	{"ALLOWLISTED ", false, event.Other, event.Plain},
	{"WHITELISTED ", false, event.Other, event.Plain},
	{"PASS NEW ", false, event.Other, event.Plain},
	{"PASS OLD ", false, event.Other, event.Plain},
	{"DISCONNECT ", false, event.Other, event.Plain},
	{"ALLOWLIST VETO ", false, event.Other, event.Plain},
	{"WHITELIST VETO ", false, event.Other, event.Plain},
}

// postfixAnvil reads "statistics: max connection rate 9/60s for (smtpd:a) at
// Feb 3 …" of anvil(8).
func postfixAnvil(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "statistics: max ")
	if !ok {
		return false
	}
	_, m, ok = scan.Cut(m, " for (")
	in, _, ok2 := scan.Cut(m, ") at ")
	_, addr, ok3 := scan.Cut(in, ":")
	if !ok || !ok2 || !ok3 {
		return false
	}
	a, ok := scan.Addr(addr)
	return ok && ev.Set("postfix", event.Other, event.Plain, a)
}

// postgrey reads "action=greylist, reason=early-retry (295s missing),
// client_name=…, client_address=a, sender=…". Greylisting itself is no
// failure; coming back before the time is what robots do.
func postgrey(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "action=")
	if !ok {
		return false
	}
	head, m, ok := scan.Cut(m, ", client_name=")
	if !ok {
		return false
	}
	_, m = scan.UpTo(m, ", ")
	m, ok = scan.After(m, ", client_address=")
	addr, _ := scan.UpTo(m, ", ")
	a, ok2 := scan.Addr(addr)
	if !ok || !ok2 {
		return false
	}
	if scan.Has(head, "reason=early-retry") {
		return ev.Set("postgrey", event.Failure, event.Forbidden, a)
	}
	return ev.Set("postgrey", event.Other, event.Plain, a)
}
