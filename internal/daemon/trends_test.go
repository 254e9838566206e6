package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/ledger"
	"stoplog/internal/trend"
)

// TestNewBlocksAreCounted: a block that is renewed or lifted is not a new one.
func TestNewBlocksAreCounted(t *testing.T) {
	var r trends
	now := time.Date(2026, 11, 20, 9, 0, 30, 0, time.UTC)
	set := func(fresh bool) ledger.Change {
		return ledger.Change{Op: ledger.Set, New: fresh, Block: ledger.Block{Prefix: netip.MustParsePrefix("192.0.2.0/28")}}
	}
	r.read(now, 5, 3)
	r.read(now, 2, 1)
	r.blocked(now, []ledger.Change{set(true), set(false), {Op: ledger.Lift, New: true}})
	var got trend.Count
	r.Read(trend.Minute, trend.All, now.Truncate(time.Minute), 1, func(_ int, _ trend.Series, c trend.Count) { got = c })
	if want := (trend.Count{Lines: 7, Events: 4, Blocks: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestTrendsStay: the counts of the charts outlive a restart, by rule and by
// service.
func TestTrendsStay(t *testing.T) {
	dir := t.TempDir()
	auth := filepath.Join(dir, "auth.log")
	if err := os.WriteFile(auth, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	rules := quietRules + "sources: [{file: " + auth + ", service: sshd}]\n"
	x := startDaemon(t, dir, rules)
	x.until(t, "end of the log", func(s control.Status) bool { return s.State != "recovering" })
	var lines strings.Builder
	for i := range 6 {
		fmt.Fprintf(&lines, "%s host sshd[%d]: Failed password for invalid user admin from 192.0.2.7 port 4000 ssh2\n", time.Now().Format(time.RFC3339), i)
	}
	if err := os.WriteFile(auth, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	x.until(t, "block", func(s control.Status) bool { return s.Blocks == 1 })
	for _, when := range []string{"before", "after"} {
		for unit, long := range map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour} {
			got, err := x.c.Trend(t.Context(), control.TrendQuery{Unit: unit, From: time.Now().Add(-3 * long), Bins: 4})
			if err != nil {
				t.Fatal(err)
			}
			for name, ss := range map[string][]control.TrendSeries{"": got.All, "ssh-login": got.Rules, "sshd": got.Services} {
				if len(ss) != 1 || ss[0].Name != name || sum(ss[0].Events) != 6 || sum(ss[0].Breaches) != 1 || sum(ss[0].Blocks) != 1 {
					t.Errorf("%s the restart, by %s: %q has %+v, want 6 events, 1 breach and 1 block", when, unit, name, ss)
				}
			}
		}
		x.stop()
		x = startDaemon(t, dir, rules)
	}
	for _, q := range []control.TrendQuery{{Unit: "week", Bins: 1}, {Unit: "day", Bins: 401}, {Unit: "day"}} {
		if _, err := x.c.Trend(t.Context(), q); !errors.Is(err, control.ErrBadOrder) {
			t.Errorf("%+v: got error %v, want that of an invalid request", q, err)
		}
	}
}

func sum(ns []uint32) (n uint32) {
	for _, x := range ns {
		n += x
	}
	return n
}

// until waits for a status.
func (x *live) until(t *testing.T, what string, ok func(control.Status) bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(x.status(t)); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within 30 s: %+v", what, x.status(t))
		}
	}
}
