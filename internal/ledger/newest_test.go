package ledger

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestNewest compares each page with the whole list, sorted.
func TestNewest(t *testing.T) {
	l, _, err := Open("", epoch, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.RecoveryDone(epoch)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range uint32(300) {
		since := epoch.Add(time.Duration(rnd.IntN(40)) * time.Second)
		by := "anna"
		if i%3 == 0 {
			by = "bob"
		}
		if _, err := l.BlockByHand(netip.PrefixFrom(addrOf(1<<30+i*16), 28), time.Duration(1+rnd.IntN(100))*time.Minute, "", by, since); err != nil {
			t.Fatal(err)
		}
	}
	now := epoch.Add(50 * time.Minute) // some have ended
	for _, name := range []string{"", "anna", "nobody"} {
		want := func(b *Block) bool { return name == "" || b.By == name }
		all := slices.DeleteFunc(l.List(now), func(b Block) bool { return !want(&b) })
		slices.SortFunc(all, func(a, b Block) int {
			return cmp.Or(b.Since.Compare(a.Since), comparePrefixes(a.Prefix, b.Prefix))
		})
		for _, at := range [][2]int{{0, 10}, {10, 10}, {95, 20}, {0, 1000}, {1000, 10}, {0, 0}, {-5, 3}} {
			page, matches, total := l.Newest(now, want, at[0], at[1])
			if matches != len(all) || total != len(l.List(now)) {
				t.Errorf("%q: %d of %d match, want %d of %d", name, matches, total, len(all), len(l.List(now)))
			}
			from := min(max(at[0], 0), len(all))
			if exp := all[from:min(from+at[1], len(all))]; !slices.EqualFunc(page, exp, func(a, b Block) bool { return a.Prefix == b.Prefix }) {
				t.Errorf("%q, %v: %d blocks, want %d, the newest first", name, at, len(page), len(exp))
			}
		}
	}
}

func BenchmarkNewest(b *testing.B) {
	l := filled(b, "", 100_000)
	for b.Loop() {
		l.Newest(epoch, func(*Block) bool { return true }, 0, 10)
	}
}

func BenchmarkList(b *testing.B) {
	l := filled(b, "", 100_000)
	for b.Loop() {
		l.List(epoch)
	}
}
