package parse

import (
	"bytes"

	"stoplog/internal/parse/scan"
)

// The messages of nginx's ngx_http_auth_basic_module.c:
//
//	user "U": password mismatch, client: A, …
//	user "U" was not found in "F", client: A, …
//
// U is everything before the first colon of the credentials, so that it may
// hold anything but a colon, and ", client: " has one: the first after U is
// nginx's own. A line that cannot be read so was not written so.

// nginxUser reads what follows `user "`.
func nginxUser(b []byte, ev *Event) {
	colon := bytes.IndexByte(b, ':')
	if colon < 1 {
		return
	}
	user, tail, kind, ok := nginxMismatch(b, colon)
	if !ok {
		user, tail, kind, ok = nginxMissing(b, colon)
	}
	if !ok {
		return
	}
	switch nginxProve(tail) {
	case proven:
	case brokenHost:
		user, tail, kind, ok = nginxLastUser(b)
		if !ok {
			return
		}
	default:
		return
	}
	if nginxTail(tail, ev); ev.Addr.IsValid() {
		ev.Outcome, ev.Kind, ev.User = Failure, kind, user
	}
}

func nginxMismatch(b []byte, colon int) (user, tail []byte, k Kind, ok bool) {
	tail, ok = scan.After(b[colon:], ": password mismatch"+nginxClient)
	if !ok || b[colon-1] != '"' {
		return nil, nil, 0, false
	}
	return b[:colon-1], tail, Plain, true
}

func nginxMissing(b []byte, colon int) (user, tail []byte, k Kind, ok bool) {
	head, ok := scan.Before(b[:colon], `", client`)
	if !ok || !hasPrefix(b[colon:], ": ") {
		return nil, nil, 0, false
	}
	user, _, ok = scan.Last(head, `" was not found in "`)
	return user, b[colon+2:], UnknownUser, ok
}

// What nginxProve finds.
type proof uint8

const (
	unproven   proof = iota
	proven           // nginx can have written all of it
	brokenHost       // the host goes on behind its quote, as no accepted host does
)

// nginxProve checks `A, server: S, request: "R", …` to the end of the line
// against what nginx can write: a request that ends at its first version
// (ngx_http_parse_request_line), a host without spaces, slashes and quotes
// (ngx_http_validate_host), a referrer that may be anything.
func nginxProve(b []byte) proof {
	_, rest, ok := scan.AddrPrefix(b)
	if !ok {
		return unproven
	}
	if rest, ok = scan.After(rest, ", server: "); !ok {
		return unproven
	}
	server, rest, ok := scan.Cut(rest, `, request: "`)
	if !ok || bytes.IndexByte(server, '"') >= 0 {
		return unproven
	}
	end := nginxVersion(rest)
	if end < 0 {
		return unproven
	}
	return nginxProveRest(rest[end+1:])
}

func nginxProveRest(b []byte) proof {
	for _, field := range [...]string{`, subrequest: "`, `, upstream: "`} {
		if rest, ok := scan.After(b, field); ok {
			i := bytes.IndexByte(rest, '"')
			if i < 0 {
				return unproven
			}
			b = rest[i+1:]
		}
	}
	host, ok := scan.After(b, `, host: "`)
	if ok {
		i := bytes.IndexAny(host, `"/ `)
		if i < 0 || host[i] != '"' {
			return unproven
		}
		if b = host[i+1:]; len(b) > 0 && b[0] == '"' {
			return brokenHost
		}
	}
	if len(b) == 0 {
		return proven
	}
	if rest, is := scan.After(b, `, referrer: "`); is && len(rest) > 0 && rest[len(rest)-1] == '"' {
		return proven
	}
	return unproven
}

// nginxLastUser reads a line whose user holds a colon, which only the last
// client that can be proven explains. HTTP/1 only: an accepted request cannot
// hold such a text there.
func nginxLastUser(b []byte) (user, tail []byte, k Kind, ok bool) {
	head, tail, ok := scan.Last(b, nginxClient)
	if !ok || nginxProve(tail) != proven {
		return nil, nil, 0, false
	}
	if _, version, _ := scan.Cut(tail, " HTTP/"); version[0] != '1' {
		return nil, nil, 0, false
	}
	if user, ok = scan.Before(head, `": password mismatch`); ok {
		return user, tail, Plain, true
	}
	if head, ok = scan.Before(head, `"`); !ok {
		return nil, nil, 0, false
	}
	for _, saying := range [...]string{`" was not found in "`, `": was not found in "`} {
		if user, file, ok := scan.Last(head, saying); ok && bytes.IndexByte(file, '"') < 0 {
			return user, tail, UnknownUser, true
		}
	}
	return nil, nil, 0, false
}
