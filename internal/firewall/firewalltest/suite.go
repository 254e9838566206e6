//go:build linux

// Package firewalltest is the contract that every firewall.Backend passes,
// fakes and real walls alike.
package firewalltest

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

// Caps say what a wall cannot do, or what else can be asked of it.
type Caps struct {
	NoIPv6   bool
	NoSlow   bool // slowed entries are refused with ErrUnsupported
	NoReject bool
	NoPorts  bool
	// Max is how many blocks the wall was made for; 0: do not try to fill it.
	Max int
	// Packets: blocks are felt by connections of this process over lo.
	Packets bool
	// Others returns what stands in the wall that is not ours; it must not
	// change. Nil: there is nothing.
	Others func(t *testing.T) string
	// Break takes away what Setup made, as another program would; then Check
	// must say so and Setup repair it. Nil: it cannot be done.
	Break func(t *testing.T)
}

// Run runs the contract. make is called in each subtest, in its goroutine,
// and returns a wall that was not set up yet and holds nothing.
func Run(t *testing.T, mk func(t *testing.T) firewall.Backend, caps Caps) {
	s := suite{mk: mk, caps: caps}
	t.Run("block, list, unblock", s.blockListUnblock)
	t.Run("refresh", s.refresh)
	t.Run("absent", s.absent)
	t.Run("overlapping and nested", s.overlapping)
	t.Run("every action", s.actions)
	t.Run("the last one wins", s.lastWins)
	t.Run("ended", s.ended)
	t.Run("bad entries", s.bad)
	t.Run("setup again keeps blocks", s.setupAgain)
	t.Run("teardown removes ours only", s.teardown)
	t.Run("cancelled", s.cancelled)
	t.Run("like a map", s.model)
	if caps.Max > 0 {
		t.Run("full", s.full)
	}
	if caps.Break != nil {
		t.Run("broken", s.broken)
	}
	if caps.Packets {
		t.Run("packets", s.packets)
	}
}

type suite struct {
	mk   func(t *testing.T) firewall.Backend
	caps Caps
}

// wall is a Backend in a test, whose methods fail it.
type wall struct {
	t *testing.T
	b firewall.Backend
}

func (s suite) setUp(t *testing.T) wall {
	t.Helper()
	w := wall{t, s.mk(t)}
	w.setup(firewall.Policy{})
	return w
}

func (w wall) setup(p firewall.Policy) {
	w.t.Helper()
	if err := w.b.Setup(w.t.Context(), p); err != nil {
		w.t.Fatalf("Setup: %v", err)
	}
}

func (w wall) block(es ...firewall.Entry) {
	w.t.Helper()
	if err := w.b.Block(w.t.Context(), es); err != nil {
		w.t.Fatalf("Block: %v", err)
	}
}

func (w wall) unblock(ps ...string) {
	w.t.Helper()
	var xs []netip.Prefix
	for _, p := range ps {
		xs = append(xs, netip.MustParsePrefix(p))
	}
	if err := w.b.Unblock(w.t.Context(), xs); err != nil {
		w.t.Fatalf("Unblock: %v", err)
	}
}

// holds compares List with want; ends may be a little early, as walls that
// count in seconds make them, never late.
func (w wall) holds(want ...firewall.Entry) {
	w.t.Helper()
	got, err := firewall.ListAll(w.t.Context(), w.b)
	if err != nil {
		w.t.Fatalf("List: %v", err)
	}
	byPrefix := func(a, b firewall.Entry) int { return a.Prefix.Compare(b.Prefix) }
	slices.SortFunc(got, byPrefix)
	want = slices.SortedFunc(slices.Values(want), byPrefix)
	if len(got) != len(want) {
		w.t.Fatalf("List: got %d entries %v, want %d", len(got), got, len(want))
	}
	for i, g := range got {
		e := want[i]
		early := e.Until.Sub(g.Until)
		if g.Prefix != e.Prefix || g.Action != e.Action || !slices.Equal(g.Ports, e.Ports) {
			w.t.Errorf("List: got %+v, want %+v", g, e)
		}
		if early < -100*time.Millisecond || early > 3*time.Second {
			w.t.Errorf("List: %s ends %s early, want at most 3s and never late", g.Prefix, early)
		}
	}
}

// Entry makes an entry that ends in ttl.
func Entry(prefix string, ttl time.Duration) firewall.Entry {
	return firewall.Entry{Prefix: netip.MustParsePrefix(prefix), Until: time.Now().Add(ttl).UTC()}
}

// both returns an IPv4 and, if the wall can, an IPv6 entry.
func (s suite) both(ttl time.Duration) []firewall.Entry {
	es := []firewall.Entry{Entry("192.0.2.16/28", ttl)}
	if !s.caps.NoIPv6 {
		es = append(es, Entry("2001:db8:1:2::/64", ttl))
	}
	return es
}

func (s suite) blockListUnblock(t *testing.T) {
	w := s.setUp(t)
	w.holds()
	es := s.both(time.Hour)
	single := Entry("198.51.100.7/32", time.Hour)
	w.block(append(es, single)...)
	w.holds(append(es, single)...)
	w.unblock("192.0.2.16/28", "2001:db8:1:2::/64")
	w.holds(single)
	w.unblock("198.51.100.7/32")
	w.holds()
}

func (s suite) refresh(t *testing.T) {
	w := s.setUp(t)
	w.block(s.both(time.Hour)...)
	for _, ttl := range []time.Duration{20 * 24 * time.Hour, 2 * time.Hour} {
		es := s.both(ttl)
		w.block(es...)
		w.holds(es...)
		w.block(es...)
		w.holds(es...)
	}
}

func (s suite) absent(t *testing.T) {
	w := s.setUp(t)
	w.unblock("192.0.2.16/28", "192.0.2.1/32")
	w.block(s.both(time.Hour)...)
	w.unblock("192.0.2.0/24", "192.0.2.16/29", "192.0.2.16/32", "203.0.113.0/28")
	w.holds(s.both(time.Hour)...)
	w.unblock("203.0.113.0/28", "192.0.2.16/28", "198.51.100.0/28", "2001:db8:1:2::/64")
	w.holds()
	w.unblock("192.0.2.16/28")
	w.block()
	w.unblock()
}

func (s suite) overlapping(t *testing.T) {
	w := s.setUp(t)
	es := []firewall.Entry{
		Entry("192.0.2.0/24", time.Hour),
		Entry("192.0.2.16/28", 2*time.Hour),
		Entry("192.0.2.17/32", 3*time.Hour),
		Entry("192.0.0.0/16", 4*time.Hour),
	}
	if !s.caps.NoIPv6 {
		es = append(es, Entry("2001:db8::/48", time.Hour), Entry("2001:db8:0:1::/64", 2*time.Hour), Entry("2001:db8:0:1::1/128", time.Hour))
	}
	w.block(es...)
	w.holds(es...)
	w.unblock("192.0.2.16/28", "192.0.0.0/16")
	w.holds(append([]firewall.Entry{es[0], es[2]}, es[4:]...)...)
}

func (s suite) actions(t *testing.T) {
	w := s.setUp(t)
	ports := []firewall.Ports{{Proto: "tcp", From: 22, To: 22}, {Proto: "udp", From: 5000, To: 5010}, {From: 80, To: 90}}
	var want []firewall.Entry
	for i, a := range []firewall.Action{firewall.Drop, firewall.Reject, firewall.Slow} {
		for j, ps := range [][]firewall.Ports{nil, ports} {
			for _, e := range s.both(time.Hour) {
				b := e.Prefix.Addr().AsSlice()
				b[1], b[2] = byte(i), byte(j)
				addr, _ := netip.AddrFromSlice(b)
				e.Prefix, e.Action, e.Ports = netip.PrefixFrom(addr, e.Prefix.Bits()).Masked(), a, ps
				if a == firewall.Slow && s.caps.NoSlow || a == firewall.Reject && s.caps.NoReject || ps != nil && s.caps.NoPorts {
					if err := w.b.Block(t.Context(), []firewall.Entry{e}); !errors.Is(err, firewall.ErrUnsupported) {
						t.Errorf("Block %s with ports %v: got %v, want ErrUnsupported", a, ps, err)
					}
					continue
				}
				want = append(want, e)
			}
		}
	}
	w.block(want...)
	w.holds(want...)
	for _, e := range want {
		w.unblock(e.Prefix.String())
	}
	w.holds()
}

func (s suite) lastWins(t *testing.T) {
	w := s.setUp(t)
	for _, first := range s.both(time.Hour) {
		second := first
		second.Until = first.Until.Add(time.Hour)
		if !s.caps.NoReject {
			second.Action = firewall.Reject
		}
		if !s.caps.NoPorts {
			second.Ports = []firewall.Ports{{Proto: "tcp", From: 25, To: 25}}
		}
		w.block(first, second)
		w.holds(second)
		w.block(first)
		w.holds(first)
		w.block(second)
		w.holds(second)
		w.unblock(first.Prefix.String())
		w.holds()
	}
}

func (s suite) ended(t *testing.T) {
	w := s.setUp(t)
	w.block(s.both(-time.Second)...)
	w.holds()
	w.block(s.both(time.Hour)...)
	w.block(s.both(-time.Hour)...)
	w.holds()
}

func (s suite) bad(t *testing.T) {
	w := s.setUp(t)
	until := time.Now().Add(time.Hour)
	good := Entry("198.51.100.0/28", time.Hour)
	for _, p := range []netip.Prefix{
		{},
		netip.PrefixFrom(netip.MustParseAddr("192.0.2.1"), 28),
		netip.PrefixFrom(netip.MustParseAddr("::ffff:192.0.2.0"), 124),
		netip.MustParsePrefix("0.0.0.0/0"),
		netip.MustParsePrefix("::/0"),
	} {
		err := w.b.Block(t.Context(), []firewall.Entry{{Prefix: p, Until: until}, good})
		if err == nil {
			t.Errorf("Block %v: got no error, want one", p)
		}
		w.holds(good)
	}
}

func (s suite) setupAgain(t *testing.T) {
	w := s.setUp(t)
	es := s.both(time.Hour)
	w.block(es...)
	p := firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.20/32"), netip.MustParsePrefix("2001:db8:1:2::5/128")}}
	p.Lockdown.Until = time.Now().Add(time.Hour)
	p.Lockdown.Ports = []firewall.Ports{{Proto: "tcp", From: 22, To: 22}}
	p.Lockdown.Known = []netip.Addr{netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8::9")}
	w.setup(p)
	w.holds(es...)
	w.setup(p)
	w.holds(es...)
	w.setup(firewall.Policy{Allow: p.Allow[1:]})
	w.holds(es...)
	w.setup(firewall.Policy{})
	w.holds(es...)
}

func (s suite) teardown(t *testing.T) {
	w := wall{t, s.mk(t)}
	others := func() string {
		if s.caps.Others == nil {
			return ""
		}
		return s.caps.Others(t)
	}
	before := others()
	w.setup(firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.20/32")}})
	w.block(s.both(time.Hour)...)
	w.block(s.both(2 * time.Hour)...)
	w.unblock("192.0.2.16/28")
	for range 2 {
		if err := w.b.Teardown(t.Context()); err != nil {
			t.Fatalf("Teardown: %v", err)
		}
	}
	if got := others(); got != before {
		t.Errorf("after Teardown: got\n%s\nwant, as before Setup\n%s", got, before)
	}
	w.setup(firewall.Policy{})
	w.holds()
}

func (s suite) full(t *testing.T) {
	w := s.setUp(t)
	var es []firewall.Entry
	for i := range s.caps.Max + 3 {
		a := netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
		es = append(es, firewall.Entry{Prefix: netip.PrefixFrom(a, 32), Until: time.Now().Add(time.Hour)})
	}
	err := w.b.Block(t.Context(), es)
	var full *firewall.FullError
	if !errors.As(err, &full) {
		t.Fatalf("Block of %d into %d: got %v, want a FullError", len(es), s.caps.Max, err)
	}
	if full.Max != s.caps.Max || len(full.Left) != 3 {
		t.Errorf("got %+v, want 3 left out of %d", full, s.caps.Max)
	}
	w.holds(es[:s.caps.Max]...)
	w.block(es[:s.caps.Max]...) // a refresh needs no room
	w.unblock(es[0].Prefix.String())
	w.block(es[len(es)-1])
	w.holds(append(es[1:s.caps.Max:s.caps.Max], es[len(es)-1])...)
}

func (s suite) broken(t *testing.T) {
	w := s.setUp(t)
	c, ok := w.b.(firewall.Checker)
	if !ok {
		t.Fatal("can break, but is no Checker")
	}
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("Check after Setup: %v", err)
	}
	w.block(s.both(time.Hour)...)
	s.caps.Break(t)
	if err := c.Check(t.Context()); !errors.Is(err, firewall.ErrBroken) {
		t.Errorf("Check of the broken: got %v, want ErrBroken", err)
	}
	w.setup(firewall.Policy{})
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("Check after the repair: %v", err)
	}
	if _, err := firewall.ListAll(t.Context(), w.b); err != nil && !errors.Is(err, firewall.ErrBroken) {
		t.Errorf("List after the repair: %v", err)
	}
	w.block(s.both(time.Hour)...)
	w.holds(s.both(time.Hour)...)
}

func (s suite) cancelled(t *testing.T) {
	w := s.setUp(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Some walls are done before they could look; what counts is that none hangs,
	// and that an error names the cause.
	if err := w.b.Block(ctx, s.both(time.Hour)); err != nil && !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "cancel") {
		t.Errorf("Block with a cancelled context: got %v, want nothing or context.Canceled", err)
	}
}
