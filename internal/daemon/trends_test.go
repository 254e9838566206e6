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
)

func TestLastHour(t *testing.T) {
	var r trends
	begin := time.Date(2026, 11, 20, 9, 0, 30, 0, time.UTC)
	set := func(fresh bool) ledger.Change {
		return ledger.Change{Op: ledger.Set, New: fresh, Block: ledger.Block{Prefix: netip.MustParsePrefix("192.0.2.0/28")}}
	}
	r.read(begin, 5, 3)
	r.read(begin.Add(20*time.Second), 2, 1)
	r.blocked(begin, []ledger.Change{set(true), set(false), {Op: ledger.Lift, New: true}})
	r.read(begin.Add(time.Minute), 1, 1)
	for _, c := range []struct {
		name  string
		at    time.Time
		index int
		want  control.Minute
	}{
		{"the first minute", begin.Add(time.Minute), 58, control.Minute{Lines: 7, Events: 4, Blocks: 1}},
		{"the minute that runs", begin.Add(time.Minute), 59, control.Minute{Lines: 1, Events: 1}},
		{"a quiet one", begin.Add(5 * time.Minute), 59, control.Minute{}},
		{"the hour's oldest", begin.Add(59 * time.Minute), 0, control.Minute{Lines: 7, Events: 4, Blocks: 1}},
		{"forgotten after the hour", begin.Add(60 * time.Minute), 59, control.Minute{}},
	} {
		ms := r.last(c.at)
		if len(ms) != liveMinutes {
			t.Fatalf("%s: %d minutes, want %d", c.name, len(ms), liveMinutes)
		}
		got := ms[c.index]
		if want := c.at.Truncate(time.Minute).Add(time.Duration(c.index-59) * time.Minute); !got.At.Equal(want) {
			t.Errorf("%s: it is of %s, want %s", c.name, got.At, want)
		}
		got.At = time.Time{}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	day := begin.AddDate(0, 0, 1)
	r.read(day, 9, 9) // the same place of the ring
	if m := r.last(day)[59]; m.Lines != 9 {
		t.Errorf("a day later the minute holds %d lines, want 9", m.Lines)
	}
}

func TestWanted(t *testing.T) {
	b := ledger.Block{Prefix: netip.MustParsePrefix("192.0.2.16/28"), Rule: "ssh-login", Reason: "Bad Bots", Service: "sshd"}
	hand := ledger.Block{Prefix: netip.MustParsePrefix("2001:db8::/64"), By: "page:anna"}
	for _, c := range []struct {
		search string
		b      ledger.Block
		want   bool
	}{
		{"", b, true},
		{" 192.0.2.17 ", b, true},
		{"192.0.2.1", b, false},
		{"192.0.2.0/24", b, true},
		{"SSH", b, true},
		{"bots", b, true},
		{"192.0.2.", b, true},
		{"nginx", b, false},
		{"by hand", b, false},
		{"by hand", hand, true},
		{"anna", hand, true},
		{"2001:db8::7", hand, true},
		{"\x00%s<script>", hand, false},
	} {
		if got := wanted(c.search)(&c.b); got != c.want {
			t.Errorf("wanted(%s, %q) = %v, want %v", c.b.Prefix, c.search, got, c.want)
		}
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
		for _, unit := range []string{"minute", "hour", "day"} {
			got, err := x.c.Trend(t.Context(), control.TrendQuery{Unit: unit, From: time.Now().Add(-3 * trendUnits[unit].Length()), Bins: 4})
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

// until waits for a status.
func (x *live) until(t *testing.T, what string, ok func(control.Status) bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(x.status(t)); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within 30 s: %+v", what, x.status(t))
		}
	}
}
