package detect

import (
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/parse"
)

// BenchmarkFlood is a failure of a source of its own through all ready rules:
// one line a source, while the tables fill, and when they have been full since
// 500,000 sources. A line of the second should cost at most twice one of the first.
func BenchmarkFlood(b *testing.B) {
	for name, before := range map[string]int{"filling": 50_000, "full": 500_000} {
		b.Run(name, func(b *testing.B) {
			const lines = 100_000
			for b.Loop() {
				b.StopTimer()
				e := New(ready(b, "auto"), Options{Seed: 1})
				flood(e, 0, before)
				b.StartTimer()
				flood(e, before, lines)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/line")
		})
	}
}

// flood pours n failures, each of a /28 of its own all over the address space.
func flood(e *Engine, from, n int) {
	for i := from; i < from+n; i++ {
		x := uint32(i+1) * 0x9e3779b1 // a permutation: no source comes twice
		ev := parse.Event{Time: start + int64(i)*int64(10*time.Millisecond), Service: "sshd", Outcome: parse.Failure, Count: 1, First: true,
			Addr: netip.AddrFrom4([4]byte{byte(20 + x>>24%180), byte(x >> 16), byte(x >> 8), byte(x)}), User: []byte("ann")}
		if i%3 == 0 {
			ev.Kind = parse.UnknownUser
		}
		e.Observe(&ev, nil, testOrigin, quietGate{})
	}
}

// BenchmarkRestore reads back the buckets of a flood of 250,000 sources, as many
// as each table of the ready rules holds, and reports how many there are.
func BenchmarkRestore(b *testing.B) {
	set := ready(b, "auto")
	e := New(set, Options{Seed: 1})
	flood(e, 0, 250_000)
	saved := e.AppendBinary(nil)
	keys := 0
	for _, r := range e.Stats().Rules {
		keys += r.Keys
	}
	for b.Loop() {
		if err := New(set, Options{Seed: 2}).Restore(saved); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(keys), "buckets")
	b.ReportMetric(float64(len(saved))/(1<<20), "MiB")
}
