package feed

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stoplog/internal/export"
)

func block(prefix string, d time.Duration) export.Entry {
	e := export.Entry{Prefix: netip.MustParsePrefix(prefix), Rule: "ssh-login", Count: 6}
	if d != 0 {
		e.Until = time.Now().Add(d)
	}
	return e
}

func prefixes(ss ...string) (ps []netip.Prefix) {
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Snapshot
		start := time.Now()
		s.Set(block("192.0.2.0/28", time.Minute), block("192.0.2.3/32", time.Hour), block("192.0.2.0/24", 2*time.Minute), block("::ffff:198.51.100.0/124", 0), block("2001:db8::/64", time.Minute), export.Entry{})
		check := func(addr string, want time.Duration, blocked bool) {
			t.Helper()
			until, got := s.Lookup(netip.MustParseAddr(addr), every)
			if got != blocked || want != 0 && !until.Equal(start.Add(want)) || want == 0 && !until.IsZero() {
				t.Errorf("after %s, %s: until %s (%v); want %s (%v)", time.Since(start), addr, until.Sub(start), got, want, blocked)
			}
		}
		check("192.0.2.3", time.Hour, true)
		check("192.0.2.4", 2*time.Minute, true)
		check("::ffff:192.0.2.4", 2*time.Minute, true)
		check("192.0.3.0", 0, false)
		check("198.51.100.15", 0, true)
		check("2001:db8::1%eth0", time.Minute, true)
		check("2001:db8:0:1::1", 0, false)
		if _, blocked := s.Lookup(netip.Addr{}, every); blocked {
			t.Error("no address is blocked")
		}
		time.Sleep(2 * time.Minute) // of the bubble
		check("192.0.2.4", 0, false)
		check("192.0.2.3", time.Hour, true)
		check("2001:db8::1", 0, false)
		s.Remove(prefixes("192.0.2.3/32", "203.0.113.0/24", "198.51.100.0/28")...)
		check("192.0.2.3", 0, false)
		check("198.51.100.15", 0, false)
	})
}

func TestAllowAndFlags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Snapshot
		a := netip.MustParseAddr("192.0.2.3")
		if s.Allowed(a) || s.AllowList() != nil || s.Flags() != nil {
			t.Error("the empty snapshot allows or raises something")
		}
		if err := s.SetAllow(prefixes("192.0.2.3/30", "2001:db8::/32")); err != nil {
			t.Fatal(err)
		}
		if err := s.SetAllow([]netip.Prefix{{}}); err == nil {
			t.Error("an invalid allowlist was taken")
		}
		for addr, want := range map[string]bool{"192.0.2.0": true, "::ffff:192.0.2.3": true, "192.0.2.4": false, "2001:db8:1::1": true, "2001:db9::1": false} {
			if got := s.Allowed(netip.MustParseAddr(addr)); got != want {
				t.Errorf("%s allowed: %v, want %v", addr, got, want)
			}
		}
		if got := s.AllowList(); !slices.Equal(got, prefixes("192.0.2.0/30", "2001:db8::/32")) {
			t.Errorf("allowlist %v", got)
		}
		s.SetFlags([]Flag{{"captcha", time.Now().Add(time.Minute)}, {"targeted", time.Now().Add(time.Hour)}})
		if got := s.Flags(); !slices.Equal(got, []string{"captcha", "targeted"}) {
			t.Errorf("flags %v", got)
		}
		time.Sleep(time.Minute)
		if got := s.Flags(); !slices.Equal(got, []string{"targeted"}) {
			t.Errorf("a minute later: flags %v", got)
		}
	})
}

func TestVersion(t *testing.T) {
	var s Snapshot
	last := uint64(0)
	moved := func(what string, want bool) {
		t.Helper()
		es, v := s.Entries()
		if got := v != last; got != want {
			t.Errorf("%s: version moved: %v, want %v", what, got, want)
		}
		last = v
		if again, w := s.Entries(); w != v || len(again) != len(es) {
			t.Errorf("%s: asked again: %d entries, version %d; want %d and %d", what, len(again), w, len(es), v)
		}
	}
	b := block("192.0.2.0/28", time.Hour)
	s.Set(b)
	moved("a block", true)
	s.Set(b)
	moved("the same block", false)
	s.Set(block("192.0.2.0/28", 2*time.Hour))
	moved("refreshed", true)
	s.Remove(prefixes("198.51.100.0/28")...)
	moved("an absent one removed", false)
	if err := s.SetAllow(nil); err != nil {
		t.Fatal(err)
	}
	moved("the allowlist", true)
	s.Remove(b.Prefix)
	moved("removed", true)
	s.Replace([]export.Entry{b})
	moved("replaced", true)
}

// TestEntriesStay: what Entries returned does not change under who reads it.
func TestEntriesStay(t *testing.T) {
	var s Snapshot
	s.Set(block("192.0.2.0/28", time.Hour), block("198.51.100.0/28", time.Hour))
	es, _ := s.Entries()
	before := fmt.Sprint(es)
	s.Set(block("192.0.2.0/28", 2*time.Hour))
	s.Remove(es[1].Prefix)
	s.Replace(nil)
	if got := fmt.Sprint(es); got != before {
		t.Errorf("got %s\nwant %s", got, before)
	}
}

// TestSnapshotModel compares with a plain list, over random changes.
func TestSnapshotModel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var s Snapshot
	model := map[netip.Prefix]export.Entry{}
	for range 5000 {
		a := netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(256))})
		p := netip.PrefixFrom(a, 24+r.IntN(9)).Masked()
		switch r.IntN(3) {
		case 0:
			s.Remove(p)
			delete(model, p)
		default:
			e := export.Entry{Prefix: p, Until: time.Now().Add(time.Duration(1+r.IntN(9)) * time.Hour)}
			s.Set(e)
			model[p] = e
		}
		var want time.Time
		for q, e := range model {
			if q.Contains(a) && e.Until.After(want) {
				want = e.Until
			}
		}
		if until, blocked := s.Lookup(a, every); blocked == want.IsZero() || !until.Equal(want) {
			t.Fatalf("%s: until %s (%v), want %s", a, until, blocked, want)
		}
	}
	if es, _ := s.Entries(); len(es) != len(model) {
		t.Errorf("%d entries, want %d", len(es), len(model))
	}
}

// TestSnapshotTogether is for the race detector.
func TestSnapshotTogether(t *testing.T) {
	var s Snapshot
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				e := export.Entry{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), 0}), 24), Until: time.Now().Add(time.Hour)}
				s.Set(e)
				if _, blocked := s.Lookup(e.Prefix.Addr(), every); !blocked {
					t.Errorf("%s was put in and is not there", e.Prefix)
				}
				s.Entries()
				s.SetFlags([]Flag{{"a", time.Now()}})
				if err := s.SetAllow(prefixes("192.0.2.0/28")); err != nil {
					t.Error(err)
				}
				s.Allowed(e.Prefix.Addr())
				s.Flags()
				if j%2 == 0 {
					s.Remove(e.Prefix)
				}
			}
		})
	}
	wg.Wait()
	if es, _ := s.Entries(); len(es) != 4*100 {
		t.Errorf("%d entries, want 400", len(es))
	}
}

func filled(n int) *Snapshot {
	es := make([]export.Entry, n)
	for i := range es {
		a := netip.AddrFrom4([4]byte{byte(1 + i>>16), byte(i >> 8), byte(i), 0})
		es[i] = export.Entry{Prefix: netip.PrefixFrom(a, 28), Until: time.Now().Add(time.Hour), Rule: "ssh-login", Count: 6}
	}
	s := &Snapshot{}
	s.Replace(es)
	s.Set(block("203.0.113.0/24", time.Hour), block("198.51.100.7/32", time.Hour), block("2001:db8::/64", time.Hour))
	return s
}

func BenchmarkSnapshot(b *testing.B) {
	s := filled(100_000)
	e := block("192.0.2.0/28", time.Hour)
	b.Run("lookup", func(b *testing.B) {
		for b.Loop() {
			s.Lookup(e.Prefix.Addr(), every)
		}
	})
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			s.Set(e)
			s.Remove(e.Prefix)
		}
	})
	b.Run("change and list", func(b *testing.B) {
		for b.Loop() {
			s.Set(e)
			s.Remove(e.Prefix)
			s.Entries()
		}
	})
}

func every(export.Limit) bool { return true }
