package network

import (
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/parse/event"
)

const peer = "192.0.2.1"

// wantForm reads a message of a table, so that no entry is shadowed by another.
func wantForm(t *testing.T, read event.Scanner, text string, o event.Outcome, k event.Kind) {
	t.Helper()
	var ev event.Event
	if !read(&event.Message{PID: []byte("9"), Loc: time.UTC}, []byte(text), &ev) || ev.Outcome != o || ev.Kind != k || ev.Addr != netip.MustParseAddr(peer) {
		t.Errorf("%s\n got %s %s %v, want %s %s %s", text, ev.Outcome, ev.Kind, ev.Addr, o, k, peer)
	}
}

func TestEveryForm(t *testing.T) {
	for _, f := range openvpnForms {
		text := peer + ":4711 " + f.text + " x"
		if !f.reset {
			wantForm(t, openvpn, text, f.outcome, f.kind)
			continue
		}
		var ev event.Event
		if !openvpn(&event.Message{}, []byte(text), &ev) || ev.Addr.IsValid() || ev.Conn == 0 {
			t.Errorf("%s\n got %v, want a connection without an address", text, ev.Addr)
		}
	}
	for _, e := range asteriskEvents {
		wantForm(t, asterisk, `SECURITY[9] res_security_log.c: SecurityEvent="`+e.name+
			`",EventTV="x",Severity="Error",Service="PJSIP",EventVersion="1",AccountID="u",SessionID="",`+
			`LocalAddress="IPV4/UDP/192.0.2.2/5060",RemoteAddress="IPV4/UDP/`+peer+`/5061"`, e.outcome, e.kind)
	}
}

func TestOnlyAddr(t *testing.T) {
	for in, want := range map[string]string{
		"x' failed for '192.0.2.1:5060' - y":                            "192.0.2.1",
		"x' failed for '192.0.2.1' - ' failed for '192.0.2.1:1' - y":    "192.0.2.1",
		"x' failed for '192.0.2.1' - ' failed for '192.0.2.2:1' - y":    "",
		"x' failed for 'a' - ' failed for '[2001:db8::1]:5060' (callid": "2001:db8::1",
		"x' failed for '192.0.2.1":                                      "",
	} {
		a, ok := onlyAddr([]byte(in), "' failed for '", "'")
		if got := addrText(a, ok); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func addrText(a netip.Addr, ok bool) string {
	if !ok {
		return ""
	}
	return a.String()
}
