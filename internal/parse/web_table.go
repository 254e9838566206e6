package parse

import (
	"bytes"
	"fmt"
	"strings"

	"stoplog/internal/parse/scan"
)

// web is what the web families keep in a parser: the format that the user
// named, compiled, and the memory that unescaped values live in.
type web struct {
	format  *format
	header  string // of ClientOptions, in lower case
	scratch []byte
	fields  *fieldMap // of Options.Map
	extra   [][]byte  // values of its own fields, of one line
}

func newWeb(o *Options) (web, error) {
	f, err := compileFormat(o.Format)
	if err != nil {
		return web{}, err
	}
	w := web{format: f, header: strings.ToLower(o.Client.Header)}
	if w.fields, err = compileMap(o.Map); err != nil || w.fields == nil {
		return w, err
	}
	switch strings.ToLower(o.Format) {
	case "json", "logfmt":
	default:
		return w, fmt.Errorf("format %q: fields are for json and logfmt", o.Format)
	}
	w.extra = make([][]byte, len(w.fields.extra))
	return w, nil
}

func (w *web) reset() { w.scratch = w.scratch[:0] }

// webScanner returns the scanner of a web server's or proxy's syslog tag, nil
// when it is none's.
func webScanner(tag []byte) scanner { return familyScanner(webFamily(tag)) }

// webFamily returns the family of such a tag.
func webFamily(tag []byte) string {
	switch string(tag) {
	case "nginx", "angie", "openresty", "tengine":
		return "nginx"
	case "httpd", "apache", "apache2", "httpd2":
		return "apache"
	case "haproxy", "hapee-lb":
		return "haproxy"
	case "lighttpd":
		return "lighttpd"
	case "squid", "squid3", "(squid)", "(squid-1)", "squid-1", "squid-2", "squid-3", "squid-4":
		return "squid"
	case "suhosin":
		return "suhosin"
	case "mod_evasive":
		return "mod_evasive"
	case "caddy":
		return "caddy"
	case "traefik":
		return "traefik"
	case "envoy":
		return "envoy"
	case "varnishncsa", "varnish":
		return "varnish"
	}
	return ""
}

// nginxTagged reads what nginx sends to syslog: its error log, with or without
// its own stamp, or an access log.
func nginxTagged(p *Parser, msg []byte, ev *Event) bool {
	if nginxError(p, msg, ev) {
		return true
	}
	if len(msg) > 2 && msg[0] == '[' && nginxStampless(p, msg, ev) {
		return true
	}
	return accessAny(p, msg, ev)
}

func nginxStampless(p *Parser, msg []byte, ev *Event) bool {
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
		p.opt.Client.set(ev, nil)
	}
	return true
}

func apacheAny(p *Parser, msg []byte, ev *Event) bool {
	return apacheTagged(p, msg, ev) || apacheError(p, msg, ev) || accessAny(p, msg, ev)
}

func haproxyAny(p *Parser, msg []byte, ev *Event) bool {
	return haproxyLog(p, msg, ev) || accessAny(p, msg, ev)
}

func lighttpdAny(p *Parser, msg []byte, ev *Event) bool {
	return lighttpdTagged(p, msg, ev) || lighttpdError(p, msg, ev) || accessAny(p, msg, ev)
}

func squidAny(p *Parser, msg []byte, ev *Event) bool {
	return squidLog(p, msg, ev) || accessAny(p, msg, ev)
}

// evasiveLog reads mod_evasive's "Blacklisting address A: possible DoS attack."
func evasiveLog(_ *Parser, msg []byte, ev *Event) bool {
	rest, ok := scan.After(msg, "Blacklisting address ")
	if !ok {
		return false
	}
	addr, rest, ok := scan.Cut(rest, ": ")
	if !ok || !hasPrefix(rest, "possible ") {
		return false
	}
	ev.Service, ev.Count = "apache", 1
	if a, ok := scan.Addr(addr); ok {
		ev.Addr, ev.Outcome, ev.Kind = a, Failure, Limited
	}
	return true
}

// bareWeb reads a line of a server's own log, and sets its time. A syslog
// message of a program that nobody knows is looked at too, when it is JSON or
// when the user named a format.
func bareWeb(p *Parser, line []byte, ev *Event) bool {
	if len(line) == 0 {
		return false
	}
	ok := false
	switch {
	case p.web.format != nil:
		ok = p.formatted(line, ev)
	case line[0] != '{' && line[len(line)-1] == '}' && p.time != 0 && behindHeader(line) != nil:
		p.inner = p.tag != nil
		ok = jsonLog(p, behindHeader(line), ev)
	default:
		ok = bareAny(p, line, ev)
	}
	if !ok {
		*ev = Event{Fields: ev.Fields[:0]}
	}
	return ok
}

// behindHeader returns the object that ends a line behind a stamp, a host and
// perhaps a tag, which senders of JSON through syslog write (RFC 3164 without a
// tag, Fastly's); nil when anything else stands before it.
func behindHeader(line []byte) []byte {
	b := line
	if b[0] == '<' {
		b, _ = priority(b)
	}
	i := bytes.IndexByte(b[:min(len(b), 160)], '{')
	if i < 16 || b[i-1] != ' ' || !mayStamp(b) {
		return nil
	}
	_, head := scan.Word(b[:i-1])
	if b[3] == ' ' { // "Nov 20 09:23:10"
		head = b[min(i, 15):i]
	}
	words := 0
	for head = scan.TrimLeft(head); len(head) > 0; words++ {
		var w []byte
		w, head = scan.Word(head)
		head = scan.TrimLeft(head)
		w, _ = scan.Before(w, ":")
		if name, pid, ok := scan.Cut(w, "["); ok && words > 0 {
			if pid, ok = scan.Before(pid, "]"); !ok || !scan.Digits(pid) {
				return nil
			}
			w = name
		}
		if len(w) == 0 || !hostWord(w) {
			return nil
		}
	}
	if words > 2 {
		return nil
	}
	return b[i:]
}

// formatted reads a line by the format that the user named, also behind a
// syslog header.
func (p *Parser) formatted(line []byte, ev *Event) bool {
	if p.web.format.match(p, line, ev) {
		return true
	}
	*ev = Event{Fields: ev.Fields[:0]}
	if !p.open(line, &p.envelope) || len(p.msg) == 0 {
		return false
	}
	p.inner = p.tag != nil
	return p.web.format.match(p, p.msg, ev)
}

// bareAny reads a line of any web server's error or access log.
func bareAny(p *Parser, line []byte, ev *Event) bool {
	return bareError(p, line, ev) || accessAny(p, line, ev)
}

// bareError decides by the first bytes which server's error log a line may be
// of.
func bareError(p *Parser, line []byte, ev *Event) bool {
	if len(line) < 12 {
		return false
	}
	switch c := line[0]; {
	case c == '[':
		return apacheError(p, line, ev)
	case c-'0' <= 9 && (line[4] == '/' || line[4] == '-'):
		return nginxError(p, line, ev) || lighttpdError(p, line, ev)
	}
	return false
}

// accessAny reads a line of an access log or a structured record. In the log of
// a server that also has an error log, only its own formats are tried: what
// clients of others' choose could stand there on a line of its own.
func accessAny(p *Parser, line []byte, ev *Event) bool {
	if len(line) < 12 {
		return false
	}
	switch c := line[0]; {
	case c == '{':
		return jsonLog(p, line, ev)
	case p.bind.strict:
		return accessLog(p, line, ev)
	case c == '[', c-'0' <= 9 && (line[4] == '/' || line[4] == '-'):
		return presets(p, line, ev)
	case c == '1' && line[10] == '.' && squidLog(p, line, ev):
		return true
	}
	// HAProxy's first: what it writes behind an IPv6 address is a port.
	return haproxyLog(p, line, ev) || accessLog(p, line, ev) || presets(p, line, ev) || logfmtLog(p, line, ev)
}
