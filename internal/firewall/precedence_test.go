package firewall_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/held"
)

// TestNested: of blocks that overlap each holds by itself, the harder one
// first, and the wider one does not undo the narrower one's end.
func TestNested(t *testing.T) {
	firewalltest.NeedPrograms(t, "iptables", "ipset")
	for name, mk := range kernelWalls {
		t.Run(name, func(t *testing.T) {
			firewalltest.Namespace(t)
			firewalltest.AddLocal(t, "198.51.100.1/32", "192.0.2.17/32", "192.0.2.33/32")
			srv := firewalltest.Listen(t, "198.51.100.1")
			w := firewalltest.Must(mk(firewall.Options{}))(t)
			if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
				t.Fatal(err)
			}
			wide, narrow := firewalltest.Entry("192.0.2.0/24", time.Hour), firewalltest.Entry("192.0.2.16/28", time.Hour)
			wide.Action = firewall.Slow
			for _, e := range []firewall.Entry{wide, narrow} {
				if err := w.Block(t.Context(), []firewall.Entry{e}); err != nil {
					t.Fatal(err)
				}
			}
			firewalltest.Dial(t, "192.0.2.33", srv, firewalltest.Passes) // slowed, not yet too many
			firewalltest.Dial(t, "192.0.2.17", srv, firewalltest.Dropped)
			if err := w.Unblock(t.Context(), []netip.Prefix{wide.Prefix}); err != nil {
				t.Fatal(err)
			}
			firewalltest.Dial(t, "192.0.2.17", srv, firewalltest.Dropped)
			if err := w.Unblock(t.Context(), []netip.Prefix{narrow.Prefix}); err != nil {
				t.Fatal(err)
			}
			firewalltest.Dial(t, "192.0.2.17", srv, firewalltest.Passes)
		})
	}
}

// TestOthersReload: a firewall manager that loads its own rules again, a
// docker that comes back, an administrator who flushes one chain. Each is
// noticed by Check and put right by Setup and Block.
func TestOthersReload(t *testing.T) {
	firewalltest.NeedPrograms(t, "iptables", "ip6tables", "ipset", "nft")
	const restore = "printf '*filter\\n:INPUT ACCEPT [0:0]\\n-A INPUT -p tcp --dport 22 -j ACCEPT\\nCOMMIT\\n' | iptables-restore"
	for _, tc := range []struct{ name, wall, others string }{
		{"restore", "iptables", restore},
		{"restore", "ipset", restore},
		{"flush of a builtin chain", "iptables", "iptables -F INPUT"},
		{"flush of a builtin chain", "ipset", "iptables -F INPUT"},
		{"flush of our chain", "iptables", "iptables -F STOPLOG-BLOCKS"},
		{"flush of our chain", "ipset", "iptables -F STOPLOG-SET-BLOCKS"},
		{"flush of a set", "ipset", "ipset flush stoplog4-drop"},
		{"docker comes", "iptables", "iptables -N DOCKER-USER"},
		{"flush of everything", "nftables", "nft flush ruleset"},
		{"flush of a chain", "nftables", "nft flush chain inet stoplog walls"},
		{"deletion of a base chain", "nftables", "nft delete chain inet stoplog input"},
	} {
		t.Run(tc.wall+", "+tc.name, func(t *testing.T) {
			firewalltest.Namespace(t)
			firewalltest.AddLocal(t, "198.51.100.1/32", "192.0.2.17/32")
			srv := firewalltest.Listen(t, "198.51.100.1")
			w := firewalltest.Must(kernelWalls[tc.wall](firewall.Options{}))(t)
			es := []firewall.Entry{firewalltest.Entry("192.0.2.16/28", time.Hour)}
			stand := func() {
				t.Helper()
				if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
					t.Fatal(err)
				}
				var have held.Listing
				err := w.List(t.Context(), have.Add)
				if err != nil && !errors.Is(err, firewall.ErrBroken) {
					t.Fatal(err)
				}
				d := held.Compare(slices.Values(es), &have, false, time.Now())
				if err := w.Block(t.Context(), append(d.Add, d.Refresh...)); err != nil {
					t.Fatal(err)
				}
				firewalltest.Dial(t, "192.0.2.17", srv, firewalltest.Dropped)
				if err := w.(firewall.Checker).Check(t.Context()); err != nil {
					t.Errorf("Check: %v", err)
				}
			}
			stand()
			firewalltest.Output(t, "sh", "-c", tc.others)
			if err := w.(firewall.Checker).Check(t.Context()); err == nil || !strings.Contains(err.Error(), firewall.ErrBroken.Error()) {
				t.Errorf("Check of the changed: got %v, want ErrBroken", err)
			}
			stand()
		})
	}
}
