package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEndsAreBounded prolongs one block again and again.
func TestEndsAreBounded(t *testing.T) {
	l := fresh(t, Options{})
	l.BlockByHand(pfx("198.51.100.1/32"), 0, "", "", at(0))
	for i := range 10_000 {
		l.Breach(breach("192.0.2.0/28", i), at(i))
	}
	if got := len(l.ends); got > 1100 {
		t.Errorf("got %d ends of two blocks", got)
	}
	if got := changes(l.Expire(at(10_000 + 599))); got != "lift 192.0.2.0/28" {
		t.Errorf("after its end: got %q", got)
	}
}

func TestMaxBlocks(t *testing.T) {
	l := fresh(t, Options{MaxBlocks: 64})
	l.BlockByHand(pfx("198.51.100.1/32"), time.Second, "", "", at(0))
	set := map[netip.Prefix]bool{}
	for i := range 1000 {
		p := netip.PrefixFrom(addrOf(1<<30+uint32(i)*16), 28)
		for _, c := range l.Breach(breach(p.String(), i%7), at(0)).Changes {
			if c.Op == Set {
				set[c.Block.Prefix] = true
			} else {
				delete(set, c.Block.Prefix)
			}
		}
	}
	if got := len(l.List(at(0))); got > 64 || got != len(set)+1 {
		t.Errorf("got %d blocks, the walls %d and one, want at most 64 and the same", got, len(set))
	}
	if l.Stats().Evicted == 0 || len(l.Covering(adr("198.51.100.1"), at(0))) != 1 {
		t.Errorf("got %d evicted; the block by hand must stay", l.Stats().Evicted)
	}
}

func TestKnownIsBounded(t *testing.T) {
	l := fresh(t, Options{MaxKnown: 160})
	for i := range 1000 {
		l.Login("sshd", fmt.Appendf(nil, "user%d", i), adr("192.0.2.1"), at(i).UnixNano(), true)
		l.Login("sshd", nil, addrOf(uint32(i)), at(i).UnixNano(), true)
	}
	if got := l.Stats(); got.Known > 160 || got.KnownEvicted == 0 {
		t.Errorf("got %d logins, %d evicted", got.Known, got.KnownEvicted)
	}
	if !l.known.good(adr("192.0.2.1"), "sshd", []byte("user999"), at(1000).UnixNano()) || !l.KnownAddr(addrOf(999), "sshd", at(1000).UnixNano()) {
		t.Error("the latest went")
	}
}

func TestStrikesAreBounded(t *testing.T) {
	l := fresh(t, Options{MaxStrikes: 160})
	for i := range 1000 {
		p := netip.PrefixFrom(addrOf(uint32(1<<30+i*16)), 28)
		l.Breach(breach(p.String(), i), at(i))
	}
	if got := l.Stats(); got.Strikes > 160 || got.StrikesEvicted == 0 {
		t.Errorf("got %d, %d evicted", got.Strikes, got.StrikesEvicted)
	}
}

func TestEvidenceIsBounded(t *testing.T) {
	l := fresh(t, Options{MaxEvidence: 10_000})
	for i := range 100 {
		b := breach(netip.PrefixFrom(addrOf(uint32(1<<30+i*16)), 28).String(), i)
		b.Evidence = slices.Repeat([]string{strings.Repeat("x", 2000)}, 20)
		b.Evidence[19] = "the last \x1b[2J\xff\u202e line"
		l.Breach(b, at(i))
	}
	n := 0
	for _, b := range l.List(at(100)) {
		for _, line := range b.Evidence {
			n += len(line)
		}
		if (b.Evidence == nil) != b.Partial {
			t.Errorf("%v: %d lines, partial %v", b.Prefix, len(b.Evidence), b.Partial)
		}
	}
	if n > 10_000 {
		t.Errorf("got %d bytes, want at most 10000", n)
	}
	b := breach("192.0.2.0/28", 0)
	b.Evidence = []string{"the last \x1b[2J\xff\u202e line\ttab"}
	out := l.Breach(b, at(0))
	if got, want := out.Changes[0].Block.Evidence[0], "the last \ufffd[2J\ufffd\ufffd line tab"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
