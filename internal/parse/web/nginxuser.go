package web

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// The messages of nginx's ngx_http_auth_basic_module.c:
//
//	user "U": password mismatch, client: A, …
//	user "U" was not found in "F", client: A, …
//
// U is everything before the first colon of the credentials (ngx_http_auth_
// basic_user), so that it may hold anything but a colon. ", client: " has one:
// the first after U is nginx's own, wherever the line is cut. A line that
// cannot be read so to its end, but has another client that can, was not
// written by nginx as we know it; then only the last one is believed.

// nginxUser reads what follows `user "`.
func nginxUser(b []byte, cut bool, ev *event.Event) {
	user, tail, kind, ok := nginxFirstUser(b)
	proof := unproven
	if ok {
		proof = nginxProve(tail)
	}
	if proof != proven && !cut {
		if u, t, k, again := nginxLastUser(b, proof); again {
			if proof == halfProven {
				return // two readings
			}
			user, tail, kind, ok, proof = u, t, k, true, proven
		}
	}
	if !ok || proof == impossible {
		return
	}
	if nginxTail(tail, ev); ev.Addr.IsValid() {
		ev.Outcome, ev.Kind, ev.User = event.Failure, kind, user
	}
}

// nginxFirstUser reads a user without a colon.
func nginxFirstUser(b []byte) (user, tail []byte, k event.Kind, ok bool) {
	colon := bytes.IndexByte(b, ':')
	if colon < 1 {
		return nil, nil, 0, false
	}
	if tail, ok = scan.After(b[colon:], ": password mismatch"+nginxClient); ok && b[colon-1] == '"' {
		return b[:colon-1], tail, event.Plain, true
	}
	head, ok := scan.Before(b[:colon], `", client`)
	if !ok || !scan.HasPrefix(b[colon:], ": ") {
		return nil, nil, 0, false
	}
	user, _, ok = scan.Last(head, `" was not found in "`)
	return user, b[colon+2:], event.UnknownUser, ok
}

// proof is how well the end of a line fits to what nginx writes.
type proof uint8

const (
	impossible proof = iota // no server name follows the client
	unproven                // what follows the server's name is unknown
	halfProven              // it fits if the request is one of HTTP/2
	proven
)

// nginxProve checks `A, server: S, request: "R", …` to the end of the line
// against what nginx can write.
func nginxProve(b []byte) proof {
	_, rest, ok := scan.AddrPrefix(b)
	if !ok {
		return impossible
	}
	if rest, ok = scan.After(rest, ", server: "); !ok {
		return impossible
	}
	server, rest, ok := scan.Cut(rest, `, request: "`)
	if !ok {
		return unproven
	}
	if bytes.IndexByte(server, '"') >= 0 {
		return impossible
	}
	return nginxProveRequest(rest)
}

// nginxProveRequest looks for the end of the request. An accepted HTTP/1
// request ends at its first version (ngx_http_parse_request_line); one of
// HTTP/2 may hold others before its own.
func nginxProveRequest(b []byte) proof {
	for first := true; ; first = false {
		end := nginxVersion(b)
		if end < 0 {
			return unproven
		}
		if (first || b[end-3] >= '2') && nginxProveRest(b[end+1:]) {
			if first {
				return proven
			}
			return halfProven
		}
		b = b[end+1:]
	}
}

// nginxProveRest checks what follows the request: a host, which holds no slash
// (ngx_http_validate_host; before 1.21.1 it could hold quotes and spaces), and
// a referrer, which may be anything.
func nginxProveRest(b []byte) bool {
	for _, field := range [...]string{`, subrequest: "`, `, upstream: "`} {
		if rest, ok := scan.After(b, field); ok {
			i := bytes.IndexByte(rest, '"')
			if i < 0 {
				return false
			}
			b = rest[i+1:]
		}
	}
	host, ok := scan.After(b, `, host: "`)
	if !ok {
		return nginxReferrer(b)
	}
	for {
		i := bytes.IndexAny(host, `"/`)
		if i < 0 || host[i] != '"' {
			return false
		}
		if host = host[i+1:]; nginxReferrer(host) {
			return true
		}
	}
}

func nginxReferrer(b []byte) bool {
	rest, ok := scan.After(b, `, referrer: "`)
	return len(b) == 0 || ok && len(rest) > 0 && rest[len(rest)-1] == '"'
}

// nginxLastUser reads a line whose user holds a colon: the last client, when
// all that follows it is proven and its request holds no quote.
func nginxLastUser(b []byte, first proof) (user, tail []byte, k event.Kind, ok bool) {
	head, tail, ok := scan.Last(b, nginxClient)
	if !ok || nginxProve(tail) != proven {
		return nil, nil, 0, false
	}
	_, request, _ := scan.Cut(tail, `, request: "`)
	end := nginxVersion(request)
	if bytes.IndexByte(request[:end], '"') >= 0 || first != halfProven && request[end-3] != '1' {
		return nil, nil, 0, false
	}
	if user, ok = scan.Before(head, `": password mismatch`); ok {
		return user, tail, event.Plain, true
	}
	if head, ok = scan.Before(head, `"`); !ok {
		return nil, nil, 0, false
	}
	for _, saying := range [...]string{`" was not found in "`, `": was not found in "`} {
		if user, file, ok := scan.Last(head, saying); ok && bytes.IndexByte(file, '"') < 0 {
			return user, tail, event.UnknownUser, true
		}
	}
	return nil, nil, 0, false
}
