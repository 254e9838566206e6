package detect

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/bucket"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

func TestSeverest(t *testing.T) {
	block, flag := Answer{Kind: Block}, Answer{Kind: RaiseFlag, Flag: "f"}
	for _, c := range []struct {
		name string
		in   []Breach
		want string
	}{
		{"the longest block", []Breach{{Level: 0, TTL: time.Minute, Answers: []Answer{block}}, {Level: 1, TTL: time.Hour, Answers: []Answer{block}}}, "1:block"},
		{"no time is the configured one", []Breach{{Level: 0, Answers: []Answer{block}}, {Level: 1, TTL: time.Minute, Answers: []Answer{block}}}, "0:block"},
		{"the first of equals", []Breach{{Level: 0, TTL: time.Hour, Answers: []Answer{block}}, {Level: 1, TTL: time.Hour, Answers: []Answer{block}}}, "0:block"},
		{"other answers stay", []Breach{{Level: 0, TTL: time.Minute, Answers: []Answer{block, flag}}, {Level: 1, TTL: time.Hour, Answers: []Answer{flag, block}}}, "0:flag 1:flag,block"},
		{"no block, nothing goes", []Breach{{Level: 0, Answers: []Answer{flag}}, {Level: 1, Answers: []Answer{flag}}}, "0:flag 1:flag"},
	} {
		before := Breach{Rule: "before", Answers: []Answer{block}}
		out := severest(append([]Breach{before}, c.in...), 1, 10*time.Minute)
		if len(out) == 0 || out[0].Rule != "before" {
			t.Errorf("%s: touched another rule's breach", c.name)
			continue
		}
		if got := brief(out[1:]); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func brief(bs []Breach) (s string) {
	for i, b := range bs {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprintf("%d:", b.Level)
		for j, a := range b.Answers {
			if j > 0 {
				s += ","
			}
			s += map[AnswerKind]string{Block: "block", RaiseFlag: "flag"}[a.Kind]
		}
	}
	return s
}

func TestHush(t *testing.T) {
	for _, c := range []struct {
		rule string
		want time.Duration
	}{
		{"{name: r, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m}}", 0},
		{"{name: r, match: {outcome: failure}, then: [{flag: f, for: 1h}]}", 0},
		{"{name: r, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m}, mode: observe}", 10 * time.Minute},
		{"{name: r, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m, ttl: 3h}, mode: observe}", 3 * time.Hour},
		{"{name: r, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m}, then: [{flag: f, for: 2h}]}", time.Hour},
		{"{name: r, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m}, then: [{flag: f, for: 1s}]}", time.Second},
		{"{name: r, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m}, then: [{lockdown: {for: 4m}}, {flag: f, for: 2h}]}", 2 * time.Minute},
		{"{name: r, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m}, then: [{exec: [/bin/true]}]}", 6 * time.Minute},
		{"{name: r, match: {outcome: failure}, bucket: {capacity: 5, leak: 1d}, then: [{exec: [/bin/true]}]}", time.Hour},
		{"{name: r, match: {outcome: failure}, window: {count: 5, within: 2s}, then: [observe]}", time.Minute},
		{"{name: r, match: {outcome: failure}, window: {count: 1, within: 7d}, then: [observe]}", 7 * 24 * time.Hour},
		{"{name: r, match: {outcome: failure}, window: {count: 1, within: 7d}, then: [{exec: [/bin/true]}]}", 7 * 24 * time.Hour},
		{"{name: r, match: {outcome: failure}, key: user, window: {distinct: prefix, over: 5, within: 3h}, then: [{exec: [/bin/true]}]}", 3 * time.Hour},
		{"{name: r, match: {outcome: success}, window: {first: true, within: 90d}, then: [observe]}", 0},
		{"{name: r, match: {outcome: failure}, key: user, window: {distinct: prefix, over: 5, within: 1h}, then: [{block: contributors}]}", time.Second},
	} {
		e := New(load(t, "sources: [auth]\nrules:\n  - "+c.rule+"\n"), Options{})
		if got := time.Duration(e.counters[0].levels[0].hush); got != c.want {
			t.Errorf("%s: silent for %v, want %v", c.rule, got, c.want)
		}
	}
}

func TestQuiet(t *testing.T) {
	q := newQuiet()
	k := bucket.KeyOf(netip.MustParsePrefix("192.0.2.0/28"))
	a, b := quietID{"a", k}, quietID{"b", k}
	if !q.start(a, 100, 50) || q.start(a, 149, 50) || !q.start(b, 149, 50) || !q.start(a, 150, 50) {
		t.Error("a silence of 50 is not from 100 to 149, by level")
	}
	q.forget(netip.MustParsePrefix("198.51.100.0/24"))
	if !q.on(a, 160) {
		t.Error("another prefix's unblock ended the silence")
	}
	q.forget(netip.MustParsePrefix("192.0.2.0/24"))
	if q.on(a, 160) || q.on(b, 160) {
		t.Error("an unblock did not end the silence")
	}
	for i := range maxQuiet * 3 {
		q.start(quietID{"c", bucket.KeyOfText(0, []byte(fmt.Sprint(i)))}, int64(i), 1<<40)
	}
	if len(q.until) > maxQuiet {
		t.Errorf("%d silences are remembered, want at most %d", len(q.until), maxQuiet)
	}
}

func TestPartKeys(t *testing.T) {
	services := []string{"dropbear", "sshd"}
	seen := map[string]string{}
	for _, p := range []string{"192.0.2.0/28", "192.0.2.16/28", "192.0.2.0/32", "2001:db8::/64", "2001:db8::/56", "2001:db8::1/128", "2001:db8::/128"} {
		for _, s := range []string{"sshd", "dropbear", "vsftpd", "vsftpdx"} {
			for _, u := range []string{"root", "x", "xroot", "a.long.name@example.org"} {
				name := p + " " + s + " " + u
				k := string(appendPart(nil, netip.MustParsePrefix(p), services, s, []byte(u)))
				if o, twice := seen[k]; twice {
					t.Errorf("%s and %s have one part", o, name)
				}
				seen[k] = name
			}
		}
	}
	if n := len(appendPart(nil, netip.MustParsePrefix("192.0.2.0/28"), services, "sshd", []byte("rootroot"))); n >= exactText {
		t.Errorf("a common part takes %d bytes: only its hash would be kept", n)
	}
}

func TestForgetDropsParts(t *testing.T) {
	e := New(load(t, clearing), Options{})
	g := newGate()
	feed(e, g, repeat(3, 0, "sshd", "ann", "192.0.2.1")...)
	e.Forget(netip.MustParsePrefix("192.0.2.0/28"))
	feed(e, g, repeat(3, 0, "sshd", "bob", "192.0.2.1")...)
	feed(e, g, success(after(0), "sshd", "ann", "192.0.2.1"))
	if got := e.Levels(netip.MustParseAddr("192.0.2.1"), after(0))[0].Level; got != 3 {
		t.Errorf("the bucket holds %d, want bob's 3: ann's were forgotten already", got)
	}
}

func TestClearingEndsWhereABucketRanOver(t *testing.T) {
	e := New(load(t, clearing), Options{})
	g := newGate()
	feed(e, g, repeat(6, 0, "sshd", "ann", "192.0.2.1")...)
	feed(e, g, success(after(0), "sshd", "ann", "192.0.2.1"))
	ls := e.Levels(netip.MustParseAddr("192.0.2.1"), after(0))
	if ls[0].Level != 6 || ls[1].Level != 0 {
		t.Errorf("got %d and %d, want 6 of the bucket that ran over and 0 of the other", ls[0].Level, ls[1].Level)
	}
	feed(e, g, failure(after(time.Hour), "sshd", "ann", "192.0.2.1"), success(after(time.Hour), "sshd", "ann", "192.0.2.1"))
	if got := e.Levels(netip.MustParseAddr("192.0.2.1"), after(time.Hour))[0].Level; got != 0 {
		t.Errorf("once it has drained it can be cleared again: it holds %d", got)
	}
}

func TestIndexIsTheMatch(t *testing.T) {
	set := ready(t, "auto")
	e := New(set, Options{})
	for i := range 3 * maxServices {
		service := []string{"sshd", "http", "postfix", "gitea", fmt.Sprint("made-up-", i)}[i%5]
		l := e.listsOf(service)
		for o := range outcomes {
			for k := range kinds {
				n := 0
				for _, r := range set.Rules {
					if r.Match.Takes(service, o, k) {
						if n >= len(l.by[o][k]) || l.by[o][k][n].rule != r {
							t.Fatalf("%s, %v, %v: the rule %s is missing or out of order", service, o, k, r.Name)
						}
						n++
					}
				}
				if n != len(l.by[o][k]) {
					t.Fatalf("%s: got %d rules, want %d", service, len(l.by[o][k]), n)
				}
			}
		}
	}
	if len(e.index) > maxServices {
		t.Errorf("the index holds %d services, want at most %d", len(e.index), maxServices)
	}
}

func TestViews(t *testing.T) {
	e := New(load(t, `
sources: [auth]
networks:
  198.51.100.0/24: {prefix: 30, capacity: x3}
  198.51.100.128/25: {prefix: 31, capacity: 7}
rules:
  - {name: bucket, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m}}
  - {name: window, match: {outcome: failure}, window: {over: 5, within: 1m}}
  - {name: users, match: {outcome: failure}, key: address, window: {distinct: user, over: 2, within: 1m}}
  - {name: pair, match: {outcome: failure}, key: [user, prefix], bucket: {capacity: 5, leak: 1m}}
  - {name: all, match: {outcome: failure}, key: all, bucket: {capacity: 9, leak: 1m}, then: [observe]}
  - {name: each, match: {outcome: success}, then: [observe]}
`), Options{})
	feed(e, newGate(), repeat(2, 0, "sshd", "ann", "198.51.100.1")...)
	feed(e, newGate(), repeat(3, 0, "sshd", "ann", "198.51.100.200")...)
	got := ""
	for _, l := range e.Levels(netip.MustParseAddr("198.51.100.1"), after(0)) {
		got += fmt.Sprintf("%s %s %s %d/%d; ", l.Rule, l.Kind, l.Key, l.Level, l.Capacity)
	}
	const want = "bucket bucket 198.51.100.0/30 2/15; window window 198.51.100.0/30 2/15; users distinct 198.51.100.1/32 1/6; "
	if got != want {
		t.Errorf("levels: got %q, want %q", got, want)
	}
	full := e.Fullest(3, after(0))
	got = ""
	for _, l := range full {
		got += fmt.Sprintf("%s %s %d/%d; ", l.Rule, l.Key, l.Level, l.Capacity)
	}
	if len(full) != 3 || full[0].Rule != "all" || full[0].Key != "all" || full[0].Level != 5 {
		t.Errorf("fullest: got %q", got)
	}
	if n := len(e.Levels(netip.Addr{}, 0)); n != 0 {
		t.Errorf("no address: got %d levels", n)
	}
	names := e.Rules()
	if len(names) != 6 || names[5] != "each" {
		t.Errorf("rules: got %v", names)
	}
	s := e.Stats()
	if s.Events != 5 || s.Rules[0].Keys != 2 || s.Rules[1].Keys != 2 || s.Rules[2].Keys != 2 || s.Rules[4].Keys != 1 || s.Rules[5].Matched != 0 {
		t.Errorf("stats: got %+v", s)
	}
	e.Sweep(after(time.Hour)) // goes by the events that came last
	e.Sweep(after(time.Hour))
	if s := e.Stats(); s.Rules[0].Keys != 0 || s.Rules[1].Keys != 0 || s.Rules[2].Keys != 0 {
		t.Errorf("after a sweep: got %+v", s.Rules)
	}
}

// A late event finds what it would have found, sweeps or not; and it lowers
// no level.
func TestLateEventsLowerNothing(t *testing.T) {
	e := New(load(t, sshRule), Options{})
	addr := netip.MustParseAddr("192.0.2.1")
	feed(e, newGate(), repeat(4, 0, "sshd", "ann", "192.0.2.1")...)
	e.Sweep(after(10 * time.Minute))
	feed(e, newGate(), failure(after(-5*time.Minute), "sshd", "ann", "192.0.2.1"))
	if got := e.Levels(addr, after(0))[0].Level; got != 5 {
		t.Errorf("got %d, want 5", got)
	}
	if bs := feed(e, newGate(), failure(after(-10*time.Minute), "sshd", "ann", "192.0.2.1")); len(bs) != 1 {
		t.Errorf("the sixth, late: got %d breaches, want 1", len(bs))
	}
}

func TestAnswersAreCopies(t *testing.T) {
	set := load(t, `
sources: [auth]
rules:
  - {name: r, match: {outcome: failure}, ports: [22, 80-90, udp/53], then: [{block: reject, cut: true}, {exec: [/bin/true, x]}]}
`)
	bs := feed(New(set, Options{}), newGate(), failure(after(0), "sshd", "ann", "192.0.2.1"))
	if len(bs) != 1 || len(bs[0].Answers) != 2 {
		t.Fatalf("got %+v", bs)
	}
	a := bs[0].Answers[0]
	if a.Kind != Block || a.Action != "reject" || !a.Cut || len(a.Ports) != 3 || a.Ports[1] != (Ports{"", 80, 90}) || a.Ports[2] != (Ports{"udp", 53, 53}) {
		t.Errorf("got %+v", a)
	}
	bs[0].Answers[1].Argv[0] = "changed"
	if set.Rules[0].Levels[0].Then[1].Argv[0] != "/bin/true" {
		t.Error("the rules' own arguments can be changed through a breach")
	}
}

func TestProbeOfFastRuleCounts(t *testing.T) {
	set := ready(t, "ssh")
	if set.Find("ssh-probe").Levels[0].Kind != rules.Bucket {
		t.Fatal("probes have no bucket")
	}
	var evs []*parse.Event
	for range 61 {
		evs = append(evs, probe(after(0), "sshd", "192.0.2.1"))
	}
	if bs := feed(New(set, Options{}), newGate(), evs...); len(bs) != 1 || bs[0].Rule != "ssh-probe" || bs[0].Count != 61 {
		t.Errorf("got %+v", bs)
	}
}

// Levels that count the same, each with its own room, are levels all the same.
func TestTwins(t *testing.T) {
	const text = `
sources: [auth]
rules:
  - {name: r, match: {outcome: failure}, %s}
`
	const small, big, bigger = "{capacity: 3, leak: 1h, then: [{notify: ops}]}", "{capacity: 7, leak: 1h, then: [{flag: f, for: 1h}]}", "{capacity: 9, leak: 1h, then: [{flag: g, for: 1h}]}"
	set := func(levels string) *rules.Set { return load(t, fmt.Sprintf(text, levels)) }
	both := set("buckets: [" + small + ", " + big + "]")
	for name, then := range map[string]func(*Engine) *Engine{
		"as it is":  func(e *Engine) *Engine { return e },
		"reloaded":  func(e *Engine) *Engine { e.Swap(both); return e },
		"reordered": func(e *Engine) *Engine { e.Swap(set("buckets: [" + big + ", " + small + "]")); return e },
		"restarted": func(e *Engine) *Engine { return reborn(t, e, both, 7) },
		"less one":  func(e *Engine) *Engine { e.Swap(set("bucket: " + big)); return e },
		"and one": func(e *Engine) *Engine {
			e.Swap(set("buckets: [" + small + ", " + big + ", " + bigger + "]"))
			return e
		},
	} {
		e := New(both, Options{})
		for i, ev := range repeat(7, 0, "sshd", "ann", "192.0.2.1") {
			if got, want := len(feed(e, newGate(), ev)), map[int]int{3: 1}[i]; got != want {
				t.Fatalf("%s: failure %d: got %d breaches, want %d", name, i+1, got, want)
			}
			if i == 4 {
				e = then(e)
			}
		}
		bs := feed(e, newGate(), failure(after(0), "sshd", "ann", "192.0.2.1"))
		if len(bs) != 1 || bs[0].Count != 8 || bs[0].Answers[0].Flag != "f" {
			t.Errorf("%s: got %+v at the eighth, want the flag of the larger", name, bs)
		}
	}
}
