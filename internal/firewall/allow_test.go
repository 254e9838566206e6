package firewall_test

import (
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
)

// TestLargeAllowlist: an allowlist of a large network of offices, changed as
// a whole, in the walls that hold sets.
func TestLargeAllowlist(t *testing.T) {
	firewalltest.NeedPrograms(t, "iptables", "ipset")
	for _, name := range []string{"nftables", "ipset"} {
		t.Run(name, func(t *testing.T) {
			firewalltest.Namespace(t)
			firewalltest.AddLocal(t, "198.51.100.1/32", "20.0.0.2/32", "20.0.0.3/32")
			srv := firewalltest.Listen(t, "198.51.100.1")
			w := firewalltest.Must(kernelWalls[name](firewall.Options{}))(t)
			var allow []netip.Prefix
			for i := range 60_000 { // none touches the next
				a := netip.AddrFrom4([4]byte{20, byte(i >> 15), byte(i >> 7), byte(i << 1)})
				allow = append(allow, netip.PrefixFrom(a, 32))
			}
			if err := w.Setup(t.Context(), firewall.Policy{Allow: allow}); err != nil {
				t.Fatal(err)
			}
			if err := w.Block(t.Context(), []firewall.Entry{firewalltest.Entry("20.0.0.0/16", time.Hour)}); err != nil {
				t.Fatal(err)
			}
			firewalltest.Dial(t, "20.0.0.2", srv, firewalltest.Passes)
			firewalltest.Dial(t, "20.0.0.3", srv, firewalltest.Dropped)
			if err := w.Setup(t.Context(), firewall.Policy{Allow: allow[2:]}); err != nil {
				t.Fatal(err)
			}
			firewalltest.Dial(t, "20.0.0.2", srv, firewalltest.Dropped)
			everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
			if err := w.Setup(t.Context(), firewall.Policy{Allow: everything}); err != nil {
				t.Fatal(err)
			}
			firewalltest.Dial(t, "20.0.0.3", srv, firewalltest.Passes)
		})
	}
}
