package web

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/record"
	"stoplog/internal/parse/scan"
)

// JSON reads one JSON object a line: an access log, or an application that
// reports a login and names the client in a field of its own.
func (w *Reader) JSON(env *event.Message, line []byte, ev *event.Event) bool {
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	r := w.newRecord()
	end := r.walkObject(line, 0, atTop, r.root(), 0)
	if end < 0 || record.SkipSpace(line, end) != len(line) {
		return false
	}
	return r.known(w, env, line, ev) || r.event(w, env, ev)
}

// known lets the packs read a record of an application before it is guessed
// at. The proxies' access logs are nobody else's.
func (r *entry) known(w *Reader, env *event.Message, line []byte, ev *event.Event) bool {
	if env.Tag != nil || r.fm != nil || r.service(w, env) != "http" {
		return false
	}
	if w.packs != nil && w.packs(line, ev) {
		return true
	}
	*ev = event.Event{Fields: ev.Fields[:0]}
	return false
}

// event makes an event of a record; it reports false for one that says
// nothing about a client.
func (r *entry) event(w *Reader, env *event.Message, ev *event.Event) bool {
	if r.vals[slotStatus] == nil {
		r.vals[slotStatus] = r.vals[slotTraefik]
	}
	if !r.client(ev) {
		return r.fm == nil && r.inMessage(w, env, ev)
	}
	ev.Service = r.service(w, env)
	if ev.Service == "caddy" && r.vals[slotUser] == nil {
		r.vals[slotUser] = r.vals[slotUserID]
	}
	if ev.User = orNone(w.unescaped(r.vals[slotUser])); string(ev.User) == "--" {
		ev.User = nil // Nextcloud's
	}
	ev.Agent = w.unescaped(r.vals[slotAgent])
	ev.Referrer = orNone(w.unescaped(r.vals[slotReferrer]))
	ev.Host = w.unescaped(r.vals[slotHost])
	ev.Count = 1
	r.request(w, ev)
	r.stamp(env, ev)
	if !r.judge(w, env, ev) && r.fm == nil {
		return false
	}
	r.fields(w, ev)
	header := w.unescaped(r.vals[slotHeader])
	if r.splitHeader {
		header = nil
	}
	w.client.set(ev, header)
	return true
}

// client finds the address. Caddy tells its peer and, from a trusted proxy's
// header, the client, which holds.
func (r *entry) client(ev *event.Event) bool {
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
func (r *entry) request(w *Reader, ev *event.Event) {
	ev.Status = statusOf(r.vals[slotStatus])
	if line := r.vals[slotRequest]; line != nil {
		setRequest(ev, w.unescaped(line))
	}
	if m := w.unescaped(r.vals[slotMethod]); isMethod(upper(m)) {
		ev.Method = m
	}
	if uri := r.vals[slotURI]; uri != nil && ev.Path == nil {
		host := ev.Host
		setTarget(ev, w.unescaped(uri))
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
func (r *entry) stamp(env *event.Message, ev *event.Event) {
	v := r.vals[slotTime]
	if len(v) == 0 {
		return
	}
	n, rest, ok := scan.Uint(v)
	if !ok || len(rest) > 0 && rest[0] != '.' || len(v) < 9 {
		if ns, _, ok := scan.Stamp(v, env.Ref, env.Loc); ok {
			ev.Time = ns
		} else if ns, _, ok := clfStamp(v, env.Loc); ok {
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
func appService(env *event.Message) string {
	if h := env.Hint; h != "" {
		return h
	}
	return "app"
}

func (r *entry) service(w *Reader, env *event.Message) string {
	switch {
	case r.vals[slotTraefik] != nil:
		return "traefik"
	case r.vals[slotEnvoy] != nil:
		return "envoy"
	case scan.HasPrefix(r.vals[slotLogger], "http."):
		return "caddy"
	}
	return w.service(env)
}

// judge decides what the record reports; false: nothing we know.
func (r *entry) judge(w *Reader, env *event.Message, ev *event.Event) bool {
	said := event.Other
	if !w.serves {
		said = r.said()
	}
	if v := r.vals[slotOutcome]; v != nil {
		said = tells(v)
	}
	switch {
	case said != event.Other:
		ev.Outcome = said
		if ev.Service == "http" {
			ev.Service = appService(env)
		}
		if said == event.Failure && r.unknownUser() {
			ev.Kind = event.UnknownUser
		}
		return true
	case ev.Status > 0 && (ev.Method != nil || ev.Path != nil || r.vals[slotRequest] != nil):
		judgeStatus(ev)
		if ev.Status == 401 && r.vals[slotCredentials] != nil {
			ev.Outcome = event.Failure
		}
		return true
	}
	return false
}

// inMessage reads what Coraza, a firewall inside Caddy, writes into "msg":
// [client "A"] Coraza: Access denied …; and Traefik's TCP and UDP connections.
func (r *entry) inMessage(w *Reader, env *event.Message, ev *event.Event) bool {
	msg := r.vals[slotMessage]
	a, ok := netip.Addr{}, false
	if rest, is := scan.After(msg, `[client \"`); is && (w.sniff || w.family == "caddy") {
		var quoted, after []byte
		if quoted, after, is = scan.Cut(rest, `\"] Coraza: `); is {
			a, ok = scan.Addr(quoted)
			ev.Service = "coraza"
			if scan.HasPrefix(after, "Access denied ") {
				ev.Outcome, ev.Kind = event.Failure, event.Forbidden
			}
		}
	}
	for _, head := range [...]string{"Handling TCP connection from ", "Handling UDP stream from "} {
		if rest, is := scan.After(msg, head); is && (w.sniff || w.family == "traefik") {
			who, _ := scan.Word(rest)
			a, ok = scan.AddrPort(who)
			ev.Service, ev.Kind = "traefik", event.Probe
		}
	}
	if !ok {
		return r.shipped(w, env, msg, ev)
	}
	ev.Addr, ev.Count = a, 1
	r.stamp(env, ev)
	w.client.set(ev, nil)
	return true
}

// shipped reads a line that a shipper of logs (Filebeat, Vector, Upsun) put
// into "message": an access log's, or `host tag: …` of a web server.
func (r *entry) shipped(w *Reader, env *event.Message, msg []byte, ev *event.Event) bool {
	if len(msg) < 40 || !w.sniff && !w.any {
		return false // a program's message may be its client's
	}
	line := w.unescaped(msg)
	if w.accessLog(env, line, ev) || w.nginxError(env, line, ev) || w.apacheError(env, line, ev) {
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
	s := w.Scanner(Family(tag))
	return s != nil && s(env, line[len(head)+2:], ev)
}

// unescaped is a value without its escapes; what had some lives in the parser's
// memory until Reset.
func (w *Reader) unescaped(v []byte) []byte { return record.Text(v, &w.scratch) }
