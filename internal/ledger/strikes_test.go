package ledger

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// offence is one block of a prefix, for the model.
type offence struct{ since, until time.Time }

// modelTTL is the TTL of an offence at an instant, worked out from all those
// before it: each is a strike, of which one is forgotten for each whole decay
// between the end of one block and the next offence.
func modelTTL(past []offence, at time.Time, e Escalation) time.Duration {
	strikes := 0
	for i, o := range past {
		strikes++
		next := at
		if i+1 < len(past) {
			next = past[i+1].since
		}
		if d := next.Sub(o.until); d > 0 {
			strikes = max(strikes-int(d/e.Decay), 0)
		}
	}
	ttl := float64(e.TTL) * math.Pow(e.Multiply, float64(strikes))
	return time.Duration(math.Min(ttl, float64(max(e.Max, e.TTL))))
}

// TestEscalationAgainstModel plays the offences of one prefix, in order, and
// compares how long each is blocked with the model.
func TestEscalationAgainstModel(t *testing.T) {
	n := 300
	if os.Getenv("STOPLOG_SOAK") != "" {
		n = 30_000
	}
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 47))
		e := Escalation{TTL: time.Duration(1+r.IntN(600)) * time.Second, Multiply: []float64{1, 2, 4, 10}[r.IntN(4)],
			Max: time.Duration(1+r.IntN(100)) * time.Hour, Decay: time.Duration(1+r.IntN(100)) * time.Hour}
		l := fresh(t, Options{Escalation: e})
		now, past := epoch, []offence(nil)
		for step := range 60 {
			now = now.Add(time.Duration(r.Int64N(int64(e.Decay) * int64(1+r.IntN(4)))))
			b := breach("192.0.2.0/28", 0)
			b.At = now.UnixNano()
			want := modelTTL(past, now, e)
			if n := len(past); n > 0 && now.Before(past[n-1].until) {
				continue // no offence: it would be blocked
			}
			l.Breach(b, now)
			got := l.Covering(b.Addr, now)
			if len(got) != 1 || got[0].Until.Sub(got[0].Since) != want {
				t.Fatalf("seed %d step %d of %+v: got %s, want %v", i, step, e, brief(got), want)
			}
			past = append(past, offence{now, now.Add(want)})
			if r.IntN(8) == 0 {
				l.Expire(now.Add(want))
			}
		}
	}
}

// TestALoginForgives: whoever logs in soon after a block begins again with a
// first one. Logins later, from elsewhere, or while the block stands do not count.
func TestALoginForgives(t *testing.T) {
	day := 24 * 60 * 60
	for _, c := range []struct {
		name, from string
		at         int // seconds; the block ends at 600
		left       bool
	}{
		{"soon after, from the address", "192.0.2.1", 700, false},
		{"soon after, from a neighbour", "192.0.2.9", 700, false},
		{"at the end", "192.0.2.1", 600, false},
		{"while the block stands", "192.0.2.1", 599, true},
		{"a day later", "192.0.2.1", 600 + day, true},
		{"from elsewhere", "192.0.2.16", 700, true},
	} {
		l := fresh(t, Options{})
		l.Breach(breach("192.0.2.0/28", 0), at(0))
		l.Login("sshd", []byte("ann"), adr(c.from), at(c.at).UnixNano(), false)
		ended, left := l.Struck(pfx("192.0.2.0/28"), at(c.at).UnixNano())
		if left != c.left || left && ended != at(600).UnixNano() {
			t.Errorf("%s: strikes left: got %v until %v", c.name, left, time.Unix(0, ended).UTC())
		}
		want := "192.0.2.0/28+10m0s"
		if c.left {
			want = "192.0.2.0/28+40m0s"
		}
		l.Breach(breach("192.0.2.0/28", 2*day), at(2*day))
		if got := brief(l.List(at(2 * day))); got != want {
			t.Errorf("%s: the next block: got %s, want %s", c.name, got, want)
		}
	}
}

// A rule whose blocks never grow leaves no strike for another.
func TestNoStrikesOfARuleThatNeverEscalates(t *testing.T) {
	l := fresh(t, Options{})
	b := breach("192.0.2.0/28", 0)
	b.Multiply = 1
	l.Breach(b, at(0))
	if _, struck := l.Struck(b.Prefix, at(0).UnixNano()); struck {
		t.Error("got a strike")
	}
	l.Breach(breach("192.0.2.0/28", 700), at(700))
	if got := brief(l.List(at(700))); got != "192.0.2.0/28+10m0s" {
		t.Errorf("got %s, want a first block", got)
	}
	if _, struck := l.Struck(b.Prefix, at(701).UnixNano()); !struck {
		t.Error("got no strike of a rule that escalates")
	}
}
