package parse

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/scan"
)

// jsonLog reads one JSON object a line: an access log, or an application that
// tells of a login and names the client in a field of its own.
func jsonLog(p *Parser, line []byte, ev *Event) bool {
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	r := p.newRecord()
	end := r.walkObject(line, 0, atTop, r.root(), 0)
	if end < 0 || skipSpace(line, end) != len(line) {
		return false
	}
	return r.known(p, line, ev) || r.event(p, ev)
}

// known lets the packs read a record of an application before it is guessed
// at. The proxies' access logs are nobody else's.
func (r *record) known(p *Parser, line []byte, ev *Event) bool {
	if p.tag != nil || r.fm != nil || r.service(p) != "http" {
		return false
	}
	if p.bareByPack(line, ev) {
		return true
	}
	*ev = Event{Fields: ev.Fields[:0]}
	return false
}

// event makes an event of a record; it reports false for one that says
// nothing about a client.
func (r *record) event(p *Parser, ev *Event) bool {
	if r.vals[slotStatus] == nil {
		r.vals[slotStatus] = r.vals[slotTraefik]
	}
	if !r.client(ev) {
		return r.fm == nil && r.inMessage(p, ev)
	}
	ev.Service = r.service(p)
	if ev.Service == "caddy" && r.vals[slotUser] == nil {
		r.vals[slotUser] = r.vals[slotUserID]
	}
	if ev.User = orNone(p.unescaped(r.vals[slotUser])); string(ev.User) == "--" {
		ev.User = nil // Nextcloud's
	}
	ev.Agent = p.unescaped(r.vals[slotAgent])
	ev.Referrer = orNone(p.unescaped(r.vals[slotReferrer]))
	ev.Host = p.unescaped(r.vals[slotHost])
	ev.Count = 1
	r.request(p, ev)
	r.stamp(p, ev)
	if !r.judge(p, ev) && r.fm == nil {
		return false
	}
	r.fields(p, ev)
	header := p.unescaped(r.vals[slotHeader])
	if r.splitHeader {
		header = nil
	}
	p.opt.Client.set(ev, header)
	return true
}

// client finds the address. Caddy tells its peer and, from a trusted proxy's
// header, the client, which holds.
func (r *record) client(ev *Event) bool {
	v := r.vals[slotClient]
	if v == nil {
		v = r.vals[slotAddr]
	}
	if e := r.vals[slotEnvoy]; e != nil {
		if v != nil && !sameAddr(v, e) {
			r.split = true
		}
		v = e
	}
	if r.split {
		return true
	}
	ev.Addr = addrOf(v)
	return ev.Addr.IsValid()
}

func sameAddr(a, b []byte) bool {
	x, ok1 := scan.AddrPort(a)
	y, ok2 := scan.AddrPort(b)
	if ok1 && ok2 {
		return x == y
	}
	return !ok2 || bytes.Equal(a, b)
}

// request reads a whole request line, or method and target apart.
func (r *record) request(p *Parser, ev *Event) {
	ev.Status = statusOf(r.vals[slotStatus])
	if line := r.vals[slotRequest]; line != nil {
		setRequest(ev, p.unescaped(line))
	}
	if m := p.unescaped(r.vals[slotMethod]); isMethod(upper(m)) {
		ev.Method = m
	}
	if uri := r.vals[slotURI]; uri != nil && ev.Path == nil {
		host := ev.Host
		setTarget(ev, p.unescaped(uri))
		if len(host) > 0 {
			ev.Host = host
		}
	}
}

// upper is m with its letters in upper case, in place: methods that some
// programs write in lower case.
func upper(m []byte) []byte {
	if len(m) > 0 && len(m) <= 32 && m[0]-'a' <= 25 {
		return bytes.ToUpper(m)
	}
	return m
}

// stamp reads a time as text or as seconds, milli-, micro- or nanoseconds.
func (r *record) stamp(p *Parser, ev *Event) {
	v := r.vals[slotTime]
	if len(v) == 0 {
		return
	}
	n, rest, ok := scan.Uint(v)
	if !ok || len(rest) > 0 && rest[0] != '.' || len(v) < 9 {
		if ns, _, ok := scan.Stamp(v, p.ref(), p.loc()); ok {
			ev.Time = ns
		} else if ns, _, ok := clfStamp(v, p.loc()); ok {
			ev.Time = ns
		}
		return
	}
	frac, _ := fraction(rest)
	switch {
	case n < 1e11:
		ev.Time = int64(n)*1e9 + frac
	case n < 1e14:
		ev.Time = int64(n) * 1e6
	case n < 1e17:
		ev.Time = int64(n) * 1e3
	default:
		ev.Time = int64(n)
	}
}

// appService names an application as the user does.
func (p *Parser) appService() string {
	if h := p.hint(); h != "" {
		return h
	}
	return "app"
}

func (r *record) service(p *Parser) string {
	switch {
	case r.vals[slotTraefik] != nil:
		return "traefik"
	case r.vals[slotEnvoy] != nil:
		return "envoy"
	case hasPrefix(r.vals[slotLogger], "http."):
		return "caddy"
	}
	return p.accessService()
}

// judge decides what the record tells of; false: of nothing we know.
func (r *record) judge(p *Parser, ev *Event) bool {
	said := Other
	if !p.bind.serves(p.opt.Service) {
		said = r.said()
	}
	if v := r.vals[slotOutcome]; v != nil {
		said = tells(v)
	}
	switch {
	case said != Other:
		ev.Outcome = said
		if ev.Service == "http" {
			ev.Service = p.appService()
		}
		if said == Failure && r.unknownUser() {
			ev.Kind = UnknownUser
		}
		return true
	case ev.Status > 0 && (ev.Method != nil || ev.Path != nil || r.vals[slotRequest] != nil):
		judgeStatus(ev)
		if ev.Status == 401 && r.vals[slotCredentials] != nil {
			ev.Outcome = Failure
		}
		return true
	}
	return false
}

// inMessage reads what Coraza, a firewall inside Caddy, writes into "msg":
// [client "A"] Coraza: Access denied …; and Traefik's TCP and UDP connections.
func (r *record) inMessage(p *Parser, ev *Event) bool {
	msg := r.vals[slotMessage]
	a, ok := netip.Addr{}, false
	if rest, is := scan.After(msg, `[client \"`); is && (p.bind.who == anybody || p.bind.family == "caddy") {
		var quoted, after []byte
		if quoted, after, is = scan.Cut(rest, `\"] Coraza: `); is {
			a, ok = scan.Addr(quoted)
			ev.Service = "coraza"
			if hasPrefix(after, "Access denied ") {
				ev.Outcome, ev.Kind = Failure, Forbidden
			}
		}
	}
	for _, head := range [...]string{"Handling TCP connection from ", "Handling UDP stream from "} {
		if rest, is := scan.After(msg, head); is && (p.bind.who == anybody || p.bind.family == "traefik") {
			who, _ := scan.Word(rest)
			a, ok = scan.AddrPort(who)
			ev.Service, ev.Kind = "traefik", Probe
		}
	}
	if !ok {
		return r.shipped(p, msg, ev)
	}
	ev.Addr, ev.Count = a, 1
	r.stamp(p, ev)
	p.opt.Client.set(ev, nil)
	return true
}

// shipped reads a line that a shipper of logs (Filebeat, Vector, Upsun) put
// into "message": an access log's, or `host tag: …` of a web server.
func (r *record) shipped(p *Parser, msg []byte, ev *Event) bool {
	if len(msg) < 40 || p.bind.who != anybody && p.opt.Service != AccessLog {
		return false // a program's message may be its client's
	}
	line := p.unescaped(msg)
	if accessLog(p, line, ev) || nginxError(p, line, ev) || apacheError(p, line, ev) {
		return true
	}
	head, _, ok := scan.Cut(line[:min(len(line), 128)], ": ")
	if !ok || bytes.IndexByte(head, '"') >= 0 {
		return false
	}
	_, tag := scan.LastWord(head)
	if i := bytes.IndexByte(tag, '['); i > 0 {
		tag = tag[:i]
	}
	s := webScanner(tag)
	return s != nil && s(p, line[len(head)+2:], ev)
}

// unescaped is a value without its escapes; what had some lives in the parser's
// memory until Reset.
func (p *Parser) unescaped(v []byte) []byte {
	i := bytes.IndexByte(v, '\\')
	if i < 0 {
		return v
	}
	start := len(p.web.scratch)
	p.web.scratch = unescape(append(p.web.scratch, v[:i]...), v[i:])
	return p.web.scratch[start:len(p.web.scratch):len(p.web.scratch)]
}
