package detect

import (
	"fmt"
	"testing"
)

// TestAheadIsObserve: events that are prepared in groups give the breaches of
// those that are not, while blocks are set in between.
func TestAheadIsObserve(t *testing.T) {
	const events, group = 20_000, 64
	d := newDay(events, 500)
	plain, ahead := New(ready(t, "auto"), Options{Seed: 1}), New(ready(t, "auto"), Options{Seed: 2})
	gp, ga := blocking{}, blocking{}
	breaches := 0
	for from := 0; from < events; from += group {
		n := min(group, events-from)
		as := make([]Ahead, n)
		for i := range as {
			ev := *d.event(from + i)
			ahead.Prepare(&as[i], &ev, nil, testOrigin, ga)
		}
		ahead.Fetch()
		stale := false
		for i := range as {
			want := plain.Observe(d.event(from+i), nil, testOrigin, gp)
			got := ahead.ObserveAhead(&as[i], stale)
			if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
				t.Fatalf("event %d: got %s, want %s", from+i, g, w)
			}
			for j := range want {
				gp[want[j].Prefix], ga[got[j].Prefix] = true, true
				stale = true
				breaches++
			}
		}
	}
	p, a := plain.Stats(), ahead.Stats()
	if p.Events != a.Events || p.Stragglers != a.Stragglers || breaches == 0 {
		t.Errorf("got %d events, %d stragglers, want %d, %d, and breaches (%d)", a.Events, a.Stragglers, p.Events, p.Stragglers, breaches)
	}
}
