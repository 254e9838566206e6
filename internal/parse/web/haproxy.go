package web

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// HAProxy (Configuration Manual, chapter 8, "Logging"): the TCP, HTTP, HTTPS
// and connection error formats. All begin with the client and its port:
//
//	192.0.2.1:58444 [14/Nov/2015:22:45:25.439] main app/s1 19/0/1/0/40 403 51 - - PR-- 3/3/0/0/0 0/0 {…} "GET / HTTP/1.1"
//	192.0.2.1:58444 [14/Nov/2015:22:45:25.439] main app/s1 0/0/50 212 -- 3/3/0/0/0 0/0
//	192.0.2.1:58444 [14/Nov/2015:22:45:25.439] main/1: SSL handshake failure
//
// The CLF format is read with the other access logs.

func (w *Reader) haproxyLog(env *event.Message, msg []byte, ev *event.Event) bool {
	word, rest := scan.Word(msg)
	addr, ok := haproxyClient(word)
	if !ok || len(rest) < 22 || rest[0] != '[' {
		return false
	}
	ns, rest, ok := clfStamp(rest[1:], env.Loc)
	if !ok || !scan.HasPrefix(rest, "] ") {
		return false
	}
	ev.Service, ev.Time, ev.Addr, ev.Count = "haproxy", ns, addr, 1
	haproxySession(rest[2:], ev)
	w.client.set(ev, nil) // which headers are captured, the line does not say
	return true
}

// haproxyClient reads "A:port". The port is always there, so that what stands
// behind the last colon is never part of an IPv6 address.
func haproxyClient(word []byte) (netip.Addr, bool) {
	i := bytes.LastIndexByte(word, ':')
	if i < 0 || !scan.Digits(word[i+1:]) || len(word)-i > 6 {
		return netip.Addr{}, false
	}
	return scan.Addr(word[:i])
}

// haproxySession reads what follows the stamp.
func haproxySession(b []byte, ev *event.Event) {
	_, b = scan.Word(b) // frontend
	server, b := scan.Word(b)
	if bytes.IndexByte(server, '/') < 0 {
		ev.Kind = event.Probe // a connection error
		return
	}
	timers, b := scan.Word(b)
	status, b := scan.Word(b)
	if bytes.Count(timers, []byte{'/'}) < 4 {
		haproxyTCP(b, ev) // what looked like a status was the bytes
		return
	}
	if len(status) == 3 {
		ev.Status = statusOf(status)
	}
	_, b = scan.Word(b) // bytes
	_, b = scan.Word(b) // captured request cookie
	_, b = scan.Word(b) // captured response cookie
	state, b := scan.Word(b)
	if i := bytes.IndexByte(b, '"'); i >= 0 {
		if request, _, ok := quoted(b[i:]); ok {
			setRequest(ev, request)
		} else {
			setRequest(ev, b[i+1:])
		}
	}
	haproxyJudge(ev, state)
}

// haproxyTCP is a connection that carried no request that HAProxy read. What
// follows its bytes is the state.
func haproxyTCP(b []byte, ev *event.Event) {
	ev.Kind = event.Probe
	if len(b) > 2 && b[0] == 'P' && b[1] == 'R' {
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	}
}

// haproxyJudge tells a refusal by HAProxy itself from a status that a server
// gave: its state begins with P, with PT for the tarpit, or, since version 2.4
// for the answers that ask for a password, with LR.
func haproxyJudge(ev *event.Event, state []byte) {
	judgeStatus(ev)
	if len(state) < 2 || state[0] != 'P' && state[0] != 'L' {
		return
	}
	switch {
	case ev.Status == 401 || ev.Status == 407:
		ev.Outcome = event.Failure
	case ev.Status == 403 || state[1] == 'T':
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	case ev.Status == 429:
		ev.Outcome, ev.Kind = event.Failure, event.Limited
	}
}
