package detect

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"stoplog/internal/bucket"
	"stoplog/internal/parse"
)

const sshRule = `
sources: [auth]
rules:
  - name: ssh
    match: {service: sshd, outcome: failure}
    weight: {unknown_user: 2, user: {root: 2}}
    bucket: {capacity: 5, leak: 1m}
`

func TestSixthBreaches(t *testing.T) {
	e := New(load(t, sshRule), Options{})
	bs := feed(e, newGate(), repeat(6, time.Second, "sshd", "joe", "192.0.2.17")...)
	if len(bs) != 1 {
		t.Fatalf("got %d breaches, want 1", len(bs))
	}
	b := bs[0]
	if b.At != after(5*time.Second) || b.Rule != "ssh" || b.Count != 6 || b.Key != "192.0.2.16/28" ||
		b.Prefix != netip.MustParsePrefix("192.0.2.16/28") || b.User != "joe" || b.Service != "sshd" ||
		b.Source != "auth.log" || b.Line != 6 || len(b.Evidence) != 6 || b.Partial || b.TTL != 0 {
		t.Errorf("got %+v", b)
	}
	if len(b.Answers) != 1 || b.Answers[0].Kind != Block {
		t.Errorf("answers: got %+v, want one block", b.Answers)
	}
}

func TestWhatIsCounted(t *testing.T) {
	times := func(n int, ev func(i int) *parse.Event) (out []*parse.Event) {
		for i := range n {
			out = append(out, ev(i))
		}
		return out
	}
	at := func(i int) int64 { return after(time.Duration(i) * time.Second) }
	for _, c := range []struct {
		name string
		evs  []*parse.Event
		want int
	}{
		{"five hold", repeat(5, time.Second, "sshd", "joe", "192.0.2.1"), 0},
		{"one a minute never", repeat(500, time.Minute, "sshd", "joe", "192.0.2.1"), 0},
		{"neighbours count together", times(6, func(i int) *parse.Event { return failure(at(i), "sshd", "joe", fmt.Sprintf("192.0.2.%d", i)) }), 1},
		{"strangers do not", times(60, func(i int) *parse.Event { return failure(at(i), "sshd", "joe", fmt.Sprintf("192.0.%d.1", i)) }), 0},
		{"an IPv6 /64 counts together", times(6, func(i int) *parse.Event { return failure(at(i), "sshd", "joe", fmt.Sprintf("2001:db8::%x:1", i)) }), 1},
		{"root counts twice", repeat(3, time.Second, "sshd", "root", "192.0.2.1"), 1},
		{"unknown accounts count twice", times(3, func(i int) *parse.Event { return unknown(at(i), "sshd", "x", "192.0.2.1") }), 1},
		{"other services do not count", repeat(9, time.Second, "vsftpd", "joe", "192.0.2.1"), 0},
		{"successes do not count", times(9, func(i int) *parse.Event { return success(at(i), "sshd", "joe", "192.0.2.1") }), 0},
		{"a repeated message counts as often", times(1, func(i int) *parse.Event {
			ev := failure(at(i), "sshd", "joe", "192.0.2.1")
			ev.Count = 6
			return ev
		}), 1},
		{"what was counted already does not", times(9, func(i int) *parse.Event {
			ev := failure(at(i), "sshd", "joe", "192.0.2.1")
			ev.Count = 0
			return ev
		}), 0},
		{"no address, no source to count", times(9, func(i int) *parse.Event {
			ev := failure(at(i), "sshd", "joe", "192.0.2.1")
			ev.Addr = netip.Addr{}
			return ev
		}), 0},
	} {
		e := New(load(t, sshRule), Options{})
		if got := len(feed(e, newGate(), c.evs...)); got != c.want {
			t.Errorf("%s: got %d breaches, want %d", c.name, got, c.want)
		}
	}
}

func TestAllowedAndBlockedAreNotCounted(t *testing.T) {
	set := load(t, sshRule)
	g := newGate()
	g.allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.5/32")}
	e := New(set, Options{})
	if bs := feed(e, g, repeat(99, time.Second, "sshd", "joe", "192.0.2.5")...); len(bs) != 0 {
		t.Errorf("allowed: got %d breaches", len(bs))
	}
	bs := feed(e, g, repeat(6, time.Second, "sshd", "joe", "192.0.2.6")...)
	g.obey(set, bs)
	later := repeat(99, time.Second, "sshd", "joe", "192.0.2.6")
	for _, ev := range later {
		ev.Time += int64(time.Minute)
	}
	if more := feed(e, g, later...); len(bs) != 1 || len(more) != 0 {
		t.Errorf("blocked: got %d and %d breaches, want 1 and none", len(bs), len(more))
	}
	if s := e.Stats(); s.Allowed != 99 || s.Stragglers != 99 || s.Rules[0].Poured != 6 {
		t.Errorf("got %+v, want 99 allowed, 99 stragglers, 6 poured", s)
	}
}

func TestLevelsOfOneEventMakeOneBlock(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - name: two
    match: {outcome: failure}
    buckets:
      - {capacity: 1, leak: 1m, ttl: 5m, then: [block, {flag: seen, for: 1h}]}
      - {capacity: 1, leak: 1h, ttl: 7d}
`), Options{})
	bs := feed(e, newGate(), repeat(2, time.Second, "sshd", "joe", "192.0.2.1")...)
	if len(bs) != 2 {
		t.Fatalf("got %d breaches, want the flag of one and the block of the other", len(bs))
	}
	if bs[0].Level != 0 || len(bs[0].Answers) != 1 || bs[0].Answers[0].Kind != RaiseFlag {
		t.Errorf("got %+v, want the flag alone", bs[0])
	}
	if bs[1].Level != 1 || bs[1].TTL != 7*24*time.Hour || bs[1].Answers[0].Kind != Block {
		t.Errorf("got %+v, want the longer block", bs[1])
	}
}

func TestKeys(t *testing.T) {
	const text = `
sources: [auth]
rules:
  - {name: r, match: {outcome: %s}, key: %s, bucket: {capacity: 1, leak: 1h}, then: [{flag: f, for: 1h}]}
`
	a, b := failure(after(0), "sshd", "joe", "192.0.2.1"), failure(after(0), "vsftpd", "joe", "203.0.113.9")
	c := request(after(0), "192.0.2.1", "GET", "/x", 404)
	c.Query, c.Host, c.Agent, c.User = []byte("id=7&k=v"), []byte("example.org"), []byte("curl"), nil
	c.Fields = []parse.Field{{Name: "customer", Value: []byte("acme")}}
	for _, k := range []struct {
		key  string
		ev   *parse.Event
		want string // the key of the breach; "" when it does not count
	}{
		{"all", a, "all"},
		{"user", a, "user=joe"},
		{"service", b, "service=vsftpd"},
		{"address", a, "192.0.2.1/32"},
		{"[user, prefix]", a, "user=joe 192.0.2.0/28"},
		{"path", c, "path=/x"},
		{"host", c, "host=example.org"},
		{"agent", c, "agent=curl"},
		{"method", c, "method=GET"},
		{"param id", c, "param id=7"},
		{"param nil", c, ""},
		{"field customer", c, "field customer=acme"},
		{"field tenant", c, ""},
		{"user", c, ""},
		{"[service, user, address]", b, "service=vsftpd user=joe 203.0.113.9/32"},
	} {
		e := New(load(t, fmt.Sprintf(text, k.ev.Outcome, k.key)), Options{})
		got := ""
		for _, b := range feed(e, newGate(), k.ev, k.ev) {
			got = b.Key
		}
		if got != k.want {
			t.Errorf("key %s: got %q, want %q", k.key, got, k.want)
		}
	}
}

// Two lists of texts that read the same when written together are two keys.
func TestCompositeKeysDoNotMeet(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - {name: r, match: {outcome: failure}, key: [user, service], bucket: {capacity: 1, leak: 1h}, then: [{flag: f, for: 1h}]}
`), Options{})
	bs := feed(e, newGate(), failure(after(0), "b", "aa", "192.0.2.1"), failure(after(1), "ab", "a", "192.0.2.1"))
	if len(bs) != 0 {
		t.Errorf("user aa at b and user a at ab share a bucket")
	}
}

func TestDistinct(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - name: spray
    match: {outcome: failure}
    window: {distinct: user, over: 3, within: 10m}
`), Options{})
	var evs []*parse.Event
	for i := range 40 {
		evs = append(evs, failure(after(time.Duration(i)*time.Second), "sshd", fmt.Sprintf("u%d", i%3), "192.0.2.1"))
	}
	if bs := feed(e, newGate(), evs...); len(bs) != 0 {
		t.Fatalf("three users: got %d breaches", len(bs))
	}
	bs := feed(e, newGate(), failure(after(time.Minute), "sshd", "u4", "192.0.2.1"))
	if len(bs) != 1 || bs[0].Count != 4 {
		t.Fatalf("the fourth user: got %+v", bs)
	}
}

func TestWindowBreachesAtItsCount(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - {name: w, match: {outcome: failure}, window: {count: 3, within: 5m}}
`), Options{})
	var evs []*parse.Event
	for _, m := range []int{0, 4, 6, 10, 11, 12} {
		evs = append(evs, failure(after(time.Duration(m)*time.Minute), "sshd", "joe", "192.0.2.1"))
	}
	bs := feed(e, newGate(), evs...)
	if len(bs) != 1 || bs[0].At != after(12*time.Minute) || bs[0].Count != 3 {
		t.Errorf("got %+v, want one breach at the third within five minutes", bs)
	}
}

func TestContributors(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - name: one-account
    match: {outcome: failure}
    key: user
    window: {distinct: prefix, over: 3, within: 10m}
    then: [{block: contributors, each: 3}]
`), Options{})
	g := newGate()
	g.known["sshd joe 198.51.100.1"] = true
	at := 0
	try := func(addr string, n int) (out []Breach) {
		for range n {
			at++
			out = append(out, feed(e, g, failure(after(time.Duration(at)*time.Second), "sshd", "joe", addr))...)
		}
		return out
	}
	try("198.51.100.1", 9) // the owner at home
	try("192.0.2.1", 3)
	try("192.0.2.20", 1)
	try("192.0.2.40", 5)
	bs := try("203.0.113.1", 1)
	if len(bs) != 1 {
		t.Fatalf("got %d breaches, want 1", len(bs))
	}
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.32/28"), netip.MustParsePrefix("192.0.2.0/28")}
	if !slices.Equal(bs[0].Contributors, want) {
		t.Errorf("contributors: got %v, want %v: the busiest first, no owner, none with fewer than three", bs[0].Contributors, want)
	}
	if bs[0].Prefix.IsValid() {
		t.Errorf("a rule by user has no prefix of its own, got %v", bs[0].Prefix)
	}
}

func TestFlagsMakeRoomNarrow(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - name: r
    match: {outcome: failure}
    bucket: {capacity: 5, leak: 1m}
    when: {flag: captcha, capacity: 1}
`), Options{})
	g := newGate()
	two := func(d time.Duration, addr string) int {
		return len(feed(e, g, failure(after(d), "sshd", "joe", addr), failure(after(d+time.Second), "sshd", "joe", addr)))
	}
	if got := two(0, "192.0.2.1"); got != 0 {
		t.Errorf("flag down: got %d breaches, want none", got)
	}
	g.flags["captcha"] = true
	if got := two(time.Hour, "192.0.2.1"); got != 1 {
		t.Errorf("flag up: got %d breaches, want 1", got)
	}
	g.known["sshd ann 203.0.113.1"] = true
	if got := two(time.Hour, "203.0.113.1"); got != 0 {
		t.Errorf("flag up, an address that is no stranger's: got %d breaches, want none", got)
	}
}

func TestNetworksHaveRoomOfTheirOwn(t *testing.T) {
	e := New(load(t, sshRule+`
networks:
  198.51.100.0/22: {prefix: 32, capacity: x20}
`), Options{})
	if bs := feed(e, newGate(), repeat(100, 0, "sshd", "joe", "198.51.100.7")...); len(bs) != 0 {
		t.Errorf("got %d breaches within twenty times the room", len(bs))
	}
	bs := feed(e, newGate(), failure(after(0), "sshd", "joe", "198.51.100.7"))
	if len(bs) != 1 || bs[0].Prefix.String() != "198.51.100.7/32" || bs[0].Count != 101 {
		t.Errorf("got %+v, want a block of the one address at the 101st", bs)
	}
}

func TestObserveSpeaksOnceInTheTimeOfABlock(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - {name: r, match: {outcome: failure}, bucket: {capacity: 2, leak: 1m}, ttl: 10m, mode: observe}
`), Options{})
	bs := feed(e, newGate(), repeat(1200, time.Second, "sshd", "joe", "192.0.2.1")...)
	if len(bs) != 2 || !bs[0].Observe || bs[1].At-bs[0].At < int64(10*time.Minute) {
		t.Errorf("got %d breaches in twenty minutes, want 2", len(bs))
	}
}

func TestFlagIsRaisedAgainWhileTheAttackLasts(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - {name: r, match: {outcome: failure}, key: all, bucket: {capacity: 10, leak: 10s}, then: [{flag: captcha, for: 10m}]}
`), Options{})
	raised := int64(0)
	for i := range 3600 {
		at := after(time.Duration(i) * time.Second)
		for range feed(e, newGate(), failure(at, "sshd", "joe", "192.0.2.1")) {
			raised = at
		}
		if i > 60 && at >= raised+int64(10*time.Minute) {
			t.Fatalf("the flag fell at second %d of an attack that lasts", i)
		}
	}
	if n := e.Stats().Rules[0].Breached; n > 20 {
		t.Errorf("raised %d times in an hour, want about every five minutes", n)
	}
}

func TestTriggerAndNewLogin(t *testing.T) {
	e := New(load(t, `
sources: [auth]
notify: {ops: {exec: [/bin/true]}}
rules:
  - {name: new-login, match: {outcome: success, known_good: false}, then: [{notify: ops}]}
`), Options{})
	g := newGate()
	ev := success(after(0), "sshd", "joe", "192.0.2.1")
	if bs := feed(e, g, ev, ev); len(bs) != 2 || bs[0].Answers[0].Target != "ops" || len(bs[0].Evidence) != 1 {
		t.Errorf("a login from a new address: got %+v", bs)
	}
	g.known["sshd joe 192.0.2.1"] = true
	if bs := feed(e, g, ev); len(bs) != 0 {
		t.Errorf("a login from a known address: got %+v", bs)
	}
}

func TestForget(t *testing.T) {
	set := load(t, sshRule)
	e := New(set, Options{})
	feed(e, newGate(), repeat(5, time.Second, "sshd", "joe", "192.0.2.1")...)
	e.Forget(netip.MustParsePrefix("192.0.2.0/24"))
	if bs := feed(e, newGate(), repeat(5, time.Second, "sshd", "joe", "192.0.2.1")...); len(bs) != 0 {
		t.Errorf("an emptied bucket breached after five more")
	}
	ls := e.Levels(netip.MustParseAddr("192.0.2.1"), after(4*time.Second))
	if len(ls) != 1 || ls[0].Level != 5 || ls[0].Capacity != 5 || ls[0].Key != "192.0.2.0/28" {
		t.Errorf("levels: got %+v", ls)
	}
	if f := e.Fullest(3, after(4*time.Second)); len(f) != 1 || f[0].Level != 5 || f[0].Key != "192.0.2.0/28" {
		t.Errorf("fullest: got %+v", f)
	}
}

func TestTiers(t *testing.T) {
	set := load(t, `
sources: [auth]
rules:
  - name: api
    match: {status: 429}
    key: param key
    tiers: {by: param key, file: /nonexistent/customers.yaml, default: free, free: {capacity: 1, leak: 1h}, pro: {capacity: 4, leak: 1h}}
    then: [{flag: f, for: 1s}]
`)
	set.Rules[0].Tiers.Members = map[string]string{"acme": "pro"}
	for _, c := range []struct {
		key  string
		want int
	}{{"nobody", 2}, {"acme", 5}} {
		e := New(set, Options{})
		got := 0
		for i := 1; i < 9 && got == 0; i++ {
			ev := request(after(0), "192.0.2.1", "GET", "/", 429)
			ev.Query = []byte("key=" + c.key)
			if len(feed(e, newGate(), ev)) > 0 {
				got = i
			}
		}
		if got != c.want {
			t.Errorf("%s breached at %d, want %d", c.key, got, c.want)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	e := New(ready(t, "auto"), Options{})
	g := quietGate{}
	ev := failure(after(0), "sshd", "joe", "192.0.2.1")
	e.Observe(ev, nil, nil, g)
	step := int64(time.Hour)
	if n := testing.AllocsPerRun(1000, func() { ev.Time += step * 100; e.Observe(ev, nil, nil, g) }); n != 0 {
		t.Errorf("an event that breaches nothing: got %v allocations, want none", n)
	}
}

// quietGate knows nobody.
type quietGate struct{}

func (quietGate) Verdict(netip.Addr, string, []byte, int64) Verdict { return Stranger }
func (quietGate) KnownAddr(netip.Addr, string, int64) bool          { return false }
func (quietGate) Struck(netip.Prefix, int64) (int64, bool)          { return 0, false }
func (quietGate) Flag(string, int64) bool                           { return false }

// The room of a range is that of its sources: what counts all sources, or an
// account, together has its own.
func TestNetworksGiveNoRoomToOthers(t *testing.T) {
	e := New(load(t, `
sources: [auth]
networks:
  198.51.100.0/24: {capacity: 2}
  203.0.113.0/24: {capacity: x20}
rules:
  - {name: flood, match: {outcome: failure}, key: all, bucket: {capacity: 5, leak: 1h}, then: [{flag: captcha, for: 1h}]}
`), Options{})
	if bs := feed(e, newGate(), repeat(5, 0, "sshd", "joe", "198.51.100.7")...); len(bs) != 0 {
		t.Errorf("got %d breaches below the capacity of all together", len(bs))
	}
	if bs := feed(e, newGate(), failure(after(0), "sshd", "joe", "203.0.113.7")); len(bs) != 1 {
		t.Errorf("got %d breaches at the sixth, want 1", len(bs))
	}
}

// While old lines are read it is still their time, whatever the clock says.
func TestSweepWhileOldLinesAreRead(t *testing.T) {
	e := New(load(t, sshRule), Options{})
	now := after(24 * time.Hour)
	feed(e, newGate(), repeat(5, 0, "sshd", "joe", "192.0.2.1")...)
	e.Sweep(now)
	if bs := feed(e, newGate(), failure(after(time.Second), "sshd", "joe", "192.0.2.1")); len(bs) != 1 {
		t.Errorf("got %d breaches at the sixth of a minute read late, want 1", len(bs))
	}
	e.Sweep(now)
	e.Sweep(now)
	if n := e.Stats().Rules[0].Keys; n != 0 {
		t.Errorf("got %d buckets long after, want none", n)
	}
}

// A capacity in networks is what a bucket, a window and a count of values hold
// there, also more values than are told apart elsewhere.
func TestCapacityOfNetworks(t *testing.T) {
	for level, usual := range map[string]int{
		"bucket: {capacity: 5, leak: 1h}":                  5,
		"window: {over: 4, within: 2h}":                    4,
		"window: {distinct: user, over: 3, within: 2h}":    3,
		"window: {distinct: user, over: 3000, within: 2h}": 3000,
	} {
		e := New(load(t, `
sources: [auth]
networks:
  198.51.100.0/24: {capacity: 1500}
  203.0.113.0/24: {capacity: x600}
rules:
  - {name: r, match: {outcome: failure}, `+level+`}
`), Options{})
		for addr, want := range map[string]int{"192.0.2.7": usual, "198.51.100.7": 1500, "203.0.113.7": usual * 600} {
			if v := e.Levels(netip.MustParseAddr(addr), after(0))[0]; v.Capacity != min(want, bucket.MaxCount-1) {
				t.Errorf("%s at %s: shown a capacity of %d, want %d", level, addr, v.Capacity, want)
			}
			if want > 5000 {
				continue
			}
			for i := range want {
				if bs := feed(e, newGate(), failure(after(0), "sshd", fmt.Sprint("u", i), addr)); len(bs) != 0 {
					t.Fatalf("%s at %s: breached at %d, want at %d", level, addr, i+1, want+1)
				}
			}
			if bs := feed(e, newGate(), failure(after(0), "sshd", "one more", addr)); len(bs) != 1 {
				t.Errorf("%s at %s: got %d breaches at %d, want one", level, addr, len(bs), want+1)
			}
		}
	}
}

// A bucket in a network never holds more than can drain, and says so.
func TestRoomIsWhatCanDrain(t *testing.T) {
	e := New(load(t, `
sources: [auth]
networks: {198.51.100.0/24: {capacity: x999999}}
rules:
  - {name: r, match: {outcome: failure}, bucket: {capacity: 2, leak: 100d}}
`), Options{})
	v := e.Levels(netip.MustParseAddr("198.51.100.7"), after(0))[0]
	if v.Capacity < 6 || v.Capacity > 8 {
		t.Errorf("got a capacity of %d, want what drains in some 800 days", v.Capacity)
	}
	for i := range v.Capacity {
		if bs := feed(e, newGate(), failure(after(0), "sshd", "joe", "198.51.100.7")); len(bs) != 0 {
			t.Fatalf("breached at %d of %d", i+1, v.Capacity)
		}
	}
	if bs := feed(e, newGate(), failure(after(0), "sshd", "joe", "198.51.100.7")); len(bs) != 1 {
		t.Errorf("got %d breaches beyond the capacity shown, want one", len(bs))
	}
}
