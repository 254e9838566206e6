package detect

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

func TestExplainTellsWhyNot(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - name: r
    match: {service: sshd, outcome: failure, kind: [plain, unknown_user], user: {not: root}, ip: 192.0.2.0/24}
    key: [user, prefix]
    bucket: {capacity: 5, leak: 1m}
`), Options{})
	g := newGate()
	g.known["sshd ann 192.0.2.1"] = true
	g.allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.200/32")}
	g.blocked[netip.MustParsePrefix("192.0.2.32/28")] = span{start, start + int64(time.Hour)}
	counted := failure(after(0), "sshd", "bob", "192.0.2.1")
	again := failure(after(0), "sshd", "bob", "192.0.2.1")
	again.Count = 0
	nobody := failure(after(0), "sshd", "", "192.0.2.1")
	nobody.User = []byte{}
	limited := failure(after(0), "sshd", "bob", "192.0.2.1")
	limited.Kind = 3
	for _, c := range []struct {
		want string
		step Step
	}{
		{"", e.Explain(counted, nil, g)[0]},
		{"the service is vsftpd, not sshd", e.Explain(failure(after(0), "vsftpd", "bob", "192.0.2.1"), nil, g)[0]},
		{"the outcome is success, not failure", e.Explain(success(after(0), "sshd", "bob", "192.0.2.1"), nil, g)[0]},
		{"the kind is limited, not plain or unknown_user", e.Explain(limited, nil, g)[0]},
		{`user is "root"`, e.Explain(failure(after(0), "sshd", "root", "192.0.2.1"), nil, g)[0]},
		{"ip is 203.0.113.1", e.Explain(failure(after(0), "sshd", "bob", "203.0.113.1"), nil, g)[0]},
		{"the address is allowed", e.Explain(failure(after(0), "sshd", "bob", "192.0.2.200"), nil, g)[0]},
		{"the address is already blocked", e.Explain(failure(after(0), "sshd", "bob", "192.0.2.33"), nil, g)[0]},
		{"this user is known-good at this address", e.Explain(failure(after(0), "sshd", "ann", "192.0.2.1"), nil, g)[0]},
		{"an earlier line reported the same attempt", e.Explain(again, nil, g)[0]},
		{"the line has no value for the rule's key: user+prefix", e.Explain(nobody, nil, g)[0]},
	} {
		if c.step.Why != c.want {
			t.Errorf("got %q, want %q", c.step.Why, c.want)
		}
	}
	s := e.Explain(counted, nil, g)[0]
	if s.Key != "user=bob 192.0.2.0/28" || len(s.Levels) != 1 || s.Levels[0].Weight != 1 || s.Levels[0].Capacity != 20 {
		t.Errorf("got %+v", s)
	}
}

// What Explain says would breach, breaches, and nothing else does.
func TestExplainForetells(t *testing.T) {
	set := load(t, modelRules)
	for round := range rounds(30) {
		r := rand.New(rand.NewPCG(11, uint64(round)))
		e, g, at := New(set, Options{}), newGate(), start
		for i := range 300 {
			at += r.Int64N(int64(time.Second) << r.IntN(8))
			ev := randomEvent(r, at)
			want := map[string]bool{}
			for _, s := range e.Explain(ev, testOrigin, g) {
				for l, x := range s.Levels {
					if x.Breaches {
						want[fmt.Sprint(s.Rule, l)] = true
					}
				}
			}
			bs := feed(e, g, ev)
			for _, b := range bs {
				if !want[fmt.Sprint(b.Rule, b.Level)] {
					t.Fatalf("round %d, event %d: %s level %d breached unforetold", round, i, b.Rule, b.Level)
				}
			}
			g.obey(set, bs)
			if len(bs) == 0 && (want["ssh0"] || want["ssh1"] || want["web0"] || want["spray0"]) {
				t.Fatalf("round %d, event %d: foretold %v, and nothing breached", round, i, want)
			}
		}
	}
}

// TestCounted: failures and the points they weigh are two numbers, for each
// kind of level.
func TestCounted(t *testing.T) {
	for name, c := range map[string]struct {
		level, want string
	}{
		"bucket":   {"bucket: {capacity: 5, leak: 1h}", "2 failures, 6 points"},
		"window":   {"window: {count: 5, within: 1h}", "2 failures, 6 points"},
		"distinct": {"window: {distinct: user, over: 1, within: 1h}", "2 different users"},
	} {
		e := New(load(t, "sources: [auth]\nrules:\n  - name: r\n    match: {service: sshd, outcome: failure}\n    weight: {base: 3}\n    "+c.level+"\n"), Options{})
		bs := feed(e, newGate(), failure(after(0), "sshd", "ann", "192.0.2.1"), failure(after(1), "sshd", "bob", "192.0.2.1"))
		if len(bs) != 1 || bs[0].Counted() != c.want {
			t.Errorf("%s: got %d breaches, %+v; want %q", name, len(bs), bs, c.want)
		}
	}
	for want, b := range map[string]Breach{
		"6 failures":            {Count: 6, Points: 6, Unit: "failure"},
		"1 failure, 9 points":   {Count: 1, Points: 9, Unit: "failure"},
		"11 different prefixes": {Count: 11, Points: 11, Unit: "different prefix"},
		"2 different addresses": {Count: 2, Points: 2, Unit: "different address"},
		"40 events":             {Count: 40},
		"9 failures, 6 points":  {Count: 9, Points: 6, Unit: "failure"}, // three drained
	} {
		if got := b.Counted(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestPrivacy: with privacy.lines off no line and no user name leaves detection,
// and none is restored from an earlier state.
func TestPrivacy(t *testing.T) {
	const text = "sources: [auth]\nrules:\n  - name: r\n    match: {service: sshd, outcome: failure}\n    bucket: {capacity: 1, leak: 1h}\n  - name: each\n    match: {service: sshd, outcome: failure}\n    then: [{notify: ops}]\nnotify: {ops: {exec: [/bin/true]}}\n"
	kept := New(load(t, text), Options{})
	feed(kept, newGate(), failure(after(0), "sshd", "hunter2", "192.0.2.1"))
	e := New(load(t, text+"privacy: {lines: false}\n"), Options{})
	if err := e.Restore(kept.AppendBinary(nil)); err != nil {
		t.Fatal(err)
	}
	bs := feed(e, newGate(), failure(after(1), "sshd", "hunter2", "192.0.2.1"))
	if len(bs) != 2 {
		t.Fatalf("got %d breaches, want 2", len(bs))
	}
	for _, b := range bs {
		if b.User != "" || len(b.Evidence) > 0 || b.Count == 0 {
			t.Errorf("got %+v", b)
		}
	}
	kept.Swap(load(t, text+"privacy: {lines: false}\n"))
	if b := feed(kept, newGate(), failure(after(1), "sshd", "hunter2", "192.0.2.1")); len(b) == 0 || len(b[0].Evidence) > 0 {
		t.Errorf("after a reload: %+v", b)
	}
}
