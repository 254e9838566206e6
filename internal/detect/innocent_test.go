package detect

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"stoplog/internal/parse"
)

// What the ready rules must never do.

func TestInnocentsAreNeverBlocked(t *testing.T) {
	const home = "192.0.2.9"
	for _, c := range []struct {
		name string
		evs  func() []*parse.Event
	}{
		{"mistypes four times, then gets in", func() []*parse.Event {
			return append(repeat(4, 3*time.Second, "sshd", "ann", home), success(after(time.Minute), "sshd", "ann", home))
		}},
		{"does so every morning for a year", func() (evs []*parse.Event) {
			for day := range 365 {
				at := time.Duration(day) * 24 * time.Hour
				for i := range 4 {
					ev := failure(after(at+time.Duration(i)*3*time.Second), "sshd", "ann", home)
					ev.First = i%3 == 0
					evs = append(evs, ev)
				}
				evs = append(evs, success(after(at+time.Minute), "sshd", "ann", home))
			}
			return evs
		}},
		{"tries a name that does not exist, then mistypes four times", func() []*parse.Event {
			evs := append(repeat(4, 3*time.Second, "sshd", "ann", home), success(after(time.Minute), "sshd", "ann", home))
			return append([]*parse.Event{unknown(after(-time.Minute), "sshd", "anne", home)}, evs...)
		}},
		{"does so in a connection each", func() []*parse.Event {
			var evs []*parse.Event
			for i := range 4 {
				evs = append(evs, failure(after(time.Duration(i)*5*time.Second), "sshd", "ann", home))
			}
			return append(evs, success(after(time.Minute), "sshd", "ann", home))
		}},
		{"mistypes root's password twice", func() []*parse.Event {
			return append(repeat(2, 2*time.Second, "sshd", "root", home), success(after(time.Minute), "sshd", "root", home))
		}},
		{"a monitor that connects a little more than once a minute for a month", func() (evs []*parse.Event) {
			for i := range 30 * 24 * 60 {
				evs = append(evs, probe(after(time.Duration(i)*59*time.Second), "sshd", home))
			}
			return evs
		}},
		{"two monitors of one network", func() (evs []*parse.Event) {
			for i := range 30 * 24 * 60 {
				evs = append(evs, probe(after(time.Duration(i)*time.Minute), "sshd", home), probe(after(time.Duration(i)*time.Minute), "sshd", "192.0.2.10"))
			}
			return evs
		}},
		{"a telephone with an old mail password, every ten minutes by day", func() (evs []*parse.Event) {
			for i := range 14 * 6 {
				evs = append(evs, failure(after(time.Duration(i)*10*time.Minute), "dovecot", "ann", home))
			}
			return evs[:40]
		}},
		{"somebody who reads a site and meets missing pages", func() (evs []*parse.Event) {
			for i := range 500 {
				evs = append(evs, request(after(time.Duration(i)*time.Second), home, "GET", fmt.Sprintf("/missing/%d", i), 404))
			}
			return evs
		}},
		{"an author who logs in to WordPress", func() (evs []*parse.Event) {
			for i := range 4 {
				evs = append(evs, request(after(time.Duration(i)*time.Second), home, "POST", "/wp-login.php", 200))
			}
			return append(evs, request(after(time.Minute), home, "POST", "/wp-login.php", 302))
		}},
	} {
		if bs := feed(New(ready(t, "auto"), Options{}), newGate(), c.evs()...); len(bs) != 0 {
			t.Errorf("%s: blocked by %s, level %d, at %d", c.name, bs[0].Rule, bs[0].Level, bs[0].Count)
		}
	}
}

// Slow attackers of several kinds, and how many of their attempts get through
// before the ready rules stop them for a week.
func TestSlowAttackersAreStopped(t *testing.T) {
	for _, c := range []struct {
		name string
		most int // attempts that get through in a week
		ev   func(i int) *parse.Event
		step time.Duration
	}{
		{"names that do not exist, from neighbours, every twenty minutes", 6, func(i int) *parse.Event {
			return unknown(0, "sshd", fmt.Sprint("u", i), fmt.Sprintf("192.0.2.%d", i%16))
		}, 20 * time.Minute},
		{"root, every hour", 7, func(int) *parse.Event { return failure(0, "sshd", "root", "192.0.2.1") }, time.Hour},
		{"an account that exists, every hour", 12, func(int) *parse.Event { return failure(0, "sshd", "ann", "192.0.2.1") }, time.Hour},
	} {
		set := ready(t, "ssh")
		e, g, through := New(set, Options{}), newGate(), 0
		for i := range int(7 * 24 * time.Hour / c.step) {
			ev := c.ev(i)
			ev.Time = after(time.Duration(i) * c.step)
			if g.Verdict(ev.Addr, "sshd", ev.User, ev.Time) != Blocked {
				through++
			}
			g.obey(set, feed(e, g, ev))
		}
		if through > c.most {
			t.Errorf("%s: %d attempts got through in a week, want at most %d", c.name, through, c.most)
		}
	}
}

func TestProbesFillNoSlowBucket(t *testing.T) {
	e := New(load(t, `
sources: [auth]
rules:
  - {name: r, match: {service: sshd}, bucket: {capacity: 2, leak: 1h}}
`), Options{})
	for i := range 1000 {
		if bs := feed(e, newGate(), probe(after(time.Duration(i)), "sshd", "192.0.2.1")); len(bs) != 0 {
			t.Fatal("a probe filled a bucket that takes an hour an event")
		}
	}
}

const clearing = `
sources: [auth]
rules:
  - name: r
    match: {service: sshd, outcome: failure}
    weight: {user: {root: 2}}
    clears: success
    buckets: [{capacity: 5, leak: 1m}, {capacity: 9, leak: 1h}]
`

func TestSuccessClearsItsOwnPart(t *testing.T) {
	const a = "192.0.2.1"
	for _, c := range []struct {
		name string
		evs  []*parse.Event
		want int // what the first bucket holds at second 5
	}{
		{"its own", []*parse.Event{failure(after(0), "sshd", "ann", a), failure(after(0), "sshd", "ann", a), success(after(0), "sshd", "ann", a)}, 0},
		{"not another account's", []*parse.Event{failure(after(0), "sshd", "bob", a), failure(after(0), "sshd", "bob", a), success(after(0), "sshd", "ann", a)}, 2},
		{"not that of another source", []*parse.Event{failure(after(0), "sshd", "ann", a), success(after(0), "sshd", "ann", "203.0.113.1")}, 1},
		{"not that of another service", []*parse.Event{failure(after(0), "sshd", "ann", a), success(after(0), "vsftpd", "ann", a)}, 1},
		{"of a neighbour, whose prefix it is too", []*parse.Event{failure(after(0), "sshd", "ann", a), success(after(0), "sshd", "ann", "192.0.2.2")}, 0},
		{"root's, of double weight", []*parse.Event{failure(after(0), "sshd", "root", a), failure(after(0), "sshd", "bob", a), success(after(0), "sshd", "root", a)}, 1},
		{"nothing twice", []*parse.Event{failure(after(0), "sshd", "ann", a), failure(after(0), "sshd", "bob", a), success(after(0), "sshd", "ann", a), success(after(0), "sshd", "ann", a)}, 1},
		{"nothing when it comes late", []*parse.Event{failure(after(0), "sshd", "ann", a), success(after(-time.Second), "sshd", "ann", a)}, 1},
		{"a long name's", []*parse.Event{failure(after(0), "sshd", "a.rather.long.name@example.org", a), failure(after(0), "sshd", "a.rather.long.name@example.com", a), success(after(0), "sshd", "a.rather.long.name@example.org", a)}, 1},
	} {
		e := New(load(t, clearing), Options{})
		feed(e, newGate(), c.evs...)
		if got := e.Levels(netip.MustParseAddr(a), after(0))[0].Level; got != c.want {
			t.Errorf("%s: the bucket holds %d, want %d", c.name, got, c.want)
		}
	}
}

// Somebody who owns one account, sprays others, and logs in to their own
// whenever they like, gains nothing: after each step every bucket holds at
// least what it would hold had their own account never been tried. The same
// is tried with many owned accounts, gaps and stamps out of order.
func TestSprayerCannotResetTheCount(t *testing.T) {
	set := load(t, clearing)
	r := rand.New(rand.NewPCG(4, 2))
	users := []string{"mine", "mine2", "root", "bob", "carol", "dave"}
	addr := netip.MustParseAddr("192.0.2.1")
	for round := range rounds(300) {
		var story []string
		real, only := New(set, Options{}), New(set, Options{})
		at, latest := start, start
		for range 60 {
			at += r.Int64N(3) * r.Int64N(int64(2*time.Minute))
			if r.IntN(10) == 0 {
				at -= r.Int64N(int64(time.Minute))
			}
			latest = max(latest, at)
			u := users[r.IntN(len(users))]
			own := u[0] == 'm'
			story = append(story, fmt.Sprint(time.Duration(at-start).Round(time.Second), " ", u))
			if own && r.IntN(2) == 0 {
				story = append(story, "success")
				feed(real, newGate(), success(at, "sshd", u, "192.0.2.1"))
			} else {
				feed(real, newGate(), failure(at, "sshd", u, "192.0.2.1"))
				if !own {
					feed(only, newGate(), failure(at, "sshd", u, "192.0.2.1"))
				}
			}
			for i, l := range real.Levels(addr, latest) {
				if o := only.Levels(addr, latest)[i]; l.Level < o.Level {
					t.Fatalf("round %d: level %d holds %d, and without the owned accounts it would hold %d, after %q", round, i, l.Level, o.Level, story)
				}
			}
		}
	}
}

// What a stranger of the prefix failed at an account clears nothing of what known
// sources failed at others, and the other way round.
func TestKnownAndStrangersClearApart(t *testing.T) {
	const known, stranger = "192.0.2.1", "192.0.2.2"
	set := load(t, `
sources: [auth]
rules:
  - {name: r, match: {outcome: failure}, clears: success, bucket: {capacity: 5, leak: 1h}}
`)
	g := newGate()
	g.known["sshd mine "+known] = true
	e := New(set, Options{})
	through := 0
	for range 50 {
		feed(e, g, failure(after(0), "sshd", "mine", stranger))
		bs := feed(e, g, failure(after(0), "sshd", fmt.Sprint("u", through), known))
		if len(bs) > 0 {
			break
		}
		through++
		feed(e, g, success(after(0), "sshd", "mine", known))
	}
	if through > 5*namesRoom {
		t.Errorf("%d accounts were tried, want room for %d", through, 5*namesRoom)
	}
}

// A bucket that a success emptied still knows the time: a failure that comes
// late is not counted as if nobody had ever failed before.
func TestLateFailureAfterASuccessCountsFromIt(t *testing.T) {
	const a = "192.0.2.1"
	e := New(load(t, clearing), Options{})
	feed(e, newGate(), failure(after(0), "sshd", "ann", a), success(after(30*time.Second), "sshd", "ann", a),
		failure(after(10*time.Second), "sshd", "bob", a))
	if got := e.Levels(netip.MustParseAddr(a), after(89*time.Second))[0].Level; got != 1 {
		t.Errorf("a minute's failure, 59 s after the success: the bucket holds %d, want 1", got)
	}
}

func TestKnownGood(t *testing.T) {
	set := load(t, `
sources: [auth]
rules:
  - {name: by-prefix, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m}}
  - {name: by-user, match: {outcome: failure}, key: user, bucket: {capacity: 2, leak: 1m}, then: [{flag: f, for: 1h}]}
  - {name: window, match: {outcome: failure}, window: {over: 5, within: 5m}}
`)
	const home, cafe = "192.0.2.1", "203.0.113.1"
	g := newGate()
	g.known["sshd ann "+home] = true
	rulesOf := func(bs []Breach) (names []string) {
		for _, b := range bs {
			names = append(names, b.Rule)
		}
		return names
	}
	e := New(set, Options{})
	if bs := feed(e, g, repeat(20, 0, "sshd", "ann", home)...); len(bs) != 0 {
		t.Errorf("twenty failures from home: got %v, want none", rulesOf(bs))
	}
	if bs := feed(e, g, failure(after(0), "sshd", "ann", home)); len(bs) != 1 {
		t.Errorf("the 21st: got %v, want window, of four times the room", rulesOf(bs))
	}
	feed(e, g, repeat(79, 0, "sshd", "ann", home)...)
	if got := rulesOf(feed(e, g, failure(after(0), "sshd", "ann", home))); !slices.Contains(got, "by-prefix") {
		t.Errorf("the 101st: got %v, want by-prefix, of twenty times the room", got)
	}
	if bs := feed(New(set, Options{}), g, repeat(6, 0, "sshd", "ann", cafe)...); len(bs) != 3 {
		t.Errorf("the same account from elsewhere: got %v, want all three", rulesOf(bs))
	}
	e = New(set, Options{})
	if bs := feed(e, g, repeat(20, 0, "sshd", "bob", home)...); slices.Contains(rulesOf(bs), "by-prefix") {
		t.Errorf("another account from the same address: got %v, want four times the room", rulesOf(bs))
	}
	if bs := feed(e, g, failure(after(0), "sshd", "bob", home)); !slices.Contains(rulesOf(bs), "by-prefix") {
		t.Errorf("another account's 21st failure: got %v, want by-prefix", rulesOf(bs))
	}
	if bs := feed(New(set, Options{}), g, repeat(6, 0, "dovecot", "ann", home)...); len(bs) != 3 {
		t.Errorf("another service: got %v, want all three", rulesOf(bs))
	}
	e = New(set, Options{})
	feed(e, g, repeat(16, 0, "sshd", "ann", home)...)
	if bs := feed(e, g, failure(after(0), "sshd", "bob", "192.0.2.2")); len(bs) != 0 {
		t.Errorf("a neighbour's first failure after an owner's many: got %v, want none", rulesOf(bs))
	}
}

// After a block its prefix has less room for a while, but not those who logged in.
func TestRoomAfterABlock(t *testing.T) {
	set := load(t, `
sources: [auth]
rules:
  - {name: r, match: {outcome: failure}, when: [{blocked: 7d, capacity: 1}], bucket: {capacity: 5, leak: 1m}}
`)
	const week = 7 * 24 * time.Hour
	prefix := netip.MustParsePrefix("192.0.2.0/28")
	for _, c := range []struct {
		name   string
		struck bool
		ended  time.Duration // before the first failure
		known  bool
		most   int // failures without a breach
	}{
		{"never blocked", false, 0, false, 5},
		{"blocked a minute ago", true, time.Minute, false, 1},
		{"blocked nearly a week ago", true, week - time.Second, false, 1},
		{"blocked a week ago", true, week, false, 5},
		{"blocked, and somebody logged in", true, time.Minute, true, 100},
	} {
		g := newGate()
		if c.struck {
			g.struck[prefix] = after(-c.ended)
		}
		g.known["sshd ann 192.0.2.1"] = c.known
		if !c.known {
			clear(g.known)
		}
		e := New(set, Options{})
		if bs := feed(e, g, repeat(c.most, 0, "sshd", "ann", "192.0.2.1")...); len(bs) != 0 {
			t.Errorf("%s: blocked at %d, want room for %d", c.name, bs[0].Count, c.most)
		}
		if bs := feed(e, g, failure(after(0), "sshd", "ann", "192.0.2.1")); len(bs) != 1 {
			t.Errorf("%s: not blocked at %d", c.name, c.most+1)
		}
	}
}

// A bucket per connection counts each once, whatever its lines say.
func TestPerConnection(t *testing.T) {
	set := load(t, `
sources: [auth]
rules:
  - {name: r, match: {outcome: failure}, weight: {user: {root: 2}}, bucket: {capacity: 3, leak: 1m, per: connection}}
`)
	next := func(count int, user string, first bool) *parse.Event {
		ev := failure(after(0), "sshd", user, "192.0.2.1")
		ev.Count, ev.First = count, first
		return ev
	}
	e, g := New(set, Options{}), newGate()
	quiet := []*parse.Event{next(1, "ann", true), next(1, "ann", false), next(500, "ann", false), next(30, "root", true)}
	if bs := feed(e, g, quiet...); len(bs) != 0 {
		t.Errorf("two connections, of weight 1 and 2: got %+v", bs)
	}
	if bs := feed(e, g, next(1, "ann", true)); len(bs) != 1 || bs[0].Points != 4 || bs[0].Count != 3 {
		t.Errorf("a third: got %+v", bs)
	}
}
