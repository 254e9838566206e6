package web

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/record"
	"stoplog/internal/parse/scan"
)

// logfmtLog reads a line of key=value pairs (brandur.org/logfmt; Go's
// log/slog.TextHandler, logrus), each value bare or a quoted string with
// escapes, and nothing but pairs: Traefik, Grafana, Authelia, Caddy…
func (w *Reader) logfmtLog(env *event.Message, line []byte, ev *event.Event) bool {
	r := w.newRecord()
	for rest := line; len(rest) > 0; {
		key, value, after, ok := record.Pair(rest)
		if !ok {
			return false
		}
		r.keep(atTop, r.root(), key, value)
		rest = after
	}
	return r.known(w, env, line, ev) || r.event(w, env, ev)
}

// Time reads the time of a line by the timestamp of an access log or by the keys
// of a JSON or logfmt record.
func Time(m *event.Message, line []byte) (int64, bool) {
	w := &Reader{}
	r := w.newRecord()
	if line[0] == '{' {
		if r.walkObject(line, 0, atTop, nil, 0) < 0 {
			return 0, false
		}
	} else {
		// Servers write the timestamp before the first thing that they quote.
		head, _, _ := bytes.Cut(line[:min(len(line), 1<<10)], []byte{'"'})
		if _, ns, _, ok := w.accessStamp(m, head); ok {
			return ns, true
		}
		if ns, ok := requestTime(m, line); ok {
			return ns, true
		}
		for rest := line; len(rest) > 0; {
			key, value, after, ok := record.Pair(rest)
			if !ok {
				return 0, false
			}
			r.keep(atTop, nil, key, value)
			rest = after
		}
	}
	var ev event.Event
	r.stamp(m, &ev)
	return ev.Time, ev.Time != 0
}

// requestTime reads the timestamp before the quoted request of an access log
// whose user holds a quote. If there are several, the client may have written
// one of them: then there is no time that can be believed.
func requestTime(m *event.Message, b []byte) (ns int64, ok bool) {
	b = b[:min(len(b), 1<<10)]
	for range 8 {
		_, rest, found := scan.Cut(b, "[")
		if !found {
			return ns, ok
		}
		b = rest
		at, rest, stamp := clfStamp(b, m.Loc)
		if !stamp {
			continue
		}
		if _, request := scan.After(rest, `] "`); !request {
			continue
		}
		if ok {
			return 0, false
		}
		ns, ok = at, true
	}
	return 0, false // more brackets than are looked at
}
