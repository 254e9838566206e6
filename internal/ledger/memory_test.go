package ledger

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
)

// BenchmarkMemoryPerBlock fills a ledger as a flood does, and reports the bytes
// of heap that each standing block takes, evidence and buckets not counted.
func BenchmarkMemoryPerBlock(b *testing.B) {
	const n = 200_000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
		l, _, err := Open("", now, Options{MaxBlocks: n, Widen: Widening{Count: 1 << 30, Bits4: 24, Bits6: 48}})
		if err != nil {
			b.Fatal(err)
		}
		l.RecoveryDone(now)
		before := heap()
		for i := range n {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{20 + byte(i>>20), byte(i >> 12), byte(i >> 4), byte(i << 4)}), 28)
			l.Breach(&detect.Breach{Rule: strings.Clone("ssh-login"), Key: p.String(), Prefix: p, Addr: p.Addr(), At: now.UnixNano() + int64(i), Count: 6, Points: 6,
				Service: strings.Clone("sshd"), User: strings.Clone("root"), Source: strings.Clone("auth.log"), Line: int64(i)}, now)
		}
		b.ReportMetric(float64(heap()-before)/n, "B/block")
		runtime.KeepAlive(l)
	}
}
