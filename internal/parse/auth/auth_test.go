package auth

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
	for _, f := range proftpdForms {
		wantForm(t, proftpd, "mx (a.example["+peer+"]) - "+f.text+" x", f.outcome, f.kind)
	}
}
