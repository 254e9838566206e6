package ledger

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// walls are what a firewall holds when it does what it is told.
type walls map[netip.Prefix]time.Time

func (w walls) apply(t *testing.T, cs []Change, now time.Time) {
	t.Helper()
	for _, c := range cs {
		_, had := w[c.Block.Prefix]
		switch {
		case c.Op == Lift && !had:
			t.Errorf("lifting %v, which does not stand", c.Block.Prefix)
		case c.Op == Lift:
			delete(w, c.Block.Prefix)
		case c.New && had && w[c.Block.Prefix].After(now):
			t.Errorf("%v is said to be new", c.Block.Prefix)
		case !c.Block.Until.After(now):
			t.Errorf("%v is set until %v, which is over", c.Block.Prefix, c.Block.Until)
		default:
			w[c.Block.Prefix] = c.Block.Until
		}
	}
}

// standing prints what the walls hold at now, which end blocks by themselves.
func (w walls) standing(now time.Time) string {
	var out []string
	for p, until := range w {
		if until.After(now) {
			out = append(out, fmt.Sprint(p, until.Sub(epoch)))
		}
	}
	slices.Sort(out)
	return fmt.Sprint(out)
}

// TestWallsFollow plays random timelines and wants walls that only ever heard
// the changes to hold what the ledger lists, and nothing to be left in the end.
func TestWallsFollow(t *testing.T) {
	for i := range 400 {
		r := rand.New(rand.NewPCG(uint64(i), 48))
		steps := timelineOf(r, 250, true)
		f := begin(t, "", "", steps[0].now)
		f.l.RecoveryDone(steps[0].now)
		w := walls{}
		for j, s := range steps {
			var cs []Change
			switch s.what {
			case "event":
				for _, b := range f.p.observe(f.l, s.addr, s.at.UnixNano()-int64(r.IntN(3))*int64(r.IntN(200))*1e9) {
					cs = append(cs, f.l.Breach(b, s.now).Changes...)
				}
			case "block":
				cs, _ = f.l.BlockByHand(s.prefix, s.ttl*time.Duration(r.IntN(2)), "", "me", s.now)
			case "unblock":
				lifted, _ := f.l.Unblock(netip.PrefixFrom(s.addr, 32), "me", s.now)
				cs = lifted.Changes
			case "allow":
				lifted, _ := f.l.Allow(s.prefix, s.ttl, "", "me", s.now)
				cs = lifted.Changes
			case "disallow":
				f.l.Disallow(s.prefix, "me", s.now)
			case "expire":
				cs = f.l.Expire(s.now)
			}
			w.apply(t, cs, s.now)
			list := walls{}
			for _, b := range f.l.List(s.now) {
				list[b.Prefix] = b.Until
			}
			if got, want := w.standing(s.now), list.standing(s.now); got != want || t.Failed() {
				t.Fatalf("seed %d step %d %s: the walls hold\n%s, the ledger lists\n%s", i, j, s.what, got, want)
			}
		}
		f.drain(w, steps[len(steps)-1].now)
	}
}

// drain lifts what is for good and lets time pass until nothing is left.
func (f *life) drain(w walls, now time.Time) {
	f.t.Helper()
	lifted, _ := f.l.Unblock(pfx("0.0.0.0/0"), "me", now)
	w.apply(f.t, lifted.Changes, now)
	for range 10_000 {
		next := f.l.NextExpiry()
		if next.IsZero() {
			break
		}
		if next.After(now) {
			now = next
		}
		w.apply(f.t, f.l.Expire(now), now)
	}
	if f.l.blocks.len() != 0 || len(f.l.ends) != 0 || len(f.l.lengths.v4) != 0 || len(f.l.members) != 0 || len(w.standing(now)) != 2 {
		f.t.Fatalf("left: %d records, %d ends, lengths %v, %d networks, walls %s",
			f.l.blocks.len(), len(f.l.ends), f.l.lengths.v4, len(f.l.members), w.standing(now))
	}
}
