package web

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// nginx's error log (src/core/ngx_log.c, ngx_http_request.c, ngx_mail.c):
//
//	2013/06/01 02:17:42 [error] 123#456: *7 message (2: errno) while doing,
//	client: A, server: S, request: "R", subrequest: "…", upstream: "…",
//	host: "H", referrer: "F"
//
// on one line. Nothing in it is escaped: message, R and F may hold text that
// looks like the rest of a line. So the client is taken where nothing a client
// wrote can stand before it, or where only one reading of the line is possible.

// nginxCut is a length near nginx's limit (NGX_MAX_ERROR_STR less room for an
// errno). At it the true client may have been cut off and another left.
const nginxCut = 1990

const nginxClient = ", client: "

// nginxError reads a line of it, with its stamp.
func (w *Reader) nginxError(env *event.Message, line []byte, ev *event.Event) bool {
	if len(line) < 26 || line[4] != '/' || line[7] != '/' || line[10] != ' ' || line[13] != ':' {
		return false
	}
	ns, rest, ok := scan.Stamp(line, env.Ref, env.Loc)
	if !ok {
		return false
	}
	msg, conn, ok := nginxHead(rest)
	if !ok {
		return false
	}
	ev.Service, ev.Time = "nginx", ns
	if conn {
		nginxMessage(msg, len(line) >= nginxCut, ev)
		w.client.set(ev, nil)
	}
	return true
}

// nginxHead reads " [level] pid#tid: " and "*connection "; a line without a
// connection names no client.
func nginxHead(b []byte) (msg []byte, conn, ok bool) {
	b, ok = scan.After(b, " [")
	if !ok {
		return nil, false, false
	}
	level, b, ok := scan.Cut(b, "] ")
	if !ok || len(level) < 3 || len(level) > 6 {
		return nil, false, false
	}
	return nginxNumbers(b)
}

// nginxNumbers reads "pid#tid: " and "*connection ".
func nginxNumbers(b []byte) (msg []byte, conn, ok bool) {
	if _, b, ok = scan.Uint(b); !ok || len(b) == 0 || b[0] != '#' {
		return nil, false, false
	}
	if _, b, ok = scan.Uint(b[1:]); !ok {
		return nil, false, false
	}
	if b, ok = scan.After(b, ": "); !ok {
		return nil, false, false
	}
	if star, is := scan.After(b, "*"); is {
		if _, msg, ok = scan.Uint(star); ok {
			msg, ok = scan.After(msg, " ")
			return msg, true, ok
		}
	}
	return b, false, true
}

// nginxSaying is a message that begins so and holds nothing that a client
// wrote up to its ", client: ".
type nginxSaying struct {
	head    string
	outcome event.Outcome
	kind    event.Kind
}

var nginxSayings = [...]nginxSaying{
	{"limiting requests, dry run", event.Other, event.Limited},
	{"limiting connections, dry run", event.Other, event.Limited},
	{"delaying request, dry run", event.Other, event.Limited},
	{"limiting requests, excess: ", event.Failure, event.Limited},
	{"limiting connections by zone ", event.Failure, event.Limited},
	{"delaying request, excess: ", event.Failure, event.Limited},
	{"access forbidden by rule", event.Failure, event.Forbidden},
	{"no user/password was provided for basic authentication", event.Other, event.Plain},
	{"client SSL certificate verify error: ", event.Failure, event.Plain},
	{"client sent no required SSL certificate", event.Other, event.Plain},
	{"client sent plain HTTP request to HTTPS port", event.Other, event.Plain},
	{"client sent HTTP/1.1 request without \"Host\" header", event.Other, event.Plain},
	{"client intended to send too large body: ", event.Other, event.Plain},
	{"client timed out", event.Other, event.Plain},
	{"SSL_do_handshake() failed", event.Other, event.Probe},
	{"peer closed connection in SSL handshake", event.Other, event.Probe},
	{"auth request unexpected status: ", event.Other, event.Plain},
	{"recv() failed", event.Other, event.Plain},
	{"connect() failed", event.Other, event.Plain},
}

// nginxMessage reads what follows the connection's number. cut says that the
// line may have lost its end.
func nginxMessage(msg []byte, cut bool, ev *event.Event) {
	ev.Count = 1
	if rest, ok := scan.After(msg, `user "`); ok {
		nginxUser(rest, cut, ev)
		return
	}
	if rest, ok := scan.After(msg, "client login failed: "); ok {
		nginxLogin(rest, ev)
		return
	}
	for i := range nginxSayings {
		if s := &nginxSayings[i]; scan.HasPrefix(msg, s.head) {
			if _, after, ok := scan.Cut(msg, nginxClient); ok {
				ev.Outcome, ev.Kind = s.outcome, s.kind
				nginxTail(after, ev)
			}
			return
		}
	}
	nginxOther(msg, cut, ev)
}

// nginxOther reads messages that may hold a path, a header or a program's own
// text: their client is known when the line names one address only.
func nginxOther(msg []byte, cut bool, ev *event.Event) {
	if nginxBare(msg, ev) {
		return
	}
	if boxed, ok := scan.After(msg, "[client "); ok {
		if a, rest, ok := scan.AddrPrefix(boxed); ok && scan.HasPrefix(rest, "] ") {
			ev.Addr = a
			nginxVerdict(rest[2:], ev)
			return
		}
	}
	nginxVerdict(msg, ev)
	if cut {
		return
	}
	var at []byte
	for rest, n := msg, 0; n < 16; n++ {
		_, after, ok := scan.Cut(rest, nginxClient)
		if !ok {
			break
		}
		if a, end, ok := scan.AddrPrefix(after); ok && len(end) > 0 {
			if ev.Addr.IsValid() && ev.Addr != a {
				ev.Addr = netip.Addr{}
				return
			}
			ev.Addr, at = a, after
		}
		rest = after
	}
	if at != nil {
		nginxTail(at, ev)
	}
}

// nginxBare reads "client A:port connected to …" and "client A closed …" of
// the mail and stream proxies, which have no tail.
func nginxBare(msg []byte, ev *event.Event) bool {
	rest, ok := scan.After(msg, "client ")
	if !ok {
		return false
	}
	who, rest := scan.Word(rest)
	if !scan.HasPrefix(rest, "connected to ") && !scan.HasPrefix(rest, "closed ") {
		return false
	}
	a, ok := scan.AddrPort(who)
	if ok {
		ev.Addr, ev.Kind = a, event.Probe
	}
	return ok
}

// nginxVerdict judges ModSecurity's, PAM's, PHP's and the file modules' messages.
func nginxVerdict(msg []byte, ev *event.Event) {
	switch {
	case scan.HasPrefix(msg, "ModSecurity: Access denied"):
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	case scan.HasPrefix(msg, "directory index of "):
		ev.Kind = event.Forbidden
	case scan.HasPrefix(msg, `FastCGI sent in stderr: "ALERT - `):
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	case scan.HasPrefix(msg, "NAXSI_FMT: ip=") && scan.Has(msg, "&learning=0&") && scan.Has(msg, "&block=1&"): // NAXSI's wiki, naxsi logs
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	case scan.HasPrefix(msg, "PAM: user '"): // ngx_http_auth_pam_module.c
		if user, _, ok := scan.Cut(msg[len("PAM: user '"):], "' - not authenticated: "); ok {
			ev.Outcome, ev.User = event.Failure, user
		}
	default:
		if said, ok := scan.After(msg, `FastCGI sent in stderr: "`); ok {
			phpSays(said, ev)
		}
	}
}

// nginxLogin reads the mail proxy's `"answer" while in http auth state,
// client: A, server: S, login: "L"`. The answer is the authentication
// server's own (ngx_mail_auth_http_module.c).
func nginxLogin(b []byte, ev *event.Event) {
	_, after, ok := scan.Cut(b, `" while in http auth state`+nginxClient)
	if !ok {
		return
	}
	a, rest, ok := scan.AddrPrefix(after)
	if !ok || len(rest) == 0 {
		return
	}
	ev.Outcome, ev.Addr = event.Failure, a
	if _, login, ok := scan.Cut(rest, `, login: "`); ok {
		if i := bytes.LastIndexByte(login, '"'); i >= 0 {
			ev.User = orNone(login[:i])
		}
	}
}

// nginxTail reads `A, server: S, request: "R", …, host: "H"`, of which only A
// is sure. Something always follows A: else the line may be cut inside it.
func nginxTail(b []byte, ev *event.Event) {
	a, rest, ok := scan.AddrPrefix(b)
	if !ok || len(rest) == 0 || rest[0] != ',' && rest[0] != ' ' {
		return
	}
	ev.Addr = a
	if _, r, ok := scan.Cut(rest, `, request: "`); ok {
		line, after := nginxRequest(r)
		setRequest(ev, line)
		if h, ok := scan.After(after, `, host: "`); ok {
			if i := bytes.IndexByte(h, '"'); i >= 0 {
				ev.Host = h[:i]
			}
		}
	}
}

// nginxRequest splits a request line from what follows its closing quote. In a
// request that nginx accepts, the first " HTTP/1.1" ends it
// (ngx_http_parse_request_line).
func nginxRequest(b []byte) (line, after []byte) {
	if i := nginxVersion(b); i > 0 {
		return b[:i], b[i+1:]
	}
	if i := bytes.IndexByte(b, '"'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// nginxVersion finds the quote behind the first ` HTTP/d.d"`, -1 when there is
// none.
func nginxVersion(b []byte) int {
	for off := 0; ; {
		i := scan.Index(b[off:], " HTTP/")
		if i < 0 || off+i+9 >= len(b) {
			return -1
		}
		off += i + 6
		if b[off]-'0' <= 9 && b[off+1] == '.' && b[off+2]-'0' <= 9 && b[off+3] == '"' {
			return off + 3
		}
	}
}

// nginxReach is nginx's longest record (NGX_MAX_ERROR_STR in src/core/ngx_log.h).
const nginxReach = 2048

// NginxShape: a path is written decoded, so that %0a in it breaks the line; the
// request behind the client is written as it came. A record with a connection
// ends by its client and the request; what does not, or has %0a in the request,
// may be the end of a record of many lines.
func NginxShape(b []byte) (s event.Shape) {
	var msg []byte
	conn, ok := false, false
	if len(b) > 26 && b[4] == '/' && b[7] == '/' && b[10] == ' ' && b[13] == ':' && b[19] == ' ' {
		msg, conn, ok = nginxHead(b[19:])
	}
	if ok && !conn {
		return s // of the server itself: no client's text
	}
	if !ok {
		msg = b
	}
	s.Client = nginxOnly(msg)
	s.Broken = ok && !scan.Has(msg, nginxClient) && !scan.HasPrefix(msg, "client ")
	if s.Broken || ok && !nginxOneLine(msg) {
		s.Reach = nginxReach
	}
	s.Ends = !ok || s.Broken || scan.Has(b, "%0a") || scan.Has(b, "%0A") || len(b) >= nginxCut
	return s
}

// nginxOneLine reports whether what stands in msg before the client holds no
// path and no other program's text. A user's name ends at the first colon, so
// that no record fits into it.
func nginxOneLine(msg []byte) bool {
	if scan.HasPrefix(msg, `user "`) || scan.HasPrefix(msg, "client ") {
		return true
	}
	for i := range nginxSayings {
		if scan.HasPrefix(msg, nginxSayings[i].head) {
			return true
		}
	}
	return false
}

// nginxOnly is the client that a line names, when it names one only.
func nginxOnly(msg []byte) (only netip.Addr) {
	for range 16 {
		_, after, ok := scan.Cut(msg, nginxClient)
		if !ok {
			return only
		}
		a, _, ok := scan.AddrPrefix(after)
		if !ok || only.IsValid() && a != only {
			return netip.Addr{}
		}
		only, msg = a, after
	}
	return netip.Addr{}
}

// nginxTagged reads what nginx sends to syslog: its error log, with or without
// its own stamp, or an access log.
func (w *Reader) nginxTagged(env *event.Message, msg []byte, ev *event.Event) bool {
	if w.nginxError(env, msg, ev) {
		return true
	}
	if len(msg) > 2 && msg[0] == '[' && w.nginxStampless(env, msg, ev) {
		return true
	}
	return w.Access(env, msg, ev)
}

func (w *Reader) nginxStampless(env *event.Message, msg []byte, ev *event.Event) bool {
	_, rest, ok := scan.Cut(msg, "[")
	if !ok {
		return false
	}
	level, rest, ok := scan.Cut(rest, "] ")
	if !ok || len(level) > 6 {
		return false
	}
	body, conn, ok := nginxNumbers(rest)
	if !ok {
		return false
	}
	ev.Service = "nginx"
	if conn {
		nginxMessage(body, len(msg) >= nginxCut, ev)
		w.client.set(ev, nil)
	}
	return true
}
