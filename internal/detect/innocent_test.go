package detect

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
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
			return append(repeat(4, 2*time.Second, "sshd", "ann", home), success(after(time.Minute), "sshd", "ann", home))
		}},
		{"does so every morning for a year", func() (evs []*parse.Event) {
			for day := range 365 {
				at := time.Duration(day) * 24 * time.Hour
				for i := range 4 {
					evs = append(evs, failure(after(at+time.Duration(i)*time.Second), "sshd", "ann", home))
				}
				evs = append(evs, success(after(at+time.Minute), "sshd", "ann", home))
			}
			return evs
		}},
		{"tries a name that does not exist, then mistypes four times", func() []*parse.Event {
			evs := append(repeat(4, 2*time.Second, "sshd", "ann", home), success(after(time.Minute), "sshd", "ann", home))
			return append([]*parse.Event{unknown(after(-time.Minute), "sshd", "anne", home)}, evs...)
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
		{"names that do not exist, from neighbours, every twenty minutes", 3, func(i int) *parse.Event {
			return unknown(0, "sshd", fmt.Sprint("u", i), fmt.Sprintf("192.0.2.%d", i%16))
		}, 20 * time.Minute},
		{"root, every hour", 5, func(int) *parse.Event { return failure(0, "sshd", "root", "192.0.2.1") }, time.Hour},
		{"an account that exists, every hour", 9, func(int) *parse.Event { return failure(0, "sshd", "ann", "192.0.2.1") }, time.Hour},
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
		t.Errorf("twenty failures from home: got %v, want four times the room and none by user", rulesOf(bs))
	}
	if bs := feed(e, g, failure(after(0), "sshd", "ann", home)); len(bs) != 2 {
		t.Errorf("the 21st: got %v, want by-prefix and window", rulesOf(bs))
	}
	if bs := feed(New(set, Options{}), g, repeat(6, 0, "sshd", "ann", cafe)...); len(bs) != 3 {
		t.Errorf("the same account from elsewhere: got %v, want all three", rulesOf(bs))
	}
	if bs := feed(New(set, Options{}), g, repeat(6, 0, "sshd", "bob", home)...); len(bs) != 3 {
		t.Errorf("another account from the same address: got %v, want all three", rulesOf(bs))
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
