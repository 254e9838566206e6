package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stoplog/internal/rules"
)

func ops() rules.Notify {
	return rules.Notify{Name: "ops", Group: 30 * time.Second, Limit: 60}
}

func TestOneMessageForAThousandBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		x, end := running(t, map[string]*post{"ops": p}, ops())
		start := time.Now()
		for i := range 1000 {
			x.Send("ops", breach(i))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		at, ls := p.sent()
		if len(ls) != 1 {
			t.Fatalf("%d messages, want 1", len(ls))
		}
		// The last came at 9.99 s, and then it must be quiet for 2 s.
		if got := at[0].Sub(start); got != 11990*time.Millisecond {
			t.Errorf("sent after %s, want 11.99s", got)
		}
		if want := "[stoplog] web1: 1000 blocks (ssh-login)"; ls[0].subject != want {
			t.Errorf("subject %q, want %q", ls[0].subject, want)
		}
		for _, want := range []string{"and 980 more", "and 950 more breaches"} {
			if !strings.Contains(string(ls[0].plain), want) {
				t.Errorf("%q is missing in:\n%s", want, ls[0].plain)
			}
		}
		if s := stats(t, x, "ops"); s.Sent != 1 || s.Dropped != 950 || s.Waiting != 0 {
			t.Errorf("stats %+v, want 1 sent, 950 without details, 0 waiting", s)
		}
		end()
	})
}

// TestPace gives when breaches happen and when messages go out.
func TestPace(t *testing.T) {
	sec := func(ss ...float64) (ds []time.Duration) {
		for _, s := range ss {
			ds = append(ds, time.Duration(s*float64(time.Second)))
		}
		return ds
	}
	every := func(n int, step float64) (ss []float64) {
		for i := range n {
			ss = append(ss, float64(i)*step)
		}
		return ss
	}
	for _, c := range []struct {
		name     string
		group    time.Duration
		limit    int
		happened []time.Duration
		want     []time.Duration
	}{
		{"a lone one after it is quiet", 30 * time.Second, 60, sec(0), sec(2)},
		{"two of one attack", 30 * time.Second, 60, sec(0, 1.5), sec(3.5)},
		{"one that does not end is told after the group's time", 30 * time.Second, 60, sec(every(70, 0.9)...), sec(30, 60.6, 90.6)},
		{"a second attack waits for its turn", 30 * time.Second, 60, sec(0, 10), sec(2, 32)},
		{"after a long time it does not", 30 * time.Second, 60, sec(0, 100), sec(2, 102)},
		{"no grouping", 0, 60, sec(0, 1, 1.5), sec(0, 1, 1.5)},
		{"a group shorter than the settling", time.Second, 60, sec(0, 5), sec(1, 6)},
		{"the limit", 0, 2, sec(0, 10, 20, 30, 4000), sec(0, 10, 3600, 4000)},
		{"the limit is of any hour", 0, 2, sec(0, 3599, 3601, 3602), sec(0, 3599, 3601, 7199)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &post{}
				x, end := running(t, map[string]*post{"ops": p}, rules.Notify{Name: "ops", Group: c.group, Limit: c.limit})
				start := time.Now()
				for i, at := range c.happened {
					time.Sleep(time.Until(start.Add(at)))
					x.Send("ops", breach(i))
				}
				time.Sleep(3 * time.Hour)
				var got []time.Duration
				at, _ := p.sent()
				for _, a := range at {
					got = append(got, a.Sub(start))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("sent at %v, want %v", got, c.want)
				}
				end()
			})
		})
	}
}

func TestWhatTheLimitHeldBackIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		x, end := running(t, map[string]*post{"ops": p}, rules.Notify{Name: "ops", Limit: 1})
		x.Send("ops", breach(0))
		time.Sleep(15 * time.Minute)
		for i := range 7 {
			x.Send("ops", breach(i))
		}
		time.Sleep(2 * time.Hour)
		_, ls := p.sent()
		if len(ls) != 2 {
			t.Fatalf("%d messages, want 2", len(ls))
		}
		for _, want := range []string{"delayed for 45m by the limit of 1 messages per hour", "7 blocks"} {
			if !strings.Contains(string(ls[1].plain), want) {
				t.Errorf("%q is missing in:\n%s", want, ls[1].plain)
			}
		}
		end()
	})
}

func TestTries(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(int) error
		want []time.Duration // of the tries
		sent uint64
	}{
		{"works", nil, []time.Duration{0}, 1},
		{"fails for ever", errEach("down"), []time.Duration{0, time.Second, 6 * time.Second}, 0},
		{"works at the third", func(n int) error {
			if n < 3 {
				return errors.New("down")
			}
			return nil
		}, []time.Duration{0, time.Second, 6 * time.Second}, 1},
		{"for good", func(int) error { return fmt.Errorf("x: %w", permanent{errors.New("no such user")}) }, []time.Duration{0}, 0},
		{"some have it", func(int) error { return partly{errors.New("one was refused")} }, []time.Duration{0}, 1},
		{"asked to wait", func(int) error { return later{errors.New("busy"), 20 * time.Second} }, []time.Duration{0, 20 * time.Second, 40 * time.Second}, 0},
		{"asked to wait for ever", func(int) error { return later{errors.New("busy"), 1000 * time.Hour} }, []time.Duration{0, time.Minute, 2 * time.Minute}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &post{fail: c.fail}
				x, end := running(t, map[string]*post{"ops": p}, rules.Notify{Name: "ops", Limit: 60})
				start := time.Now()
				x.Send("ops", breach(1))
				time.Sleep(time.Hour)
				var got []time.Duration
				at, _ := p.sent()
				for _, a := range at {
					got = append(got, a.Sub(start))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("tries at %v, want %v", got, c.want)
				}
				if s := stats(t, x, "ops"); s.Sent != c.sent || s.Failed != 1-c.sent {
					t.Errorf("sent %d failed %d, want %d and %d", s.Sent, s.Failed, c.sent, 1-c.sent)
				}
				end()
			})
		})
	}
}

func TestWhatWasLostIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{fail: errEach("connection\nrefused")}
		x, end := running(t, map[string]*post{"ops": p}, ops())
		x.Send("ops", breach(1))
		x.Send("ops", breach(2))
		time.Sleep(time.Minute)
		if s := stats(t, x, "ops"); s.Failed != 1 || s.LastError != `connection\x0arefused` {
			t.Errorf("stats %+v, want 1 failed and its escaped reason", s)
		}
		p.mu.Lock()
		p.fail = nil
		p.mu.Unlock()
		for range 2 {
			x.Send("ops", breach(3))
			time.Sleep(time.Minute)
		}
		_, ls := p.sent()
		const note = "messages about 2 earlier breaches could not be delivered"
		if n := len(ls); n != 5 || !strings.Contains(string(ls[3].plain), note) || strings.Contains(string(ls[4].plain), note) {
			t.Errorf("%d tries; want the note once, in the fourth", n)
		}
		if s := stats(t, x, "ops"); s.LastError != "" {
			t.Errorf("the last error %q outlives a success", s.LastError)
		}
		end()
	})
}

// TestOneStallsNobody has a target that hangs beside one that works.
func TestOneStallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &post{hang: true}, &post{}
		cfg := ops()
		cfg.Name, cfg.Timeout = "bad", 5*time.Minute
		x, end := running(t, map[string]*post{"bad": bad, "good": good}, cfg, rules.Notify{Name: "good", Limit: 60})
		start := time.Now()
		for i := range 10_000 {
			x.Send("bad", breach(i))
		}
		x.Send("good", breach(1))
		x.Send("nobody", breach(1))
		synctest.Wait()
		if time.Since(start) != 0 {
			t.Errorf("sending took %s", time.Since(start))
		}
		if at, _ := good.sent(); len(at) != 1 {
			t.Errorf("the good target sent %d messages, want 1", len(at))
		}
		held := x.targets["bad"]
		held.mu.Lock()
		if n := len(held.held.shown); n != maxShown {
			t.Errorf("%d breaches held with details, want %d", n, maxShown)
		}
		held.mu.Unlock()
		time.Sleep(time.Minute) // the bad one is in its first try
		before := time.Now()
		end()
		if got := time.Since(before); got != lastWait {
			t.Errorf("the end took %s, want %s", got, lastWait)
		}
	})
}

func TestEndSendsWhatWasGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{fail: errEach("down")}
		x, end := running(t, map[string]*post{"ops": p}, ops())
		x.Send("ops", breach(1))
		synctest.Wait()
		end()
		if at, _ := p.sent(); len(at) != 1 {
			t.Errorf("%d tries at the end, want 1", len(at))
		}
	})
}

func TestSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		same, old, gone := &post{}, &post{}, &post{}
		cfg := func(name string, limit int) rules.Notify {
			return rules.Notify{Name: name, Group: 30 * time.Second, Limit: limit, Timeout: 10 * time.Second}
		}
		posts := map[string]*post{"same": same, "changed": old, "gone": gone}
		x, end := running(t, posts, cfg("same", 60), cfg("changed", 60), cfg("gone", 60))
		for _, name := range []string{"same", "changed", "gone"} {
			x.Send(name, breach(1))
		}
		synctest.Wait()
		if err := x.Swap([]rules.Notify{cfg("same", 60), {Name: "broken", Exec: []string{"/x"}, Template: "{{"}}); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Fatalf("a broken target: %v, want an error that names it", err)
		}
		kept := x.targets["same"]
		fresh := &post{}
		posts["changed"] = fresh
		if err := x.Swap([]rules.Notify{cfg("same", 60), cfg("changed", 7), cfg("new", 60)}); err != nil {
			t.Fatal(err)
		}
		if x.targets["same"] != kept {
			t.Error("an unchanged target was replaced")
		}
		time.Sleep(time.Minute)
		for name, c := range map[string]struct {
			p    *post
			want int
		}{"same": {same, 1}, "changed, by the old way": {old, 0}, "changed, by the new way": {fresh, 1}, "gone": {gone, 1}} {
			if at, _ := c.p.sent(); len(at) != c.want {
				t.Errorf("%s: %d messages, want %d", name, len(at), c.want)
			}
		}
		if len(x.Stats()) != 3 {
			t.Errorf("stats of %d targets, want 3", len(x.Stats()))
		}
		end()
	})
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		cfg  rules.Notify
		want string
	}{
		{rules.Notify{}, "one of webhook, email and exec"},
		{rules.Notify{Webhook: "ftp://x/"}, "http or https"},
		{rules.Notify{Webhook: "https://x/", Headers: map[string]string{"X-A\r\nB": "1"}}, "header"},
		{rules.Notify{Webhook: "https://x/", Headers: map[string]string{"X": "1\r\nY: 2"}}, "header"},
		{rules.Notify{Webhook: "https://x/", Template: "{{.Nothing}}"}, "Nothing"},
		{rules.Notify{Webhook: "https://x/", Template: "{{range .Events}}{{.Nix}}{{end}}"}, "Nix"},
		{rules.Notify{Webhook: "https://x/", Template: `{"user": "{{(index .Events 0).User}}"}`}, "JSON"},
		{rules.Notify{Webhook: "https://x/", Template: `{"text": "{{.Text}}"}`}, "not valid JSON"},
		{rules.Notify{Webhook: "https://x/", Template: `{{printf "%2000000d" 1}}`}, "more than"},
		{rules.Notify{Email: rules.Email{To: []string{"a@example.net\r\nBcc: b@example.net"}, From: "a@example.net", Server: "x"}}, "address"},
		{rules.Notify{Email: rules.Email{To: []string{"a@example.net"}, From: "A <a@example.net>", Server: "x"}}, "address"},
		{rules.Notify{Email: rules.Email{To: []string{"a@example.net"}, From: "a@example.net", Server: ""}}, "host:port"},
		{rules.Notify{Email: rules.Email{To: []string{"a@example.net"}, From: "a@example.net", Server: "x:25", User: "u"}}, "password_file"},
	} {
		c.cfg.Name = "pager"
		_, err := New([]rules.Notify{c.cfg}, options())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "notify target pager: ") {
			t.Errorf("%+v: %v, want the target's name and %q", c.cfg, err, c.want)
		}
	}
}

// TestSwapKeepsTheLimit: a reload must not give a fresh hour.
func TestSwapKeepsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		x, end := running(t, map[string]*post{"ops": p}, rules.Notify{Name: "ops", Limit: 2})
		start := time.Now()
		for i := range 2 {
			x.Send("ops", breach(i))
			time.Sleep(time.Minute)
		}
		if err := x.Swap([]rules.Notify{{Name: "ops", Limit: 1, Timeout: 10 * time.Second}}); err != nil {
			t.Fatal(err)
		}
		x.Send("ops", breach(3))
		time.Sleep(3 * time.Hour)
		at, _ := p.sent()
		if len(at) != 3 || at[2].Sub(start) != time.Hour+time.Minute {
			t.Errorf("sent at %v from %v, want the third an hour after the second", at, start)
		}
		if s := stats(t, x, "ops"); s.Sent != 3 {
			t.Errorf("%d counted as sent, want 3: the counters outlive a reload", s.Sent)
		}
		end()
	})
}

// TestManyAtOnce is for the race detector: all methods, from many goroutines.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{}
		x, end := running(t, map[string]*post{"ops": p}, ops())
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 100 {
					x.Send("ops", breach(i))
					x.Stats()
					if i%10 == g {
						if err := x.Swap([]rules.Notify{{Name: "ops", Limit: 1000 + g*100 + i, Timeout: time.Second, Group: time.Second}}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		time.Sleep(time.Hour)
		end()
		told := 0
		_, ls := p.sent()
		for _, l := range ls {
			var d Digest
			if err := json.Unmarshal(l.body, &d); err != nil {
				t.Fatal(err)
			}
			told += d.Count
		}
		if told != 800 {
			t.Errorf("%d breaches told, want all 800, each once", told)
		}
	})
}

// TestEmptyTeller has nothing to tell and ends when told to.
func TestEmptyTeller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, end := running(t, nil)
		x.Send("ops", breach(1))
		time.Sleep(time.Hour)
		if got := x.Stats(); len(got) != 0 {
			t.Errorf("stats %v of no targets", got)
		}
		end()
	})
}

// TestStatsAreInOrder so that status does not jump about.
func TestStatsAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, end := running(t, nil, rules.Notify{Name: "c", Limit: 1}, rules.Notify{Name: "a", Limit: 1, Group: time.Hour}, rules.Notify{Name: "b", Limit: 1})
		x.Send("a", breach(1))
		x.Send("a", breach(2))
		synctest.Wait()
		var got []string
		for _, s := range x.Stats() {
			got = append(got, fmt.Sprint(s.Name, s.Waiting))
		}
		if want := []string{"a2", "b0", "c0"}; !slices.Equal(got, want) {
			t.Errorf("names and waiting %v, want %v", got, want)
		}
		end()
	})
}
