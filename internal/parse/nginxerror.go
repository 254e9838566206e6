package parse

import (
	"bytes"
	"net/netip"

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
func nginxError(p *Parser, line []byte, ev *Event) bool {
	if len(line) < 26 || line[4] != '/' || line[7] != '/' || line[10] != ' ' || line[13] != ':' {
		return false
	}
	ns, rest, ok := scan.Stamp(line, p.ref(), p.loc())
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
		p.opt.Client.set(ev, nil)
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
	outcome Outcome
	kind    Kind
}

var nginxSayings = [...]nginxSaying{
	{"limiting requests, dry run", Other, Limited},
	{"limiting connections, dry run", Other, Limited},
	{"delaying request, dry run", Other, Limited},
	{"limiting requests, excess: ", Failure, Limited},
	{"limiting connections by zone ", Failure, Limited},
	{"delaying request, excess: ", Failure, Limited},
	{"access forbidden by rule", Failure, Forbidden},
	{"no user/password was provided for basic authentication", Other, Plain},
	{"client SSL certificate verify error: ", Failure, Plain},
	{"client sent no required SSL certificate", Other, Plain},
	{"client sent plain HTTP request to HTTPS port", Other, Plain},
	{"client sent HTTP/1.1 request without \"Host\" header", Other, Plain},
	{"client intended to send too large body: ", Other, Plain},
	{"client timed out", Other, Plain},
	{"SSL_do_handshake() failed", Other, Probe},
	{"peer closed connection in SSL handshake", Other, Probe},
	{"auth request unexpected status: ", Other, Plain},
	{"recv() failed", Other, Plain},
	{"connect() failed", Other, Plain},
}

// nginxMessage reads what follows the connection's number. cut says that the
// line may have lost its end.
func nginxMessage(msg []byte, cut bool, ev *Event) {
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
		if s := &nginxSayings[i]; hasPrefix(msg, s.head) {
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
func nginxOther(msg []byte, cut bool, ev *Event) {
	if nginxBare(msg, ev) {
		return
	}
	if boxed, ok := scan.After(msg, "[client "); ok {
		if a, rest, ok := scan.AddrPrefix(boxed); ok && hasPrefix(rest, "] ") {
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
func nginxBare(msg []byte, ev *Event) bool {
	rest, ok := scan.After(msg, "client ")
	if !ok {
		return false
	}
	who, rest := scan.Word(rest)
	if !hasPrefix(rest, "connected to ") && !hasPrefix(rest, "closed ") {
		return false
	}
	a, ok := scan.AddrPort(who)
	if ok {
		ev.Addr, ev.Kind = a, Probe
	}
	return ok
}

// nginxVerdict judges ModSecurity's, PAM's, PHP's and the file modules' messages.
func nginxVerdict(msg []byte, ev *Event) {
	switch {
	case hasPrefix(msg, "ModSecurity: Access denied"):
		ev.Outcome, ev.Kind = Failure, Forbidden
	case hasPrefix(msg, "directory index of "):
		ev.Kind = Forbidden
	case hasPrefix(msg, `FastCGI sent in stderr: "ALERT - `):
		ev.Outcome, ev.Kind = Failure, Forbidden
	case hasPrefix(msg, "NAXSI_FMT: ip=") && scan.Has(msg, "&learning=0&") && scan.Has(msg, "&block=1&"): // NAXSI's wiki, naxsi logs
		ev.Outcome, ev.Kind = Failure, Forbidden
	case hasPrefix(msg, "PAM: user '"): // ngx_http_auth_pam_module.c
		if user, _, ok := scan.Cut(msg[len("PAM: user '"):], "' - not authenticated: "); ok {
			ev.Outcome, ev.User = Failure, user
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
func nginxLogin(b []byte, ev *Event) {
	_, after, ok := scan.Cut(b, `" while in http auth state`+nginxClient)
	if !ok {
		return
	}
	a, rest, ok := scan.AddrPrefix(after)
	if !ok || len(rest) == 0 {
		return
	}
	ev.Outcome, ev.Addr = Failure, a
	if _, login, ok := scan.Cut(rest, `, login: "`); ok {
		if i := bytes.LastIndexByte(login, '"'); i >= 0 {
			ev.User = orNone(login[:i])
		}
	}
}

// nginxTail reads `A, server: S, request: "R", …, host: "H"`, of which only A
// is sure. Something always follows A: else the line may be cut inside it.
func nginxTail(b []byte, ev *Event) {
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

func hasPrefix(b []byte, s string) bool { return len(b) >= len(s) && string(b[:len(s)]) == s }
