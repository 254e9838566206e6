package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestNth(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		xs := make([]int64, 1+r.IntN(60))
		for i := range xs {
			xs[i] = r.Int64N(1 + r.Int64N(80))
		}
		sorted, n := slices.Sorted(slices.Values(xs)), r.IntN(len(xs))
		if got := nth(slices.Clone(xs), n); got != sorted[n] {
			t.Fatalf("nth(%v, %d): got %d, want %d", xs, n, got, sorted[n])
		}
	}
}

// BenchmarkLoginFlood is a login from an address of its own, while there is room
// for it and when others have to go.
func BenchmarkLoginFlood(b *testing.B) {
	for name, before := range map[string]int{"filling": 0, "full": 100_000} {
		b.Run(name, func(b *testing.B) {
			const lines = 50_000
			user := []byte("ann")
			for b.Loop() {
				b.StopTimer()
				l, at := filled(b, "", 0), epoch.UnixNano()
				for i := range before {
					l.Login("sshd", user, addrOf(uint32(i)), at+int64(i), true)
				}
				b.StartTimer()
				for i := range lines {
					l.Login("sshd", user, addrOf(1<<30+uint32(i)), at+int64(before+i), true)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/line")
		})
	}
}

// BenchmarkBreachFlood is a breach of a prefix of its own, likewise: of blocks and
// strikes.
func BenchmarkBreachFlood(b *testing.B) {
	for name, before := range map[string]int{"filling": 0, "full": 200_000} {
		b.Run(name, func(b *testing.B) {
			const lines = 50_000
			for b.Loop() {
				b.StopTimer()
				l := filled(b, "", before)
				br, at := breach("203.0.113.0/28", 0), epoch.UnixNano()
				b.StartTimer()
				for i := range lines {
					br.Prefix, br.At = keyAt(addrOf(uint32(i*16)), 28).prefix(), at+int64(i)
					br.Key = br.Prefix.String()
					l.Breach(br, epoch)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/line")
		})
	}
}
