package daemon

import (
	"testing"
	"time"
)

// TestClockSetBack cannot set the clock of the machine it runs on: it tells the
// daemon that it was set.
func TestClockSetBack(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	x.block(t, "192.0.2.0/28")
	left := func() time.Duration {
		t.Helper()
		var until time.Time
		if err := x.daemon.ask(t.Context(), func() { until = x.daemon.ledger.List(time.Now())[0].Until }); err != nil {
			t.Fatal(err)
		}
		return time.Until(until)
	}
	before := left()
	if err := x.daemon.ask(t.Context(), func() { x.daemon.followClock(30*time.Minute, time.Now()) }); err != nil {
		t.Fatal(err)
	}
	if got := before - left(); got < 30*time.Minute || got > 31*time.Minute {
		t.Errorf("the block ends %v earlier, want half an hour", got)
	}
	x.stop()

	var c clock
	now := time.Now()
	for _, look := range []struct{ clock, runs, want time.Duration }{
		{0, 10, 0}, // seconds
		{2, 12, 0},
		{-3598, 14, 3602},
		{-3596, 16, 0},
		{5000, 18, 0}, // set forward
		{5002, 20, 0},
		{5001, 21, 2}, // a leap
	} {
		if got := c.setBack(now.Add(look.clock*time.Second), look.runs*time.Second); got != look.want*time.Second {
			t.Errorf("after %d s: set back by %v, want %d s", look.runs, got, look.want)
		}
	}
}
