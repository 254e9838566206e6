package db

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// Lines of one MongoDB connection; those of the first class teach the address.
const (
	mongoConnect = 1 + iota
	mongoFailure
)

// mongodb reads mongod's log before 4.4 behind its stamp ("I ACCESS   [conn1]
// …") and, since then, its JSON (src/mongo/db/auth, log ids 20249, 20250,
// 5286306, 5286307).
func mongodb(env *event.Message, msg []byte, ev *event.Event) bool {
	if len(msg) > 0 && msg[0] == '{' {
		return MongoJSON(env, msg, ev)
	}
	i := bytes.IndexByte(msg, '[')
	if i < 0 || i > 16 {
		return false
	}
	ctx, m, ok := scan.Cut(msg[i+1:], "] ")
	if !ok || len(ctx) > 40 {
		return false
	}
	m = scan.TrimLeft(m)
	if string(ctx) == "initandlisten" || string(ctx) == "listener" || string(ctx) == "thread1" {
		return mongoAccepted(m, ev)
	}
	n, ok := scan.After(ctx, "conn")
	if !ok || !scan.Digits(n) {
		return false
	}
	if rest, ok := scan.After(m, "end connection "); ok {
		peer, rest := scan.Word(rest)
		a, ok := scan.AddrPort(peer)
		if !ok || len(rest) == 0 {
			return false
		}
		// Class 0: it brings the address, and begins nothing.
		return mongoTell(ev, n, 0, event.Other, a)
	}
	return mongoText(n, m, ev)
}

func mongoTell(ev *event.Event, conn []byte, class uint8, o event.Outcome, a netip.Addr) bool {
	ev.Set("mongodb", o, event.Plain, a)
	ev.Conn, ev.Class = event.ConnID("mongodb", conn), class
	return true
}

// mongoAccepted reads "connection accepted from a:58774 #2261 (1 connection
// now open)".
func mongoAccepted(m []byte, ev *event.Event) bool {
	m, ok := scan.After(m, "connection accepted from ")
	peer, m := scan.Word(m)
	a, ok2 := scan.AddrPort(peer)
	m, ok3 := scan.After(m, "#")
	n, _, ok4 := scan.CutDigits(m)
	return ok && ok2 && ok3 && ok4 && mongoTell(ev, n, mongoConnect, event.Other, a)
}

// mongoText reads "Failed to authenticate u@db with mechanism m: why" (2.x, 3.0)
// and "SCRAM-SHA-1 authentication failed for u on db from client a:port ; why"
// (3.2 to 4.2), whose user and reason are the client's: all clients that it
// names must be one.
func mongoText(conn, m []byte, ev *event.Event) bool {
	if u, ok := scan.After(m, "Failed to authenticate "); ok {
		mongoTell(ev, conn, mongoFailure, event.Failure, netip.Addr{})
		ev.User, _, _ = scan.Cut(u, " with mechanism ")
		mongoKind(m, ev)
		return true
	}
	mech, rest := scan.Word(m)
	o, u := event.Failure, rest
	u, ok := scan.After(rest, "authentication failed for ")
	if !ok {
		if u, ok = scan.After(m, "Successfully authenticated as principal "); !ok || len(mech) > 32 {
			return false
		}
		o = event.Success
	}
	a, ok := mongoClients(m)
	if !ok {
		return false
	}
	mongoTell(ev, conn, mongoFailure, o, a)
	ev.User, _, _ = scan.Cut(u, " on ")
	mongoKind(m, ev)
	return true
}

func mongoKind(m []byte, ev *event.Event) {
	if ev.Outcome == event.Failure && scan.Has(m, "UserNotFound") {
		ev.Kind = event.UnknownUser
	}
}

func mongoClients(m []byte) (a netip.Addr, ok bool) {
	for {
		_, rest, more := scan.Cut(m, " from client ")
		if !more {
			return a, ok
		}
		m = rest
		w, _ := scan.Word(rest)
		found, good := scan.AddrPort(w)
		if !good {
			continue
		}
		if ok && found != a {
			return a, false
		}
		a, ok = found, true
	}
}

// MongoJSON reads {"t":{"$date":"…"},"s":"I","c":"ACCESS","id":20249,"ctx":
// "conn1","msg":"Authentication failed","attr":{…"principalName":"u",…
// "remote":"a:port",…}}. Texts of the client have their quotes escaped, so a
// key is one only behind "," or "{".
func MongoJSON(env *event.Message, line []byte, ev *event.Event) bool {
	m, ok := scan.After(line, `{"t":{"$date":"`)
	if !ok {
		return false
	}
	if ns, _, ok := scan.Stamp(m, env.Ref, env.Loc); ok {
		ev.Time = ns
	}
	head, attr, ok := scan.Cut(m, `,"attr":{`)
	text := jsonText(head, "msg")
	remote := jsonText(attr, "remote")
	if !ok || remote == nil && jsonText(attr, "client") == nil {
		return false
	}
	if remote == nil {
		remote = jsonText(attr, "client")
	}
	a, ok := scan.AddrPort(remote)
	if !ok {
		return false
	}
	ev.Set("mongodb", event.Other, event.Plain, a)
	switch string(text) {
	case "Authentication failed", "Failed to authenticate":
		ev.Outcome = event.Failure
	case "Authentication succeeded", "Successfully authenticated":
		ev.Outcome = event.Success
	case "Connection accepted":
		return true
	default:
		return false
	}
	if ev.User = jsonText(attr, "principalName"); ev.User == nil {
		ev.User = jsonText(attr, "user")
	}
	mongoKind(attr, ev)
	return true
}

// jsonText returns the string that belongs to key in b, raw, nil when there is
// none. A quote inside a string is escaped, so that `"key":"` behind a comma
// or brace cannot be part of one.
func jsonText(b []byte, key string) []byte {
	for off := 0; ; {
		i := scan.Index(b[off:], key)
		if i < 0 {
			return nil
		}
		at := off + i
		off = at + len(key)
		if at < 1 || b[at-1] != '"' || at > 1 && b[at-2] != ',' && b[at-2] != '{' && b[at-2] != ' ' {
			continue
		}
		rest, ok := scan.After(b[off:], `":"`)
		if !ok {
			continue
		}
		for j := 0; j < len(rest); j++ {
			if rest[j] == '\\' {
				j++
			} else if rest[j] == '"' {
				return rest[:j]
			}
		}
		return nil
	}
}
