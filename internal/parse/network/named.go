package network

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// named reads BIND's messages of a client, 8 to 9.20 (lib/ns/client.c,
// query.c, xfrout.c, update.c, lib/dns/rrl.c):
//
//	client @0x7f7c95c76968 192.0.2.3#60683 (example.com): view v: query (cache) 'example.com/A/IN' denied
//
// The names that the client asks for come after its address.
func named(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := namedClient(env, msg)
	if !ok {
		return false
	}
	w, rest := scan.UpTo(m, " :#")
	if len(rest) > 0 && rest[0] == ':' { // an IPv6 address
		w, rest = scan.UpTo(m, " #")
	}
	if len(rest) == 0 || rest[0] != '#' {
		return false
	}
	a, ok := scan.Addr(w)
	_, rest, ok2 := scan.Uint(rest[1:])
	if !ok || !ok2 || len(rest) == 0 {
		return false
	}
	if n, ok := scan.After(rest, "/key "); ok {
		_, rest = scan.UpTo(n, " :")
	}
	if n, ok := scan.After(rest, " ("); ok {
		if _, rest, ok = scan.Cut(n, "): "); !ok {
			return false
		}
	} else if rest, ok = scan.After(rest, ": "); !ok {
		return false
	}
	if v, ok := scan.After(rest, "view "); ok {
		if _, v, ok = scan.Cut(v, ": "); ok {
			rest = v
		}
	}
	ev.Set("named", event.Other, event.Plain, a)
	namedMessage(rest, ev)
	return true
}

// namedClient drops a stamp, "security: error: " and "client @0x… ".
func namedClient(env *event.Message, msg []byte) ([]byte, bool) {
	if _, rest, ok := scan.Stamp(msg, env.Ref, env.Loc); ok {
		msg = scan.TrimLeft(rest)
	}
	for range 3 {
		if m, ok := scan.After(msg, "client "); ok {
			if at, ok := scan.After(m, "@0x"); ok {
				_, m = scan.Word(at)
			}
			return m, true
		}
		w, rest := scan.Word(msg)
		if len(w) < 2 || w[len(w)-1] != ':' {
			return nil, false
		}
		if !scan.OneOf(w[:len(w)-1], "security", "update-security", "queries", "query-errors", "xfer-out", "client", "rate-limit",
			"update", "notify", "general", "default", "resolver", "info", "notice", "warning", "error", "critical") {
			return nil, false
		}
		msg = rest
	}
	return nil, false
}

// namedMessage sets what became of the request. The names in it are the
// client's, and cannot make it look like another's.
func namedMessage(m []byte, ev *event.Event) {
	switch {
	case namedDenied(m):
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	case bytes.HasPrefix(m, []byte("rate limit ")):
		ev.Kind = event.Limited // the source of such floods is most often forged
	case bytes.HasPrefix(m, []byte("bad zone transfer request: ")):
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	case bytes.HasPrefix(m, []byte("request has invalid signature: ")):
		ev.Outcome = event.Failure
	case bytes.HasPrefix(m, []byte("query failed (REFUSED)")):
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	case scan.HasAny(m, "quota reached", "quota exceeded"):
		ev.Outcome, ev.Kind = event.Failure, event.Limited
	}
}

// namedDenied reads "query (cache) 'x/A/IN' denied (allow-query-cache did not
// match)", "zone transfer 'x/AXFR/IN' denied", "update 'x/IN' denied", and
// "updating zone 'x/IN': update denied"…
func namedDenied(m []byte) bool {
	if head, why, ok := scan.Last(m, " denied"); ok && (len(why) == 0 || why[0] == ' ' || why[0] == ':' || why[0] == ',') {
		for _, w := range [...]string{"query", "zone transfer ", "update ", "updating zone ", "update forwarding ", "notify ",
			"recursion", "dnscrypt", "NOTIFY"} {
			if _, ok := scan.After(head, w); ok {
				return true
			}
		}
	}
	return false
}
