package ledger

import (
	"fmt"
	"testing"
	"time"
)

func TestKnownLogins(t *testing.T) {
	l := fresh(t, Options{})
	a := adr("192.0.2.1")
	l.Login("sshd", []byte("alice"), a, at(0).UnixNano())
	l.Login("dovecot", []byte("alice"), a, at(5).UnixNano())
	if got := fmt.Sprint(l.KnownLogins(a, at(10))); got != fmt.Sprint([]KnownLogin{{"dovecot", at(5)}, {"sshd", at(0)}}) {
		t.Errorf("got %s", got)
	}
	if got := l.KnownLogins(a, at(40*86400)); got != nil {
		t.Errorf("after forty days: got %v, want none", got)
	}
}

func TestUnblockExact(t *testing.T) {
	l := fresh(t, Options{})
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	l.Breach(breach("192.0.2.0/24", 0), at(0))
	lifted, err := l.UnblockExact(pfx("192.0.2.0/28"), "firewall", at(1))
	if got := changes(lifted.Changes); err != nil || got != "lift 192.0.2.0/28" {
		t.Errorf("got %s, %v", got, err)
	}
	if lifted, _ := l.UnblockExact(pfx("192.0.2.1/32"), "firewall", at(1)); len(lifted.Changes) != 0 {
		t.Errorf("of an address within a block: got %s, want nothing", changes(lifted.Changes))
	}
}

func TestNextAllowanceEnd(t *testing.T) {
	l := fresh(t, Options{})
	if got := l.NextAllowanceEnd(at(0)); !got.IsZero() {
		t.Errorf("of none: got %s", got)
	}
	for p, ttl := range map[string]time.Duration{"192.0.2.1/32": 0, "192.0.2.2/32": time.Hour, "192.0.2.3/32": time.Minute} {
		if _, err := l.Allow(pfx(p), ttl, "", "test", at(0)); err != nil {
			t.Fatal(err)
		}
	}
	for sec, want := range map[int]time.Time{0: at(60), 60: at(3600), 3600: {}} {
		if got := l.NextAllowanceEnd(at(sec)); !got.Equal(want) {
			t.Errorf("after %d s: got %s, want %s", sec, got, want)
		}
	}
}
