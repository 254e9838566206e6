package mail

import (
	"net/netip"
	"strings"
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
	for _, s := range smtpdSessions {
		text := s.text
		if s.where {
			text += "RCPT from "
		}
		wantForm(t, postfixSMTPD, text+"a.example["+peer+"]", s.outcome, s.kind)
	}
	for _, s := range postscreens {
		text := s.text
		if s.numbers {
			text += "3 after 1.5 from "
		}
		wantForm(t, postscreen, text+"["+peer+"]:4711", s.outcome, s.kind)
	}
	for _, f := range eximForms {
		wantForm(t, exim, f.text+"(a) ["+peer+"]:4711 why", f.outcome, f.kind)
	}
	for _, v := range dovecotVerdicts {
		wantForm(t, dovecot, "auth: sql(u,"+peer+",<s>): "+v.text+" x", event.Failure, v.kind)
	}
}

func TestFailedOf(t *testing.T) {
	for in, want := range map[string]int{
		"0/2": 2, "1/3": 2, "2/2": 0, "1": 0, "3/1": 0, "": 0, "0/99999999": 0, "0/2x": 0, "a/b": 0,
	} {
		if got := failedOf([]byte(in)); got != want {
			t.Errorf("%q: got %d, want %d", in, got, want)
		}
	}
}

func TestCommandWords(t *testing.T) {
	for in, want := range map[string]bool{
		"RCPT ": true, "END-OF-MESSAGE ": true, "DATA (12 bytes) ": true, "rcpt ": false, "RCPT": false, "": false,
		" ": false, "RCPT x ": false, "DATA (12 bytes": false, strings.Repeat("A", 60) + " ": false,
	} {
		if got := commandWords([]byte(in)); got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

func TestEximID(t *testing.T) {
	for in, want := range map[string]bool{
		"1xULqc-00002X-2O": true, "1xULqc-00000000000-2Ox4": true, "1xULqc-00002X-2": false, "2026-11-20 10:27": false,
		"[1234567890123]:": false, "": false,
	} {
		if got := eximID([]byte(in)); got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}
