package registry_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/registry"
)

// TestFormsOfIPv4 blocks an IPv4 prefix and comes from the IPv6 addresses that
// stand for its clients, with real connections.
func TestFormsOfIPv4(t *testing.T) {
	for _, c := range []struct {
		wall, program string
		teredo        bool
	}{{"nftables", "nft", true}, {"ipset", "ipset", false}, {"iptables", "iptables", false}} {
		t.Run(c.wall, func(t *testing.T) {
			firewalltest.NeedPrograms(t, c.program)
			firewalltest.Namespace(t)
			walls, _, err := registry.Select(t.Context(), []string{c.wall}, firewall.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w := walls[0]
			forms := func(v4 string) []string {
				return map[string][]string{
					"192.0.2.33": {"64:ff9b::c000:221", "2002:c000:221:7::5"}, // blocked
					"192.0.2.34": {"64:ff9b::c000:222", "2002:c000:222::1"},   // allowed inside
					"192.0.2.49": {"64:ff9b::c000:231", "2002:c000:231::1"},   // the next prefix
				}[v4]
			}
			teredo := map[string]string{"192.0.2.33": "2001:0:4136:e378:8000:63bf:3fff:fdde", "192.0.2.34": "2001:0:4136:e378:8000:63bf:3fff:fddd",
				"192.0.2.49": "2001:0:4136:e378:8000:63bf:3fff:fdce"}
			firewalltest.AddLocal(t, "2001:db8:ffff::1/128")
			for v4, form := range teredo {
				firewalltest.AddLocal(t, form+"/128")
				for _, a := range forms(v4) {
					firewalltest.AddLocal(t, a+"/128")
				}
			}
			srv := firewalltest.Listen(t, "2001:db8:ffff::1")
			dial := func(v4 string, want firewalltest.Want) {
				t.Helper()
				all := forms(v4)
				if c.teredo {
					all = append(slices.Clone(all), teredo[v4])
				}
				for _, from := range all {
					firewalltest.Dial(t, from, srv, want)
				}
			}
			if err := w.Setup(t.Context(), firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.34/32")}}); err != nil {
				t.Fatal(err)
			}
			dial("192.0.2.33", firewalltest.Passes)
			block := firewalltest.Entry("192.0.2.32/28", time.Hour)
			if err := w.Block(t.Context(), []firewall.Entry{block}); err != nil {
				t.Fatal(err)
			}
			dial("192.0.2.33", firewalltest.Dropped)
			dial("192.0.2.34", firewalltest.Passes)
			dial("192.0.2.49", firewalltest.Passes)
			if es, err := firewall.ListAll(t.Context(), w); err != nil || len(es) != 1 || es[0].Prefix != block.Prefix {
				t.Errorf("the wall lists %v, %v; want one block", es, err)
			}
			if c, ok := w.(firewall.Checker); ok {
				if err := c.Check(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := w.Unblock(t.Context(), []netip.Prefix{block.Prefix}); err != nil {
				t.Fatal(err)
			}
			dial("192.0.2.33", firewalltest.Passes)
		})
	}
}

// TestFormDeletedByHand: the block of which a form is gone is not held, and a
// form that stands alone is removed.
func TestFormDeletedByHand(t *testing.T) {
	inner := firewall.NewDryRun()
	w := registry.WithForms(inner)
	es := []firewall.Entry{firewalltest.Entry("192.0.2.32/28", time.Hour), firewalltest.Entry("2001:db8::/64", time.Hour)}
	if err := w.Block(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	if got := firewalltest.List(t, inner); !slices.Equal(got, []string{"192.0.2.32/28", "2001:db8::/64", "2002:c000:220::/44", "64:ff9b::c000:220/124"}) {
		t.Errorf("the wall holds %v", got)
	}
	_ = inner.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix("2002:c000:220::/44")})
	if got := firewalltest.List(t, w); !slices.Equal(got, []string{"2001:db8::/64"}) {
		t.Errorf("without a form: listed %v", got)
	}
	if err := w.Block(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	_ = inner.Unblock(t.Context(), []netip.Prefix{es[0].Prefix})
	stray := firewalltest.List(t, w)
	if !slices.Equal(stray, []string{"2001:db8::/64", "2002:c000:220::/44", "64:ff9b::c000:220/124"}) {
		t.Errorf("without the block: listed %v", stray)
	}
	for _, p := range stray {
		_ = w.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix(p)})
	}
	if got := firewalltest.List(t, inner); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}
