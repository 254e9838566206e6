package network

import (
	"bytes"
	"net/netip"
	"strings"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// freeswitch reads mod_sofia's messages (sofia_reg.c): "96.80% [WARNING]
// sofia_reg.c:3223 SIP auth failure (REGISTER) on sofia profile 'p' for
// [u@d] from ip a". User and domain are the caller's; the address ends the
// line. A challenge is what every telephone gets first, and no failure.
func freeswitch(env *event.Message, msg []byte, ev *event.Event) bool {
	if ns, rest, ok := scan.Stamp(msg, env.Ref, env.Loc); ok {
		ev.Time, msg = ns, scan.TrimLeft(rest)
	}
	head := msg[:min(len(msg), 64)]
	i := scan.Index(head, "sofia")
	if i < 0 || !freeswitchHead(head[:i]) {
		return false
	}
	_, m := scan.Word(msg[i:])
	m = scan.Trim(m)
	if rest, ok := scan.After(m, "IP "); ok {
		w, rest := scan.Word(rest)
		a, ok := scan.Addr(w)
		if !ok || !bytes.HasPrefix(rest, []byte("Rejected by ")) {
			return false
		}
		ev.Set("freeswitch", event.Failure, event.Forbidden, a)
		if scan.Has(rest, "Falling back to Digest auth") {
			ev.Outcome, ev.Kind = event.Other, event.Plain
		}
		return true
	}
	o, k := event.Failure, event.Plain
	switch {
	case bytes.HasPrefix(m, []byte("SIP auth failure (")):
	case bytes.HasPrefix(m, []byte("SIP auth challenge (")):
		o = event.Other
	case bytes.HasPrefix(m, []byte("Can't find user [")):
		k = event.UnknownUser
	default:
		return false
	}
	in, addr, ok := scan.Last(m, " from ")
	addr, _ = scan.After(addr, "ip ")
	a, ok2 := scan.Addr(addr)
	if !ok || !ok2 {
		return false
	}
	if _, u, ok := scan.Cut(in, "["); ok {
		ev.User, _ = scan.Before(u, "]")
	}
	return ev.Set("freeswitch", o, k, a)
}

// ejabberd reads "(…) Failed c2s PLAIN authentication for u@d from a: why"
// (src/ejabberd_c2s.erl), "… from IP a ({{192,0,2,4},12716})" of before 16,
// and "Accepted c2s PLAIN authentication for u@d by mnesia backend from a".
func ejabberd(env *event.Message, msg []byte, ev *event.Event) bool {
	if !ejabberdHead(msg) && string(env.Tag) != "ejabberd" {
		return false
	}
	o := event.Failure
	_, m, ok := scan.Cut(msg, ") Failed ")
	if !ok {
		if _, m, ok = scan.Cut(msg, ") Accepted "); !ok {
			return false
		}
		o = event.Success
	}
	_, m, ok = scan.Cut(m, "authentication for ")
	if !ok {
		return false
	}
	user, rest, ok := scan.Last(m, " from ")
	rest, _ = scan.After(rest, "IP ")
	w, _ := scan.Word(rest)
	w, reason := scan.Before(w, ":")
	a, ok2 := scan.Addr(w)
	if !ok || !ok2 || reason && len(rest) < len(w)+2 || len(rest) > len(w) && !reason && !bytes.HasPrefix(rest[len(w):], []byte(" ({{")) {
		return false
	}
	if head, _, ok := scan.Last(user, " by "); ok && o == event.Success {
		user = head
	}
	ev.User = user
	return ev.Set("ejabberd", o, event.Plain, a)
}

// freeswitchHead reports whether b is what FreeSWITCH puts before the name of a
// source file: a stamp of its own, a session's id, the idle time, the level and
// the module ("96.03% [WARNING] ", "08-03 07:56:53.026292 [WARN] [SOFIA] [").
func freeswitchHead(b []byte) bool {
	boxes := false
	for len(b) > 0 {
		w, rest := scan.Word(b)
		b = scan.TrimLeft(rest)
		if len(w) > 0 && w[0] == '[' {
			boxes = true
			if !hasOnly(w[1:], 'A', 'Z', "]") {
				return false
			}
			continue
		}
		if boxes || !hasOnly(w, '0', '9', "-:.%") && (len(w) != 36 || !hasOnly(w, '0', '9', "-abcdef")) {
			return false
		}
	}
	return true
}

// hasOnly reports whether b holds only bytes from lo to hi, and of others.
func hasOnly(b []byte, lo, hi byte, others string) bool {
	for _, c := range b {
		if (c < lo || c > hi) && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

// ejabberdHead reports whether b begins as ejabberd's own log does behind its
// stamp, so that its text inside another's line is nobody's.
func ejabberdHead(b []byte) bool {
	for _, level := range [...]string{"[info] ", "[notice] ", "[warning] ", "[error] ", "[debug] ", "[critical] ", "I(<"} {
		if scan.HasPrefix(b, level) {
			return true
		}
	}
	return false
}

// Ways in which charon tells of one attempt.
const (
	charonEAP = 1 + iota
	charonKey
	charonXAuth
)

// charon reads strongSwan's IKE daemon (src/libcharon): "06[IKE] <conn|83>
// EAP-MS-CHAPv2 verification failed, retry (1)". The number names the
// connection; its packets tell the peer.
func charon(env *event.Message, msg []byte, ev *event.Event) bool {
	_, m, ok := scan.CutNear(msg, "] <", 12)
	if !ok {
		return false
	}
	name, m, ok := scan.Cut(m, "> ")
	if !ok {
		return false
	}
	if _, n, ok := scan.Last(name, "|"); ok {
		name = n
	}
	if !scan.Digits(name) {
		return false
	}
	if !charonMessage(m, ev) {
		return false
	}
	ev.Conn = event.ConnID("charon", name)
	return true
}

func charonMessage(m []byte, ev *event.Event) bool {
	if rest, ok := scan.After(m, "received packet: from "); ok {
		return charonTeach(rest, ev)
	}
	if _, rest, ok := scan.CutNear(m, "] to ", 96); ok && bytes.HasPrefix(m, []byte("sending packet: from ")) {
		return charonTeach(rest, ev)
	}
	if w, rest := scan.Word(m); string(rest) == "is initiating an IKE_SA" {
		return charonTeach(w, ev)
	}
	var class uint8
	switch {
	case bytes.HasPrefix(m, []byte("EAP-MS-CHAPv2 verification failed")), bytes.HasPrefix(m, []byte("EAP method ")) && scan.Has(m, " failed"):
		class = charonEAP
	case bytes.HasPrefix(m, []byte("no EAP key found")), bytes.HasPrefix(m, []byte("no trusted ")),
		bytes.HasPrefix(m, []byte("tried ")) && scan.Has(m, "MAC mismatched"), bytes.HasPrefix(m, []byte("no shared key found")):
		class = charonKey
	case bytes.HasPrefix(m, []byte("XAuth authentication of '")) && scan.Has(m, "' failed"):
		class = charonXAuth
	default:
		return false
	}
	ev.Set("charon", event.Failure, event.Plain, netip.Addr{})
	ev.Class = class
	if u, ok := scan.After(m, "XAuth authentication of '"); ok {
		ev.User, _, _ = scan.Last(u, "' failed")
	}
	return true
}

// charonTeach reads "a[4500] …", a port in brackets or none. The lines that
// follow one another of a connection all name its peer, so that they do not
// begin it anew.
func charonTeach(m []byte, ev *event.Event) bool {
	addr, _ := scan.UpTo(m, "[ ")
	a, ok := scan.Addr(addr)
	return ok && ev.Set("charon", event.Other, event.Plain, a)
}
