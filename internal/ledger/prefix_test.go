package ledger

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// randomAddr is one of a few near each other, of either family, the edges of
// the space among them.
func randomAddr(r *rand.Rand) netip.Addr {
	edge := [...]byte{0, 0, 1, 7, 8, 128, 254, 255}
	b := make([]byte, 4+12*r.IntN(2))
	for i := range b {
		b[i] = edge[r.IntN(len(edge))]
		if i < len(b)-2 && r.IntN(2) == 0 {
			b[i] = 0x20 * byte(r.IntN(2))
		}
	}
	a, _ := netip.AddrFromSlice(b)
	if a.Is4In6() {
		return a.Unmap()
	}
	return a
}

// TestRangesAgainstLists compares the merged ranges with asking every prefix.
func TestRangesAgainstLists(t *testing.T) {
	hits := 0
	for i := range 3000 {
		r := rand.New(rand.NewPCG(uint64(i), 49))
		var ps []netip.Prefix
		for range r.IntN(12) {
			a := randomAddr(r)
			ps = append(ps, netip.PrefixFrom(a, r.IntN(a.BitLen()+1)|r.IntN(a.BitLen()+1)&^3))
		}
		ps = slices.DeleteFunc(ps, func(p netip.Prefix) bool { return !p.IsValid() })
		all, few := newRanges(ps), minimal(ps)
		for range 60 {
			a := randomAddr(r)
			want := slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
			if got := all.contains(a); got != want {
				t.Fatalf("%v in %v: got %v, want %v", a, ps, got, want)
			}
			if got := slices.ContainsFunc(few, func(p netip.Prefix) bool { return p.Contains(a) }); got != want {
				t.Fatalf("%v in the shortened %v: got %v, want %v", a, few, got, want)
			}
			p := netip.PrefixFrom(a, a.BitLen()-r.IntN(4)).Masked()
			whole := true
			for b := p.Addr(); p.Contains(b); b = b.Next() {
				whole = whole && slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(b) })
			}
			if got := all.coversAll(p); got != whole {
				t.Fatalf("all of %v in %v: got %v, want %v", p, ps, got, whole)
			}
			if want {
				hits++
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d addresses were in a prefix: the test tells nothing", hits)
	}
}

func TestKeysAndPrefixes(t *testing.T) {
	seen := map[pkey]netip.Prefix{}
	for i := range 5000 {
		r := rand.New(rand.NewPCG(uint64(i), 50))
		a := randomAddr(r)
		p := netip.PrefixFrom(a, r.IntN(a.BitLen()+1))
		k := keyOf(p)
		if k.prefix() != p.Masked() {
			t.Fatalf("%v: got %v", p, k.prefix())
		}
		if other, found := seen[k]; found && other != p.Masked() {
			t.Fatalf("%v and %v share a key", p, other)
		}
		seen[k] = p.Masked()
	}
}

// TestKeysInOrder compares the order of keys with that of their prefixes.
func TestKeysInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func() netip.Prefix {
		if r.IntN(2) == 0 {
			return netip.PrefixFrom(addrOf(r.Uint32N(4)<<28|r.Uint32N(4)), r.IntN(33)).Masked()
		}
		a := netip.AddrFrom16([16]byte{0x20, byte(r.IntN(2)), 7: byte(r.IntN(2)), 8: byte(r.IntN(2)), 15: byte(r.IntN(2))})
		return netip.PrefixFrom(a, r.IntN(129)).Masked()
	}
	for range 20_000 {
		a, b := pick(), pick()
		if got, want := keyOf(a).before(keyOf(b)), comparePrefixes(a, b) < 0; got != want {
			t.Fatalf("%v before %v: got %v, want %v", a, b, got, want)
		}
	}
}
