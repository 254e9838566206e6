package ledger

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"stoplog/internal/detect"
)

// TestVictims does whatever can happen to a full ledger and holds the order in
// which blocks go against a plain sort, and the records' places in it.
func TestVictims(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	l := fresh(t, Options{MaxBlocks: 40})
	pick := func() netip.Prefix { return netip.PrefixFrom(addrOf(uint32(r.IntN(120))*16), 28) }
	now := 0
	for step := range 20_000 {
		now += r.IntN(20)
		var want *record
		for rec := range l.blocks.all() {
			if want == nil || rec.before(want) {
				want = rec
			}
		}
		p, full := pick(), l.blocks.len() == 40
		var first pkey // want's memory may become the new record's
		if want != nil {
			first = want.k
		}
		if known := l.blocks.get(keyOf(p)) != nil; known || !full {
			want = nil
		}
		switch r.IntN(10) {
		case 0:
			l.BlockByHand(p, time.Duration(r.IntN(500))*time.Second, "", "me", at(now))
		case 1:
			l.Unblock(p, "me", at(now))
			want = nil
		case 2:
			l.Expire(at(now))
			want = nil
		case 3:
			l.Allow(p, time.Second, "", "me", at(now))
			want = nil
		default:
			b := breach(p.String(), now-r.IntN(300))
			b.TTL = time.Duration(1+r.IntN(900)) * time.Second
			if before := l.blocks.len(); len(l.Breach(b, at(now)).Changes) == 0 && l.blocks.len() == before {
				want = nil // refused, or nothing new
			}
		}
		if want != nil && l.blocks.get(first) != nil {
			t.Fatalf("step %d: %v stands, which had to go", step, first.prefix())
		}
		if l.blocks.len() > 40 {
			t.Fatalf("step %d: %d blocks", step, l.blocks.len())
		}
		inOrder(t, l)
	}
	if l.stats.Evicted == 0 {
		t.Error("nothing was ever evicted")
	}
}

func inOrder(t *testing.T, l *Ledger) {
	t.Helper()
	if l.victims == nil {
		return
	}
	if len(l.victims) != l.blocks.len() {
		t.Fatalf("%d in order, %d blocks", len(l.victims), l.blocks.len())
	}
	for i, r := range l.victims {
		if int(r.place) != i || l.blocks.get(r.k) != r || i > 0 && r.before(l.victims[(i-1)/2]) {
			t.Fatalf("%v is at %d, says %d", r.prefix(), i, r.place)
		}
	}
}

// TestVictimOrder is what is documented: ended ones first, then those that end
// soonest, those by hand last.
func TestVictimOrder(t *testing.T) {
	l := fresh(t, Options{MaxBlocks: 16})
	l.BlockByHand(pfx("198.51.100.1/32"), time.Second, "", "me", at(0))
	var want []string
	for i := range 15 {
		b := breach(fmt.Sprintf("192.0.2.%d/28", i*16), 0)
		b.TTL = time.Duration(100-i) * time.Second
		l.Breach(b, at(0))
		want = append(want, b.Key)
	}
	l.Unblock(pfx(want[3]), "me", at(0)) // it has ended
	slices.Reverse(want)                 // the later ones end sooner
	want = append([]string{"192.0.2.48/28"}, slices.DeleteFunc(want, func(p string) bool { return p == "192.0.2.48/28" })...)
	want = append(want, "198.51.100.1/32")
	for i, p := range want {
		b := breach(fmt.Sprintf("203.0.113.%d/28", i*16), 1)
		b.TTL = time.Hour
		l.Breach(b, at(1))
		if l.blocks.get(keyOf(pfx(p))) != nil && i < len(want)-1 {
			t.Fatalf("after %d more, %s stands", i+1, p)
		}
	}
	if l.blocks.get(keyOf(pfx("198.51.100.1/32"))) == nil {
		t.Error("the block by hand went before those of rules")
	}
}

// BenchmarkBreachFull is a new block in a ledger that has as many as it may:
// it should cost little more than in one that has room.
func BenchmarkBreachFull(b *testing.B) {
	for _, n := range []int{1000, 200_000} {
		for _, full := range []bool{false, true} {
			b.Run(fmt.Sprintf("blocks=%d/full=%v", n, full), func(b *testing.B) {
				l := filled(b, "", n)
				l.o.MaxBlocks = 1 << 30
				if full {
					l.o.MaxBlocks = n
				}
				b.ReportAllocs()
				i := uint32(0)
				for b.Loop() {
					i++
					p := netip.PrefixFrom(addrOf(1<<31+i*16), 28)
					l.Breach(&detect.Breach{At: epoch.UnixNano() + int64(i), Rule: "ssh-login", Key: p.String(), Prefix: p, Addr: p.Addr(), Count: 6, TTL: time.Hour}, epoch)
				}
			})
		}
	}
}
