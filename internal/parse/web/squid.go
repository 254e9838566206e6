package web

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// squidLog reads Squid's native access.log (squid.conf.documented, logformat
// squid), and the same through syslog:
//
//	1386543323.000      4 192.0.2.1 TCP_DENIED/403 4099 GET http://… user HIER_NONE/- text/html
//
// The address stands before anything that a client chooses.
func (w *Reader) squidLog(env *event.Message, line []byte, ev *event.Event) bool {
	secs, rest, ok := scan.Uint(line)
	if !ok || len(rest) < 5 || rest[0] != '.' {
		return false
	}
	millis, rest, ok := scan.Uint(rest[1:])
	if !ok || millis > 999 {
		return false
	}
	if _, rest, ok = scan.Uint(scan.TrimLeft(rest)); !ok {
		return false
	}
	client, rest := scan.Word(scan.TrimLeft(rest))
	result, rest := scan.Word(rest)
	action, code, ok := scan.Cut(result, "/")
	if !ok || len(code) != 3 || !scan.Digits(code) {
		return false
	}
	size, rest := scan.Word(scan.TrimLeft(rest))
	if !scan.Digits(size) {
		return false
	}
	ev.Service, ev.Time, ev.Count = "squid", int64(secs)*1e9+int64(millis)*1e6, 1
	ev.Addr = addrOf(client)
	ev.Status = statusOf(code)
	squidRequest(rest, ev)
	squidJudge(action, ev)
	w.client.set(ev, nil)
	return true
}

// squidRequest reads "method URL user hierarchy/peer type". Squid escapes
// spaces in all of them.
func squidRequest(b []byte, ev *event.Event) {
	method, b := scan.Word(b)
	url, b := scan.Word(b)
	user, _ := scan.Word(b)
	ev.User = orNone(user)
	if !isMethod(method) {
		return
	}
	ev.Method = method
	if bytes.HasPrefix(url, []byte("error:")) {
		ev.Path = url
		return
	}
	setTarget(ev, url)
}

// squidJudge distinguishes what Squid itself refused from what a server answered.
func squidJudge(action []byte, ev *event.Event) {
	none := scan.HasPrefix(action, "NONE")
	denied := scan.Has(action, "DENIED")
	switch {
	case denied && (ev.Status == 407 || ev.Status == 401):
		if len(ev.User) > 0 {
			ev.Outcome = event.Failure
		}
	case denied, none && (ev.Status == 403 || ev.Status == 405):
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	}
}
