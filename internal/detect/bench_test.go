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

// day is a day of sshd: failures of existing and other accounts and probes,
// most sources seen a few times. It is kept small, so that neither the
// collector nor the cache is measured.
type day struct {
	addrs []netip.Addr
	picks []struct{ addr, user, kind uint32 }
	ev    parse.Event
}

var dayUsers = [][]byte{[]byte("root"), []byte("admin"), []byte("ann"), []byte("test")}

func newDay(n, sources int) *day {
	r := rand.New(rand.NewPCG(1, 2))
	d := &day{addrs: make([]netip.Addr, sources), picks: make([]struct{ addr, user, kind uint32 }, n)}
	for i := range d.addrs {
		d.addrs[i] = netip.AddrFrom4([4]byte{byte(1 + r.IntN(220)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})
	}
	for i := range d.picks {
		p := &d.picks[i]
		p.addr, p.user, p.kind = uint32(float64(sources)*r.Float64()*r.Float64()), r.Uint32N(4), r.Uint32N(4)
	}
	return d
}

func (d *day) event(i int) *parse.Event {
	p := d.picks[i]
	d.ev = parse.Event{Time: start + int64(i)*(int64(24*time.Hour)/int64(len(d.picks))), Addr: d.addrs[p.addr],
		Service: "sshd", Outcome: parse.Failure, User: dayUsers[p.user], Count: 1}
	switch p.kind {
	case 0:
		d.ev.Kind = parse.UnknownUser
	case 1:
		d.ev.Outcome, d.ev.Kind, d.ev.User = parse.Other, parse.Probe, nil
	}
	return &d.ev
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
func (blocking) Struck(netip.Prefix, int64) (int64, bool) { return 0, false }
func (blocking) Flag(string, int64) bool                  { return false }

// BenchmarkObserve is an event of a day of sshd through all ready rules, the
// verdict and the evidence included; blocks are set as breaches ask for them.
func BenchmarkObserve(b *testing.B) {
	for _, sources := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			const events = 1 << 20
			d := newDay(events, sources)
			line := &source.Line{Text: []byte("Nov 20 09:23:10 host sshd[4711]: Failed password for root from 192.0.2.1 port 58430 ssh2")}
			var e *Engine
			var g blocking
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%events == 0 {
					b.StopTimer()
					e, g = New(ready(b, "auto"), Options{Seed: 1}), blocking{}
					b.StartTimer()
				}
				for _, br := range e.Observe(d.event(i%events), line, testOrigin, g) {
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
