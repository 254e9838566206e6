package api

import (
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/ledger"
	"stoplog/internal/trend"
)

func TestLastHour(t *testing.T) {
	var r trend.Trend
	read := func(at time.Time, lines, events, blocks uint32) {
		r.Add(at, trend.Series{}, trend.Count{Lines: lines, Events: events, Blocks: blocks})
	}
	begin := time.Date(2026, 11, 20, 9, 0, 30, 0, time.UTC)
	read(begin, 5, 3, 1)
	read(begin.Add(20*time.Second), 2, 1, 0)
	read(begin.Add(time.Minute), 1, 1, 0)
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
		ms := lastHour(&r, c.at)
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
	read(day, 9, 9, 0) // the same place of the ring
	if m := lastHour(&r, day)[59]; m.Lines != 9 {
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
