package firewall_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/ipset"
	"stoplog/internal/firewall/iptables"
	"stoplog/internal/firewall/nft"
)

// kernelWalls are the walls that filter packets themselves.
var kernelWalls = map[string]func(firewall.Options) (firewall.Backend, error){
	"nftables": func(o firewall.Options) (firewall.Backend, error) { return nft.New(o) },
	"ipset":    func(o firewall.Options) (firewall.Backend, error) { return ipset.New(o) },
	"iptables": func(o firewall.Options) (firewall.Backend, error) { return iptables.New(o) },
}

// TestHooks: at each hook a block drops, the allowed pass, and an accept rule
// of somebody else changes nothing.
func TestHooks(t *testing.T) {
	firewalltest.NeedPrograms(t, "iptables", "ipset", "nft")
	for name, mk := range kernelWalls {
		for _, hook := range []firewall.Hook{firewall.HookInput, firewall.HookPrerouting, firewall.HookRaw} {
			t.Run(name+" "+string(hook), func(t *testing.T) {
				firewalltest.Namespace(t)
				firewalltest.AddLocal(t, "198.51.100.1/32", "192.0.2.17/32", "192.0.2.20/32")
				firewalltest.Output(t, "iptables", "-A", "INPUT", "-j", "ACCEPT")
				srv, theirs := firewalltest.Listen(t, "198.51.100.1"), firewalltest.Listen(t, "192.0.2.17")
				w := firewalltest.Must(mk(firewall.Options{Hook: hook}))(t)
				p := firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.20/32")}}
				if err := w.Setup(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				if err := w.Block(t.Context(), []firewall.Entry{firewalltest.Entry("192.0.2.16/28", time.Hour)}); err != nil {
					t.Fatal(err)
				}
				firewalltest.Dial(t, "192.0.2.17", srv, firewalltest.Dropped)
				firewalltest.Dial(t, "192.0.2.20", srv, firewalltest.Passes)
				if hook != firewall.HookRaw { // there replies are not known
					firewalltest.Dial(t, "198.51.100.1", theirs, firewalltest.Passes)
				} else if notes := w.(firewall.Noter).Notes(); !strings.Contains(strings.Join(notes, "\n"), "replies") {
					t.Errorf("Notes: got %q", notes)
				}
				if err := w.Teardown(t.Context()); err != nil {
					t.Fatal(err)
				}
				firewalltest.Dial(t, "192.0.2.17", srv, firewalltest.Passes)
			})
		}
	}
}

// TestForward: what a router or a container host passes on is blocked where
// asked, and not where not.
func TestForward(t *testing.T) {
	firewalltest.NeedPrograms(t, "iptables", "ipset", "sysctl")
	for name, mk := range kernelWalls {
		for _, forward := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %v", name, forward), func(t *testing.T) {
				firewalltest.Namespace(t)
				firewalltest.Output(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
				outside := firewalltest.NewHost(t, "wan", "192.0.2.1", "192.0.2.14", "28")
				inside := firewalltest.NewHost(t, "lan", "198.51.100.1", "198.51.100.14", "28")
				var srv, theirs netip.AddrPort
				inside.In(func() { srv = firewalltest.Listen(t, "198.51.100.1") })
				outside.In(func() { theirs = firewalltest.Listen(t, "192.0.2.1") })
				outside.In(func() { firewalltest.Dial(t, "192.0.2.1", srv, firewalltest.Passes) })
				w := firewalltest.Must(mk(firewall.Options{Forward: forward}))(t)
				if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
					t.Fatal(err)
				}
				if err := w.Block(t.Context(), []firewall.Entry{firewalltest.Entry("192.0.2.0/28", time.Hour)}); err != nil {
					t.Fatal(err)
				}
				want := firewalltest.Passes
				if forward {
					want = firewalltest.Dropped
				}
				outside.In(func() { firewalltest.Dial(t, "192.0.2.1", srv, want) })
				inside.In(func() { firewalltest.Dial(t, "198.51.100.1", theirs, firewalltest.Passes) })
			})
		}
	}
}
