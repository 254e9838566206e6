package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
)

var epoch = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// pour is a small detector: a leaky bucket of three a /28, and, if it has a
// flag, one over everything that raises it; while it is up, buckets hold one.
type pour struct {
	Buckets map[string][2]int64 // empty, last
	Pos     int                 // steps done
	flag    string
}

func (p *pour) bucket(key string, at int64, capacity, leak int64) (int, bool) {
	b := p.Buckets[key]
	now := max(at, b[1])
	b = [2]int64{max(b[0], now) + leak, now}
	b[0] = min(b[0], now+(capacity+1)*leak)
	p.Buckets[key] = b
	return int((b[0] - now + leak - 1) / leak), b[0]-now > capacity*leak
}

// observe is one failure; it returns the breaches.
func (p *pour) observe(g detect.Gate, addr netip.Addr, at int64) []*detect.Breach {
	if v := g.Verdict(addr, "sshd", nil, at); v == detect.Allowed || v == detect.Blocked {
		return nil
	}
	var out []*detect.Breach
	prefix, capacity := netip.PrefixFrom(addr, 28).Masked(), int64(3)
	if p.flag != "" && g.Flag(p.flag, at) {
		capacity = 1
	}
	if n, over := p.bucket(prefix.String(), at, capacity, 20e9); over {
		out = append(out, &detect.Breach{At: at, Rule: "ssh", Key: prefix.String(), Prefix: prefix, Addr: addr, Count: n, Points: n,
			Answers: []detect.Answer{{Kind: detect.Block}, {Kind: detect.Notify, Target: "ops"}}})
	}
	if p.flag == "" {
		return out
	}
	if n, over := p.bucket("all", at, 12, 1e9); over {
		out = append(out, &detect.Breach{At: at, Rule: "flood", Key: "all", Addr: addr, Count: n, Points: n,
			Answers: []detect.Answer{{Kind: detect.RaiseFlag, Flag: p.flag, For: 40 * time.Second}, {Kind: detect.Notify, Target: "ops"}}})
	}
	return out
}

func (p *pour) forget(ps []netip.Prefix) {
	for key := range p.Buckets {
		for _, q := range ps {
			if k, err := netip.ParsePrefix(key); err == nil && within(k, q) {
				delete(p.Buckets, key)
			}
		}
	}
}

// step is one thing that happens at a wall time.
type step struct {
	now    time.Time
	what   string // event, block, unblock, allow, disallow, save, expire
	addr   netip.Addr
	prefix netip.Prefix
	at     time.Time // of an event
	ttl    time.Duration
}

// timelineOf makes a random one, with late events, and orders by hand if asked.
func timelineOf(r *rand.Rand, n int, byHand bool) []step {
	var steps []step
	now := 0
	addr := func() netip.Addr {
		return netip.AddrFrom4([4]byte{192, 0, byte(r.IntN(2)), byte(r.IntN(4) * 16)})
	}
	for range n {
		s := step{what: "event", addr: addr()}
		now += []int{0, 0, 0, 0, 1, 1, 1, 2, 3, 20}[r.IntN(10)]
		s.now, s.at = at(now), at(now)
		if r.IntN(8) == 0 {
			s.at = at(now - r.IntN(20))
		}
		s.prefix = netip.PrefixFrom(s.addr, []int{24, 28, 28, 32}[r.IntN(4)]).Masked()
		s.ttl = time.Duration(1+r.IntN(300)) * time.Second
		switch r.IntN(60) {
		case 0, 1:
			s.what = "save"
		case 2, 3:
			s.what = "expire"
		case 4, 5, 6, 7, 8, 9, 10, 11:
			if byHand {
				s.what = []string{"unblock", "unblock", "unblock", "block", "allow", "disallow"}[r.IntN(6)]
				s.now = s.now.Add(time.Second / 2) // the clock is finer than the log
			}
		}
		if n := len(steps); n > 0 && s.now.Before(steps[n-1].now) {
			s.now = steps[n-1].now
		}
		steps = append(steps, s)
	}
	return steps
}

// life is a ledger and its detector, in a directory.
type life struct {
	t    *testing.T
	l    *Ledger
	p    pour
	dir  string
	told []string
	w    walls // told of the changes while the events are read again
}

func begin(t *testing.T, dir, flag string, now time.Time) *life {
	t.Helper()
	l, rec, err := Open(dir, now, Options{Escalation: Escalation{TTL: 30 * time.Second, Multiply: 2, Max: 10 * time.Minute, Decay: 20 * time.Minute},
		Widen: Widening{Count: 3}, Allow: []netip.Prefix{netip.MustParsePrefix("192.0.1.48/28")}})
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Notes) > 0 {
		t.Fatalf("opening: %q", rec.Notes)
	}
	f := &life{t: t, l: l, dir: dir, p: pour{Buckets: map[string][2]int64{}}}
	if data := rec.Parts["pour"]; data != nil {
		if err := json.Unmarshal(data, &f.p); err != nil {
			t.Fatal(err)
		}
	}
	f.p.forget(rec.Forget)
	f.p.flag = flag
	return f
}

func (f *life) do(s step, i int) {
	f.t.Helper()
	var err error
	switch s.what {
	case "event":
		for _, b := range f.p.observe(f.l, s.addr, s.at.UnixNano()) {
			out := f.l.Breach(b, s.now)
			if out.Fresh {
				f.told = append(f.told, fmt.Sprint(b.Rule, b.Key, b.At))
			}
			if f.w != nil {
				f.w.apply(f.t, out.Changes, s.now)
			}
		}
	case "block":
		_, err = f.l.BlockByHand(s.prefix, s.ttl, "test", "me", s.now)
		if err != nil && strings.Contains(err.Error(), "allowed") {
			err = nil
		}
	case "unblock":
		var done Lifted
		done, err = f.l.Unblock(netip.PrefixFrom(s.addr, 32), "me", s.now)
		f.p.forget(done.Forget)
	case "allow":
		var done Lifted
		done, err = f.l.Allow(s.prefix, s.ttl, "test", "me", s.now)
		f.p.forget(done.Forget)
	case "disallow":
		_, err = f.l.Disallow(s.prefix, "me", s.now)
	case "expire":
		f.l.Expire(s.now)
	case "save":
		f.save(s.now, i+1)
	}
	if err != nil {
		f.t.Fatalf("step %d %s %v: %v", i, s.what, s.prefix, err)
	}
}

func (f *life) save(now time.Time, pos int) {
	f.t.Helper()
	f.p.Pos = pos
	data, err := json.Marshal(f.p)
	if err == nil {
		err = f.l.Save(now, map[string][]byte{"pour": data})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// again reads the events again up to step k, and ends recovering. Walls that
// got the list at first and then the changes hold what the ledger lists.
func (f *life) again(steps []step, k int, now time.Time) {
	f.t.Helper()
	f.w = walls{}
	for _, b := range f.l.List(now) {
		f.w[b.Prefix] = b.Until
	}
	for i := f.p.Pos; i < k; i++ {
		if s := steps[i]; s.what == "event" {
			s.now = now
			f.do(s, i)
		}
	}
	f.w.apply(f.t, f.l.RecoveryDone(now), now)
	list := walls{}
	for _, b := range f.l.List(now) {
		list[b.Prefix] = b.Until
	}
	if got, want := f.w.standing(now), list.standing(now); got != want || f.t.Failed() {
		f.t.Fatalf("recovered: the walls hold\n%s, the ledger lists\n%s", got, want)
	}
	f.w = nil
}

// state is all that must be the same in both lives, to be compared as text.
func (f *life) state(now time.Time) string {
	var out []string
	for _, b := range f.l.List(now) {
		b.Evidence = nil
		out = append(out, fmt.Sprintf("block %+v", b))
	}
	for _, addr := range []string{"192.0.0.0", "192.0.0.16", "192.0.0.32", "192.0.0.48", "192.0.0.64", "192.0.1.0", "192.0.1.16", "192.0.1.32", "192.0.1.48"} {
		v := ""
		for back := range 60 {
			v += fmt.Sprint(f.l.Verdict(netip.MustParseAddr(addr), "sshd", nil, now.Add(-time.Duration(back)*5*time.Second).UnixNano()))
		}
		out = append(out, addr+" "+v)
	}
	for k, s := range f.l.strikes.by {
		out = append(out, fmt.Sprint("strike ", k.prefix(), s))
	}
	for k, b := range f.p.Buckets {
		if b[0] > now.UnixNano() {
			out = append(out, fmt.Sprint("bucket ", k, b))
		}
	}
	for _, s := range f.l.Flags(now) {
		out = append(out, fmt.Sprintf("flag %+v", s))
	}
	for _, a := range f.l.Allowances(now) {
		out = append(out, fmt.Sprintf("allow %+v", a))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// trail is the audit trail, as text, without the numbers.
func trail(t *testing.T, dir string) string {
	t.Helper()
	entries, err := History(dir, Query{Max: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		block := ""
		if e.Block != nil {
			block = fmt.Sprint(e.Block.Prefix, e.Block.Since, e.Block.Until, e.Block.Strikes)
		}
		out = append(out, fmt.Sprint(e.Event, e.Prefix, e.Rule, e.Key, e.Flag, e.By, e.Until, block))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// TestKilledAnywhere plays random timelines twice: once without interruption,
// and once killed at a random step, and perhaps again while it recovers. Blocks,
// verdicts, strikes, buckets, flags and the trail must be the same in the end,
// and everybody told once.
func TestKilledAnywhere(t *testing.T) {
	n := 250
	if os.Getenv("STOPLOG_SOAK") != "" {
		n = 20_000
	}
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 46))
		byHand, flag := i%2 == 0, ""
		if !byHand {
			flag = "captcha"
		}
		steps := timelineOf(r, 250, byHand)
		whole, _ := play(t, steps, flag)
		k := r.IntN(len(steps))
		f := begin(t, t.TempDir(), flag, steps[0].now)
		f.l.RecoveryDone(steps[0].now)
		for j, s := range steps[:k] {
			f.do(s, j)
		}
		now := steps[max(k-1, 0)].now
		told := f.told
		f.l.Close()
		f = begin(t, f.dir, flag, now)
		if r.IntN(3) == 0 && k > f.p.Pos { // killed again, perhaps after a snapshot, while it recovers
			stop := f.p.Pos + r.IntN(k-f.p.Pos)
			for j := f.p.Pos; j < stop; j++ {
				if s := steps[j]; s.what == "event" {
					s.now = now
					f.do(s, j)
				}
			}
			if r.IntN(2) == 0 {
				f.save(now, stop)
			}
			told = append(told, f.told...)
			f.l.Close()
			f = begin(t, f.dir, flag, now)
		}
		f.again(steps, k, now)
		for j := k; j < len(steps); j++ {
			f.do(steps[j], j)
		}
		told = append(told, f.told...)
		end := steps[len(steps)-1].now
		if got, want := f.state(end), whole.state(end); got != want {
			t.Fatalf("seed %d, killed at %d of %d:\ngot\n%s\nwant\n%s", i, k, len(steps), diff(got, want), diff(want, got))
		}
		if got, want := trail(t, f.dir), trail(t, whole.dir); got != want {
			t.Fatalf("seed %d, killed at %d: the trail:\ngot\n%s\nwant\n%s", i, k, diff(got, want), diff(want, got))
		}
		slices.Sort(told)
		slices.Sort(whole.told)
		if !slices.Equal(told, whole.told) {
			t.Fatalf("seed %d, killed at %d: told\ngot  %v\nwant %v", i, k, told, whole.told)
		}
		f.l.Close()
		whole.l.Close()
	}
}

func play(t *testing.T, steps []step, flag string) (*life, int) {
	f := begin(t, t.TempDir(), flag, steps[0].now)
	f.l.RecoveryDone(steps[0].now)
	for j, s := range steps {
		f.do(s, j)
	}
	return f, len(f.told)
}

// diff gives the lines of a that b has not.
func diff(a, b string) string {
	have := strings.Split(b, "\n")
	lines := slices.DeleteFunc(strings.Split(a, "\n"), func(s string) bool { return slices.Contains(have, s) })
	return cmp.Or(strings.Join(lines, "\n"), "(nothing more)")
}
