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
