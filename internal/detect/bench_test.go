package detect

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// day makes events like those of a day of sshd: failures of existing and other
// accounts and probes, most sources seen a few times.
func day(n, sources int) []*parse.Event {
	r := rand.New(rand.NewPCG(1, 2))
	addrs := make([]netip.Addr, sources)
	for i := range addrs {
		addrs[i] = netip.AddrFrom4([4]byte{byte(1 + r.IntN(220)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})
	}
	evs := make([]*parse.Event, n)
	for i := range evs {
		at := start + int64(i)*int64(24*time.Hour)/int64(n)
		ev := failure(at, "sshd", []string{"root", "admin", "ann", "test"}[r.IntN(4)], "192.0.2.1")
		ev.Addr = addrs[int(float64(sources)*r.Float64()*r.Float64())]
		switch r.IntN(4) {
		case 0:
			ev.Kind = parse.UnknownUser
		case 1:
			ev.Outcome, ev.Kind, ev.User = parse.Other, parse.Probe, nil
		}
		evs[i] = ev
	}
	return evs
}

// blocking is the cheapest gate that blocks: what a ledger does per event is
// measured there.
type blocking map[netip.Prefix]bool

func (b blocking) Verdict(a netip.Addr, _ string, _ []byte, _ int64) Verdict {
	if p, err := a.Prefix(28); err == nil && b[p] {
		return Blocked
	}
	return Stranger
}
func (blocking) KnownAddr(netip.Addr, string, int64) bool { return false }
func (blocking) Flag(string, int64) bool                  { return false }

// BenchmarkObserve is an event of a day of sshd through all ready rules, the
// verdict and the evidence included; blocks are set as breaches ask for them.
func BenchmarkObserve(b *testing.B) {
	for _, sources := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			evs := day(1<<20, sources)
			line := &source.Line{Text: []byte("Nov 20 09:23:10 host sshd[4711]: Failed password for root from 192.0.2.1 port 58430 ssh2")}
			var e *Engine
			var g blocking
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%len(evs) == 0 {
					b.StopTimer()
					e, g = New(ready(b, "auto"), Options{Seed: 1}), blocking{}
					b.StartTimer()
				}
				for _, br := range e.Observe(evs[i%len(evs)], line, testOrigin, g) {
					g[br.Prefix] = true
				}
			}
		})
	}
}

// BenchmarkObserveNothing is an ordinary request, which fills no bucket.
func BenchmarkObserveNothing(b *testing.B) {
	e := New(ready(b, "auto"), Options{Seed: 1})
	ev := request(after(0), "192.0.2.1", "GET", "/index.html", 200)
	for b.Loop() {
		e.Observe(ev, nil, testOrigin, quietGate{})
	}
}
