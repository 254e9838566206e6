package mail

import (
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// The class of a queue id's refused recipients.
const sendmailReject = 1

// sendmail reads sendmail 8's messages (srvrsmtp.c, envelope.c; doc/op): a
// queue id, then fields of which arg1, from, reject and user are the client's,
// and "relay=name [a]".
func sendmail(env *event.Message, msg []byte, ev *event.Event) bool {
	var id []byte
	if w, rest, ok := scan.CutNear(msg, ": ", 24); ok && queueID(w) && len(w) > 7 {
		id, msg = w, rest
	}
	msg = scan.TrimTimes(msg)
	if sendmailRuleset(msg, ev) || sendmailPeer(msg, ev) || sendmailText(msg, ev) {
		return true
	}
	return len(id) > 0 && sendmailQueue(id, msg, ev)
}

// sendmailRelay reads the relay that all "relay=" of m name.
func sendmailRelay(m []byte) (a netip.Addr, ok bool) {
	for {
		_, rest, more := scan.Cut(m, "relay=")
		if !more {
			return a, ok
		}
		m = rest
		found, _, good := sendmailBox(rest)
		if !good {
			continue
		}
		if ok && found != a {
			return a, false
		}
		a, ok = found, true
	}
}

// sendmailBox reads "name [a]", "user@name [a]" or "[a]" at b's start.
func sendmailBox(b []byte) (netip.Addr, []byte, bool) {
	_, rest := scan.HostName(b)
	if r, ok := scan.After(rest, "@"); ok {
		_, rest = scan.HostName(r)
	}
	for range 2 {
		rest, _ = scan.After(rest, " ")
	}
	return scan.Boxed(rest)
}

// sendmailRuleset reads "ruleset=check_rcpt, arg1=<to>, relay=name [a],
// reject=550 5.7.1 <to>... Relaying denied".
func sendmailRuleset(m []byte, ev *event.Event) bool {
	m, ok := scan.After(m, "ruleset=")
	if !ok {
		return false
	}
	_, why, ok := scan.Cut(m, ", reject=")
	a, ok2 := sendmailRelay(m)
	if !ok || !ok2 {
		return false
	}
	ev.Set("sendmail", event.Failure, event.Forbidden, a)
	if scan.HasAny(why, "rate limit exceeded", "Too many open connections") {
		ev.Kind = event.Limited
	}
	if len(why) > 0 && why[0] == '4' && scan.HasAny(why, "reylist", "reylisted") {
		ev.Outcome, ev.Kind = event.Other, event.Plain
	}
	return true
}

// sendmailPeer reads messages that begin with the peer: "name [a] did not
// issue MAIL…", "name [a]: VRFY root [rejected]".
func sendmailPeer(m []byte, ev *event.Event) bool {
	a, rest, ok := sendmailBox(m)
	if !ok {
		return false
	}
	rest, _ = scan.After(rest, " (may be forged)")
	if _, ok := scan.After(rest, " did not issue MAIL/EXPN/VRFY/ETRN during connection to "); ok {
		return ev.Set("sendmail", event.Other, event.Probe, a)
	}
	rest, ok = scan.After(rest, ": ")
	if !ok {
		return false
	}
	cmd, _ := scan.Word(rest)
	switch {
	case scan.FoldEqual(cmd, "vrfy") || scan.FoldEqual(cmd, "expn"):
		_, ok = scan.Before(rest, " [rejected]")
		return ok && ev.Set("sendmail", event.Failure, event.Forbidden, a)
	case scan.OneOf(cmd, "Possible", "possible", "probable", "Probable"):
		return ev.Set("sendmail", event.Failure, event.Forbidden, a)
	}
	return false
}

// sendmailText reads the other messages, by the text that they begin with.
func sendmailText(m []byte, ev *event.Event) bool {
	if rest, ok := scan.After(m, "rejecting commands from "); ok {
		a, rest, ok := sendmailBox(rest)
		return ok && scan.HasAny(rest, "due to pre-greeting traffic") && ev.Set("sendmail", event.Failure, event.Forbidden, a)
	}
	if rest, ok := scan.After(m, "lost input channel from "); ok {
		a, _, ok := sendmailBox(rest)
		return ok && ev.Set("sendmail", event.Other, event.Probe, a)
	}
	if rest, ok := scan.After(m, "AUTH failure ("); ok {
		return sendmailAuth(rest, ev)
	}
	if rest, ok := scan.After(m, "AUTH=server, relay="); ok {
		a, rest, ok := sendmailBox(rest)
		if !ok {
			return false
		}
		ev.Set("sendmail", event.Success, event.Plain, a)
		if _, id, ok := scan.Cut(rest, ", authid="); ok {
			ev.User, _, _ = scan.Last(id, ", mech=")
		}
		return true
	}
	if rest, ok := scan.After(m, "Relaying denied. IP name lookup failed "); ok {
		a, _, ok := scan.Boxed(rest)
		return ok && ev.Set("sendmail", event.Failure, event.Forbidden, a)
	}
	return false
}

// sendmailAuth reads "LOGIN): authentication failure (-13) SASL(-13): …,
// user=u, relay=name [a]"; only the relay's end of the line is sendmail's.
func sendmailAuth(m []byte, ev *event.Event) bool {
	m, _ = scan.Before(m, " (may be forged)")
	head, relay, ok := scan.Last(m, "relay=")
	a, rest, ok2 := sendmailBox(relay)
	if !ok || !ok2 || len(rest) > 0 {
		return false
	}
	ev.Set("sendmail", event.Failure, event.Plain, a)
	if _, user, ok := scan.Last(head, ", user="); ok {
		ev.User, _ = scan.Before(user, ", ")
	}
	return true
}

// sendmailQueue joins "id: <to>... User unknown" with the line that ends the
// same envelope and names the relay: "id: from=<…>, …, relay=name [a]".
func sendmailQueue(id, m []byte, ev *event.Event) bool {
	if _, why, ok := scan.Cut(m, ">... "); ok && m[0] == '<' && scan.HasAny(why, "User unknown", "No such user") {
		ev.Set("sendmail", event.Failure, event.Forbidden, netip.Addr{})
		ev.Conn, ev.Class = event.ConnID("sendmail", id), sendmailReject
		return true
	}
	if _, ok := scan.After(m, "from="); ok {
		a, ok := sendmailRelay(m)
		if !ok {
			return false
		}
		ev.Set("sendmail", event.Other, event.Plain, a)
		ev.Conn = event.ConnID("sendmail", id) // brings the address
		return true
	}
	return false
}
