package web

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// Suhosin (log.c), a guard inside PHP, through syslog, a web server's error
// log or its own file:
//
//	ALERT - text about variable 'V' (attacker 'A', file 'F', line 161)
//
// V is the client's; what it wrote in parentheses at the end is not, so that
// only the last "(attacker" with the fixed rest behind it is read.

const suhosinCut = 3900

func (w *Reader) suhosinLog(env *event.Message, msg []byte, ev *event.Event) bool {
	alert, ok := suhosinIn(msg)
	if !ok {
		return false
	}
	ev.Service, ev.Count = "suhosin", 1
	suhosinAlert(alert, ev)
	w.client.set(ev, nil)
	return true
}

// suhosinIn finds the alert behind the server's own words.
func suhosinIn(msg []byte) (alert []byte, ok bool) {
	for _, head := range [...]string{"FastCGI-stderr: ", "FastCGI-stderr:"} {
		if rest, is := scan.After(msg, head); is {
			msg = rest
			break
		}
	}
	for _, level := range [...]string{"ALERT", "ALERT-SIMULATION"} {
		if rest, is := scan.After(msg, level); is && scan.HasPrefix(rest, " - ") {
			return rest[3:], true
		}
	}
	return msg, false
}

func suhosinAlert(b []byte, ev *event.Event) {
	_, tail, ok := scan.Last(b, " (attacker '")
	if !ok || len(b) >= suhosinCut {
		return
	}
	a, rest, ok := scan.AddrPrefix(tail)
	if !ok {
		return
	}
	file, ok := scan.After(rest, "', file '")
	if !ok {
		return
	}
	i := bytes.IndexByte(file, '\'')
	if i < 0 || !suhosinEnd(file[i+1:]) {
		return
	}
	ev.Addr, ev.Outcome, ev.Kind = a, event.Failure, event.Forbidden
}

// suhosinEnd reads ")" or ", line 161)".
func suhosinEnd(b []byte) bool {
	if rest, ok := scan.After(b, ", line "); ok {
		_, b, ok = scan.Uint(rest)
		if !ok {
			return false
		}
	}
	return len(b) == 1 && b[0] == ')'
}
