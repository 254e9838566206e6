package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestKnownLogins(t *testing.T) {
	l := fresh(t, Options{})
	a := adr("192.0.2.1")
	l.Login("sshd", []byte("alice"), a, at(0).UnixNano(), true)
	l.Login("dovecot", []byte("alice"), a, at(5).UnixNano(), true)
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

// TestPruneAudit: no entry of the audit trail outlives the time that it may be
// kept, and none younger than three quarters of it goes.
func TestPruneAudit(t *testing.T) {
	dir := t.TempDir()
	l, _, err := Open(dir, at(0), Options{KeepAudit: 8 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 40 * 4 { // a quarter of an hour apart
		now := at(0).Add(time.Duration(i) * 15 * time.Minute)
		if _, err := l.BlockByHand(pfx("192.0.2.0/28"), time.Hour, "", "test", now); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, auditName), now, now); err != nil {
			t.Fatal(err)
		}
		l.PruneAudit(now)
		entries, err := History(dir, Query{Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		kept := now.Sub(entries[len(entries)-1].Time)
		if kept > 8*time.Hour || i > 40 && kept < 6*time.Hour-15*time.Minute {
			t.Fatalf("after %s: the oldest entry is %s old, want 6h to 8h", now.Sub(at(0)), kept)
		}
	}
}

// TestHistoryIsBookedAtTheLogsTime: what is found late in a log stands in the
// history at the time of its line, and what is only observed shows its prefix.
func TestHistoryIsBookedAtTheLogsTime(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	l.RecoveryDone(at(0))
	if _, err := l.BlockByHand(pfx("198.51.100.0/28"), 0, "", "root", at(80_000)); err != nil {
		t.Fatal(err)
	}
	l.Breach(breach("192.0.2.0/28", 3600), at(86_400))
	observed := breach("192.0.2.16/28", 7200)
	observed.Observe = true
	l.Breach(observed, at(86_400))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := History(dir, Query{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Event+" "+e.Prefix.String()+" "+e.When().Sub(at(0)).String())
	}
	want := []string{"block 198.51.100.0/28 22h13m20s", "tell 192.0.2.16/28 2h0m0s", "block 192.0.2.0/28 1h0m0s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if of, _ := History(dir, Query{Prefix: pfx("192.0.2.17/32")}); len(of) != 1 {
		t.Errorf("asked for the observed source, got %d entries, want 1", len(of))
	}
}
