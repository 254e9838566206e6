package listwall

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

func coverOf(t *testing.T, allow string, blocks ...string) string {
	t.Helper()
	c := newCover()
	var as []netip.Prefix
	for _, a := range strings.Fields(allow) {
		as = append(as, netip.MustParsePrefix(a))
	}
	c.setAllow(as)
	for _, b := range blocks {
		var hours int
		var p string
		if _, err := fmt.Sscanf(b, "%s %d", &p, &hours); err != nil {
			t.Fatal(err)
		}
		e := firewall.Entry{Prefix: netip.MustParsePrefix(p), Until: time.Unix(0, 0).Add(time.Duration(hours) * time.Hour)}
		c.held[e.Prefix] = e
	}
	add, _ := c.change()
	var out []string
	for _, e := range add {
		out = append(out, fmt.Sprintf("%s:%d", e.Prefix, int(e.Until.Sub(time.Unix(0, 0)).Hours())))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestCover(t *testing.T) {
	for name, tc := range map[string]struct {
		allow  string
		blocks []string
		want   string
	}{
		"one":                     {"", []string{"192.0.2.0/28 1"}, "192.0.2.0/28:1"},
		"apart":                   {"", []string{"192.0.2.0/28 1", "192.0.2.16/28 2"}, "192.0.2.0/28:1 192.0.2.16/28:2"},
		"inner ends first":        {"", []string{"192.0.2.0/28 2", "192.0.2.4/30 1"}, "192.0.2.0/28:2"},
		"inner ends last":         {"", []string{"192.0.2.0/29 1", "192.0.2.4/30 2"}, "192.0.2.0/30:1 192.0.2.4/30:2"},
		"three deep":              {"", []string{"192.0.2.0/29 2", "192.0.2.4/30 1", "192.0.2.4/32 3"}, "192.0.2.0/30:2 192.0.2.4/32:3 192.0.2.5/32:2 192.0.2.6/31:2"},
		"allowed inside":          {"192.0.2.1/32", []string{"192.0.2.0/30 1"}, "192.0.2.0/32:1 192.0.2.2/31:1"},
		"allowed around":          {"192.0.2.0/24", []string{"192.0.2.0/28 1"}, ""},
		"allowed elsewhere":       {"198.51.100.0/24", []string{"192.0.2.0/28 1"}, "192.0.2.0/28:1"},
		"everything allowed":      {"0.0.0.0/0 ::/0", []string{"192.0.2.0/28 1", "2001:db8::/64 1"}, ""},
		"IPv6, allowed, overlaps": {"2001:db8::/65", []string{"2001:db8::/64 1", "2001:db8::1/128 2"}, "2001:db8:0:0:8000::/65:1"},
	} {
		if got := coverOf(t, tc.allow, tc.blocks...); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestCoverIsExact compares pieces with the blocks, address by address.
func TestCoverIsExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		c := newCover()
		var allow []netip.Prefix
		random := func() netip.Prefix {
			a := netip.AddrFrom4([4]byte{192, 0, 2, byte(rnd.IntN(256))})
			return netip.PrefixFrom(a, 24+rnd.IntN(9)).Masked()
		}
		for range rnd.IntN(4) {
			allow = append(allow, random())
		}
		c.setAllow(allow)
		for range 1 + rnd.IntN(12) {
			e := firewall.Entry{Prefix: random(), Until: time.Unix(int64(rnd.IntN(50)), 0)}
			c.held[e.Prefix] = e
		}
		add, _ := c.change()
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
			var want, got time.Time
			for p, e := range c.held {
				if p.Contains(a) && e.Until.After(want) {
					want = e.Until
				}
			}
			if slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(a) }) {
				want = time.Time{}
			}
			n := 0
			for _, e := range add {
				if e.Prefix.Contains(a) {
					got = e.Until
					n++
				}
			}
			if !got.Equal(want) || n > 1 {
				t.Fatalf("round %d, %s: got %v (%d pieces), want %v\nheld %v\nallow %v\npieces %v", round, a, got, n, want, c.held, allow, add)
			}
		}
	}
}

func TestCoverChange(t *testing.T) {
	c := newCover()
	outer := firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/30"), Until: time.Unix(100, 0)}
	inner := firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/32"), Until: time.Unix(200, 0)}
	step := func(doing, want string) {
		t.Helper()
		add, remove := c.change()
		c.done(add, remove)
		var got []string
		for _, e := range add {
			got = append(got, "+"+e.Prefix.String())
		}
		for _, p := range remove {
			got = append(got, "-"+p.String())
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %q, want %q", doing, s, want)
		}
	}
	c.held[outer.Prefix] = outer
	step("block", "+192.0.2.0/30")
	step("nothing", "")
	c.held[inner.Prefix] = inner
	step("block inside", "+192.0.2.0/32 +192.0.2.1/32 +192.0.2.2/31 -192.0.2.0/30")
	outer.Until = time.Unix(300, 0)
	c.held[outer.Prefix] = outer
	step("refresh around", "+192.0.2.0/30 -192.0.2.0/32 -192.0.2.1/32 -192.0.2.2/31")
	delete(c.held, outer.Prefix)
	step("unblock around", "+192.0.2.0/32 -192.0.2.0/30")
	c.expire(time.Unix(200, 0))
	step("expire", "-192.0.2.0/32")
}

func BenchmarkCover100000(b *testing.B) {
	c := newCover()
	c.setAllow([]netip.Prefix{netip.MustParsePrefix("20.0.0.7/32")})
	for i := range 100_000 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 12), byte(i >> 4), byte(i << 4)}), 28)
		c.held[p] = firewall.Entry{Prefix: p, Until: time.Unix(int64(i), 0)}
	}
	for b.Loop() {
		c.done(c.change())
	}
}
