//go:build linux

package firewalltest

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

// model compares a wall with a map under random orders: blocks, refreshes,
// changes of action and ports, nested prefixes, unblocks, repeated setups.
func (s suite) model(t *testing.T) {
	w := s.setUp(t)
	rnd := rand.New(rand.NewPCG(3, 5))
	held := map[netip.Prefix]firewall.Entry{}
	for range 12 {
		switch rnd.IntN(6) {
		case 0, 1, 2:
			w.block(s.randomBlocks(rnd, held)...)
		case 3, 4:
			var gone []string
			for p := range held {
				if rnd.IntN(3) == 0 {
					gone = append(gone, p.String())
					delete(held, p)
				}
			}
			w.unblock(append(gone, "203.0.113.0/28")...)
		case 5:
			w.setup(firewall.Policy{})
		}
		want := make([]firewall.Entry, 0, len(held))
		for _, e := range held {
			want = append(want, e)
		}
		w.holds(want...)
		if t.Failed() {
			return
		}
	}
}

// randomBlocks makes some blocks of a few prefixes that overlap, and notes
// them in held.
func (s suite) randomBlocks(rnd *rand.Rand, held map[netip.Prefix]firewall.Entry) []firewall.Entry {
	var es []firewall.Entry
	for range 1 + rnd.IntN(6) {
		a := netip.AddrFrom4([4]byte{192, 0, 2, byte(rnd.IntN(4)) << 4})
		bits := 24 + 4*rnd.IntN(3)
		if !s.caps.NoIPv6 && rnd.IntN(2) == 0 {
			a = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: byte(rnd.IntN(3))})
			bits = 48 + 16*rnd.IntN(2)
		}
		e := firewall.Entry{
			Prefix: netip.PrefixFrom(a, bits).Masked(),
			Until:  time.Now().Add(time.Duration(1+rnd.IntN(1000)) * time.Minute).UTC(),
		}
		if !s.caps.NoReject && rnd.IntN(3) == 0 {
			e.Action = firewall.Reject
		}
		if !s.caps.NoSlow && rnd.IntN(3) == 0 {
			e.Action = firewall.Slow
		}
		if !s.caps.NoPorts && rnd.IntN(3) == 0 {
			e.Ports = []firewall.Ports{{Proto: "tcp", From: 22, To: 22}}
		}
		if _, there := held[e.Prefix]; !there && s.caps.Max > 0 && len(held) >= s.caps.Max-1 {
			continue
		}
		es, held[e.Prefix] = append(es, e), e
	}
	return es
}
