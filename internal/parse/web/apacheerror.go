package web

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// Apache's error log (server/log.c, manual ErrorLogFormat), 2.2 and 2.4:
//
//	[Sat Jun 01 02:17:42 2013] [error] [client A] message
//	[Sat Jun 01 02:17:42.123456 2013] [core:error] [pid 1:tid 2] (36)errno: [client A:port] AH00036: message
//
// Through syslog the stamp is missing. Only the server writes before the first
// "[client ", and only that one is read; what follows it may hold anything.

// apacheError reads a line of it, with its stamp.
func (w *Reader) apacheError(env *event.Message, line []byte, ev *event.Event) bool {
	if len(line) < 30 || line[0] != '[' || line[4] != ' ' || line[8] != ' ' {
		return false
	}
	ns, rest, ok := apacheStamp(env, line[1:])
	if !ok || !w.apacheTagged(env, scan.TrimLeft(rest), ev) {
		return false
	}
	ev.Time = ns
	return true
}

// apacheStamp reads "Sat Jun 01 02:17:42.123456 2013] ".
func apacheStamp(env *event.Message, b []byte) (ns int64, rest []byte, ok bool) {
	if len(b) >= 25 && monthOf(b[4:7]) > 0 && b[10] == ' ' && b[13] == ':' && b[16] == ':' {
		frac, tail := fraction(b[19:])
		if len(tail) >= 6 && tail[0] == ' ' && tail[5] == ']' {
			year := num2(tail[1:])*100 + num2(tail[3:])
			ns, ok = localStamp(env, year, monthOf(b[4:7]), num2(b[8:]), num2(b[11:]), num2(b[14:]), num2(b[17:]))
			return ns + frac, tail[6:], ok
		}
	}
	if ns, rest, ok = scan.Stamp(b, env.Ref, env.Loc); ok {
		rest, ok = scan.After(rest, "]")
	}
	return ns, rest, ok
}

// apacheTagged reads what follows the stamp.
func (w *Reader) apacheTagged(env *event.Message, b []byte, ev *event.Event) bool {
	limits := false
	boxes := 0
	for ; boxes < 4; boxes++ {
		box, rest, ok := apacheBox(b)
		if !ok {
			break
		}
		limits = limits || scan.HasPrefix(box, "evasive") || scan.HasPrefix(box, "qos:")
		b = rest
	}
	if boxes == 0 {
		return false
	}
	ev.Service, ev.Count = "apache", 1
	addr, msg, ok := apacheClient(b)
	if !ok {
		return true
	}
	ev.Addr = addr
	apacheMessage(msg, ev)
	if limits && ev.Outcome == event.Failure {
		ev.Kind = event.Limited
	}
	w.client.set(ev, nil)
	return true
}

// apacheBox reads "[error] ", "[core:error] ", "[pid 1:tid 2] " or
// "[remote A:port] ".
func apacheBox(b []byte) (box, rest []byte, ok bool) {
	if len(b) < 4 || b[0] != '[' || scan.HasPrefix(b, "[client ") {
		return nil, b, false
	}
	box, rest, ok = scan.Cut(b[1:], "] ")
	if !ok || len(box) > 64 {
		return nil, b, false
	}
	if scan.HasPrefix(box, "pid ") || scan.HasPrefix(box, "remote ") || scan.HasPrefix(box, "tid ") {
		return box, rest, true
	}
	level := box
	if i := bytes.LastIndexByte(box, ':'); i >= 0 {
		level = box[i+1:]
	}
	switch string(level) {
	case "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug":
	default:
		if !scan.HasPrefix(level, "trace") {
			return nil, b, false
		}
	}
	return box, rest, true
}

// apacheClient skips "file.c(12): " and "(36)File name too long: " and reads
// "[client A:port] ".
func apacheClient(b []byte) (addr netip.Addr, msg []byte, ok bool) {
	before, _, found := scan.Cut(b[:min(len(b), 300)], "[client ")
	if found && len(before) > 0 {
		if !apacheErrno(before) {
			return addr, nil, false
		}
		b = b[len(before):]
	}
	b, ok = scan.After(b, "[client ")
	if !ok {
		return addr, nil, false
	}
	i := scan.Index(b, "] ")
	if i < 0 {
		return addr, nil, false
	}
	if addr, ok = scan.AddrPort(b[:i]); !ok {
		return netip.Addr{}, nil, false
	}
	msg = b[i+2:]
	if rest, again := scan.After(msg, "[client "); again {
		if _, rest, again = scan.AddrPrefix(rest); again {
			if rest, again = scan.After(rest, "] "); again {
				msg = rest
			}
		}
	}
	return addr, msg, true
}

// apacheErrno reports whether b is only "file.c(12): " or "(36)text: ", which
// the server itself writes before the client.
func apacheErrno(b []byte) bool {
	if len(b) < 5 || !scan.HasPrefix(b[len(b)-2:], ": ") {
		return false
	}
	if i := scan.Index(b, ".c("); i > 0 && i < 40 {
		if _, rest, ok := scan.Uint(b[i+3:]); ok && scan.HasPrefix(rest, "): ") {
			b = rest[3:]
		}
	}
	if len(b) == 0 {
		return true
	}
	if b[0] != '(' {
		return false
	}
	_, rest, ok := scan.Uint(b[1:])
	if !ok || len(rest) < 3 || rest[0] != ')' {
		return false
	}
	for _, c := range rest[1 : len(rest)-2] {
		if (c|0x20)-'a' > 25 && c != ' ' && c-'0' > 9 && bytes.IndexByte([]byte("'-/,()"), c) < 0 {
			return false
		}
	}
	return true
}
