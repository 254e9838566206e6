package db

import (
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// Lines of one LDAP connection: the first two teach address and user.
const (
	slapdAccept = 1 + iota
	slapdResult
)

// slapd reads OpenLDAP's statslog (servers/slapd/connection.c, bind.c,
// result.c): "conn=1022 fd=21 ACCEPT from IP=a:45011 (IP=0.0.0.0:636)", "conn=1022
// op=1 BIND dn="…" method=128", "conn=1022 op=1 RESULT tag=97 err=49 text=".
// Numbers of connections begin again with each process.
func slapd(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "conn=")
	id, m, ok2 := scan.CutDigits(m)
	if !ok || !ok2 || len(m) == 0 || m[0] != ' ' {
		return false
	}
	_, m = scan.Word(m[1:]) // fd=21, op=1
	if from, ok := scan.After(m, "ACCEPT from IP="); ok {
		peer, _ := scan.Word(from)
		a, ok := scan.AddrPort(peer)
		if !ok {
			return false
		}
		ev.Set("slapd", event.Other, event.Plain, a)
		ev.Class = slapdAccept
	} else if dn, ok := scan.After(m, `BIND dn="`); ok {
		ev.Set("slapd", event.Other, event.Plain, netip.Addr{})
		ev.User, _, _ = scan.Cut(dn, `" `)
		ev.Class = slapdAccept
	} else if r, ok := scan.After(m, "RESULT tag=97 err="); ok {
		if code, _, _ := scan.CutDigits(r); !scan.OneOf(code, "49", "48") {
			return false
		}
		ev.Set("slapd", event.Failure, event.Plain, netip.Addr{})
		ev.Class = slapdResult
	} else {
		return false
	}
	ev.Conn = event.ConnID("slapd", id) ^ event.ConnID("", env.PID) | 1
	return true
}

// SlapdOwn reads what slapd -d writes: "6b0020cc.1fd8a469 0x7f51d127b200
// conn=1000 op=0 RESULT…", where the first word is the time in hexadecimal.
func SlapdOwn(env *event.Message, line []byte, ev *event.Event) bool {
	w, rest := scan.Word(line)
	if len(w) < 8 {
		return false
	}
	var sec int64
	for _, c := range w[:8] {
		switch {
		case c-'0' <= 9:
			sec = sec<<4 | int64(c-'0')
		case c-'a' <= 5:
			sec = sec<<4 | int64(c-'a'+10)
		default:
			return false
		}
	}
	if len(w) > 8 && w[8] != '.' {
		return false
	}
	if h, ok := scan.After(rest, "0x"); ok {
		_, rest = scan.Word(h)
	}
	if !slapd(env, rest, ev) {
		return false
	}
	ev.Time = sec * 1e9
	return true
}
