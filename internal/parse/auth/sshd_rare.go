package auth

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// sshdError reads what follows "error: " and "fatal: ".
func sshdError(b []byte, ev *event.Event, pre bool) bool {
	switch b[0] {
	case 'P':
		if rest, ok := scan.After(b, "PAM: "); ok {
			return sshdPAMMessage(rest, ev)
		}
	case 'U':
		return sshdU(b, ev)
	case 'C', 'D', 'R':
		return sshdEnd(b, ev, pre) || sshdRare(b, ev)
	case 'A':
		return sshdA(b, ev)
	}
	return sshdRare(b, ev)
}

// sshdPAMMessage reads "TEXT for [illegal user ]USER from HOST[ via OURS]",
// where TEXT is pam_strerror(3)'s.
func sshdPAMMessage(b []byte, ev *event.Event) bool {
	text, rest, ok := scan.Cut(b, " for ")
	if !ok {
		return false
	}
	user, unknown := sshdUser(rest)
	user, host, ok := scan.Last(user, " from ")
	if !ok {
		return false
	}
	host, _, _ = scan.Cut(host, " via ")
	ev.Outcome, ev.Class, ev.User = event.Failure, sshdFailed, user
	if unknown || scan.HasPrefix(text, "User not known") {
		ev.Kind = event.UnknownUser
	}
	ev.Addr, _ = scan.Addr(host)
	return ev.Addr.IsValid() || ev.Conn != 0
}

// sshdPrefixed are the messages in which the address follows fixed text, of
// clients that named nobody.
var sshdPrefixed = [...]string{
	"Timeout before authentication for connection from ",
	"Timeout before authentication for ",
	"Unable to negotiate with ",
	"probed from ",
	"scanned from ",
	"Protocol major versions differ for ",
}

// sshdRare reads the messages that are seldom written.
func sshdRare(b []byte, ev *event.Event) bool {
	for _, head := range sshdPrefixed {
		if rest, ok := scan.After(b, head); ok {
			ev.Kind = event.Probe
			return sshdID(rest, ev)
		}
	}
	switch b[0] {
	case 'B':
		return sshdBadProtocol(b, ev)
	case 'b', 's', 'k':
		if sshdNamed(b, ev) {
			return true
		}
	case 'd':
		if rest, ok := scan.After(b, "drop connection #"); ok {
			return sshdDropped(rest, ev)
		}
	case 'M':
		if scan.HasPrefix(b, "Magic value check failed (") {
			ev.Kind = event.Probe
			return fromEnd(b, ev)
		}
	case 'm':
		if rest, ok := scan.After(b, "maximum authentication attempts exceeded for "); ok {
			user, unknown := sshdUser(rest)
			ev.Outcome, ev.Class = event.Failure, sshdTooMany
			if unknown {
				ev.Kind = event.UnknownUser
			}
			return sshdFrom(user, ev, unknown)
		}
	case 'r':
		return sshdNames(b, ev)
	case 'P':
		return sshdPostponed(b, ev)
	case 'S', 'C':
		return sshdSession(b, ev)
	case '/':
		return sshdKeyDenied(b, ev)
	case 'N':
		_, rest, ok := scan.Last(b, `" is set up for `)
		return ok && scan.HasPrefix(b, `Nasty PTR record "`) && sshdID(rest, ev)
	}
	return sshdNoAddr(b, ev)
}

// sshdBadProtocol reads "Bad protocol version identification 'TEXT' from ADDR
// port N".
func sshdBadProtocol(b []byte, ev *event.Event) bool {
	if !scan.HasPrefix(b, "Bad protocol version identification ") {
		return sshdNoAddr(b, ev)
	}
	ok := fromEnd(b, ev)
	ev.Kind, ev.User = event.Probe, nil
	return ok
}

// sshdNamed reads "FUNCTION: Connection from REMOTE_ID: why".
func sshdNamed(b []byte, ev *event.Event) bool {
	for _, head := range [...]string{"banner exchange: Connection from ", "ssh_dispatch_run_fatal: Connection from ", "kex_exchange_identification: Connection from "} {
		if rest, ok := scan.After(b, head); ok {
			return sshdTrouble(rest, ev)
		}
	}
	return false
}

// sshdDropped reads "N from [ADDR]:PORT on [OURS]:22 why". A client that
// carries a penalty is refused for what it did; one past MaxStartups only
// came while others filled the queue.
func sshdDropped(b []byte, ev *event.Event) bool {
	_, rest, ok := scan.Cut(b, " from ")
	if !ok || !sshdID(rest, ev) {
		return false
	}
	ev.Conn, ev.Kind = 0, event.Probe
	if scan.Has(rest, " penalty: ") {
		ev.Outcome, ev.Kind = event.Failure, event.Limited
	}
	return true
}

// sshdNames reads what resolving tells: "reverse mapping checking getaddrinfo
// for NAME [ADDR] failed.", and tcp_wrappers' "refused connect from CLIENT
// (ADDR)": a connection that was refused before anybody could try to log in.
func sshdNames(b []byte, ev *event.Event) bool {
	if scan.HasPrefix(b, "reverse mapping checking getaddrinfo for ") {
		head, _, ok := scan.Last(b, "] failed")
		if !ok {
			return false
		}
		_, tok, ok := scan.Last(head, " [")
		if !ok {
			return false
		}
		ev.Addr, ok = scan.Addr(tok)
		return ok
	}
	rest, ok := scan.After(b, "refused connect from ")
	if !ok {
		return false
	}
	ev.Outcome, ev.Kind, ev.Class = event.Failure, event.Probe, sshdRefused
	if head, boxed := scan.Before(rest, ")"); boxed {
		_, rest, _ = scan.Last(head, " (")
	}
	ev.Addr, ok = scan.Addr(rest)
	return ok
}

func sshdPostponed(b []byte, ev *event.Event) bool {
	for _, head := range [...]string{"Postponed ", "Partial "} {
		if rest, ok := scan.After(b, head); ok {
			ok = sshdResult(rest, ev, false)
			ev.Kind, ev.Class = event.Plain, 0
			return ok
		}
	}
	return sshdNoAddr(b, ev)
}

// sshdSession reads "Starting session: WHAT for USER from ADDR port N id N",
// "Close session: user USER from ADDR port N id N", and HPN's "SSH:
// Server;Ltype: Version;Remote: ADDR-PORT;…".
func sshdSession(b []byte, ev *event.Event) bool {
	for _, head := range [...]string{"SSH: Server;Ltype: Version;Remote: ", "SSH: Server;Ltype: Kex;Remote: ", "SSH: Server;Ltype: Authname;Remote: "} {
		if rest, ok := scan.After(b, head); ok {
			tok, _, _ := scan.Cut(rest, "-")
			ev.Addr, ok = scan.Addr(tok)
			return ok
		}
	}
	if !scan.HasPrefix(b, "Starting session: ") && !scan.HasPrefix(b, "Close session: ") {
		return sshdNoAddr(b, ev)
	}
	head, id, ok := scan.Last(b, " id ")
	if !ok || !scan.Digits(id) {
		return false
	}
	ok = fromEnd(head, ev)
	ev.User = nil
	return ok
}

// sshdNoAddr knows what is written of a connection without its address.
func sshdNoAddr(b []byte, ev *event.Event) bool {
	for _, head := range [...]string{
		"Read from socket failed: ", "Write failed: ", "Bad packet length ", "Corrupted MAC on input",
		"kex_exchange_identification: ", "no matching ", "padding error: ", "Connection corrupted",
		"Bad remote protocol version identification: ", "Timeout before authentication", "Unable to negotiate ",
	} {
		if bytes.HasPrefix(b, []byte(head)) {
			ev.Kind = event.Probe
			return ev.Conn != 0
		}
	}
	return false
}
