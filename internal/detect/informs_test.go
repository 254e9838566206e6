package detect

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// TestInformedOnly: what any local user can have written (su, sudo) is
// reported, and closes nothing and raises no flag.
func TestInformedOnly(t *testing.T) {
	for _, c := range []struct {
		then string
		want int
	}{
		{"[{notify: x}]", 1},
		{"[{lockdown: {for: 5m}}]", 0},
		{"[{flag: f, for: 5m}]", 0},
	} {
		set := load(t, "notify: {x: {webhook: 'http://127.0.0.1:1/'}}\nuse: []\nrules:\n  - {name: r, match: {service: su, outcome: failure}, key: all, window: {count: 3, within: 1h}, then: "+c.then+"}\n")
		for _, informs := range []bool{true, false} {
			e := New(set, Options{})
			n := 0
			for i := range 4 {
				ev := failure(after(time.Duration(i)*time.Second), "su", "root", "192.0.2.7")
				ev.Addr, ev.Informs = netip.Addr{}, informs
				n += len(feed(e, newGate(), ev))
			}
			want := c.want
			if !informs {
				want = 1
			}
			if n != want {
				t.Errorf("%s, informs %v: %d breaches, want %d", c.then, informs, n, want)
			}
		}
	}
}

// TestCountedAlready: an event of no attempt, because earlier lines of its
// connection told of it, is none for any kind of rule.
func TestCountedAlready(t *testing.T) {
	set := load(t, `
use: []
sources: [auth]
notify: {x: {exec: [/bin/true]}}
rules:
  - {name: bucket, match: {service: sshd, outcome: failure}, bucket: {capacity: 1, leak: 1m}}
  - {name: window, match: {service: sshd, outcome: failure}, window: {count: 1, within: 10m}}
  - {name: distinct, match: {service: sshd, outcome: failure}, window: {distinct: user, over: 1, within: 10m}}
  - {name: each, match: {service: sshd, outcome: failure}, then: [{notify: x}]}
`)
	e := New(set, Options{Seed: 1})
	for i := range 9 {
		ev := failure(after(time.Duration(i)*time.Second), "sshd", fmt.Sprint("u", i), "192.0.2.1")
		ev.Count = 0
		if bs := e.Observe(ev, nil, nil, newGate()); len(bs) > 0 {
			t.Errorf("event %d breaches %s", i, bs[0].Rule)
		}
	}
	for _, r := range e.Stats().Rules {
		if r.Poured != 0 || r.Keys != 0 {
			t.Errorf("%s was poured %d times and holds %d keys", r.Name, r.Poured, r.Keys)
		}
	}
}

// TestReportsKeepToTheirWindow: a rule that only reports says the same of a key
// once in its window, over a restart too; with first it says so of an event
// that no other comes before, however many follow and from whom they are.
func TestReportsKeepToTheirWindow(t *testing.T) {
	const hour, days = time.Hour, 24 * time.Hour
	for _, c := range []struct {
		window string
		at     []time.Duration
		want   []time.Duration
	}{
		{"{count: 1, within: 7d}", []time.Duration{0, 5 * hour, 6 * hour, 11 * hour, 17 * hour, 23 * hour, 30 * hour, 8 * days}, []time.Duration{0, 8 * days}},
		{"{first: true, within: 7d}", []time.Duration{0, 5 * days, 6 * days, 12 * days, 20 * days, 20*days + 1}, []time.Duration{0, 20 * days}},
		{"{first: true, within: 90d}", []time.Duration{0, 80 * days, 160 * days, 249 * days, 340 * days}, []time.Duration{0, 340 * days}},
	} {
		set := load(t, "use: []\nrules:\n  - {name: r, match: {service: sshd, outcome: success}, key: [user, prefix], window: "+c.window+", then: [observe]}\n")
		e, g := New(set, Options{}), newGate()
		var got []time.Duration
		for _, at := range c.at {
			for _, b := range feed(e, g, success(after(at), "sshd", "ann", "192.0.2.7")) {
				got = append(got, time.Duration(b.At-start))
			}
			g.known["sshd ann 192.0.2.7"] = true // as a login makes it
			e.Sweep(after(at))
			saved := e.AppendBinary(nil)
			e = New(set, Options{})
			if err := e.Restore(saved); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: reported at %v, want %v", c.window, got, c.want)
		}
		if bs := feed(e, g, success(after(c.at[len(c.at)-1]), "sshd", "ann", "198.51.100.7")); len(bs) != 1 {
			t.Errorf("%s: another prefix was not reported", c.window)
		}
	}
}
