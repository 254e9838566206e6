package firewall_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
)

func TestIPTablesFake(t *testing.T) {
	var dump func() string
	var flush func()
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		var w *firewall.IPTables
		w, dump, flush = firewall.FakeIPTables(firewall.Options{MaxRules: 12})
		return w
	}, firewalltest.Caps{
		Max:    12,
		Others: func(*testing.T) string { return dump() },
		Break:  func(*testing.T) { flush() },
	})
}

func TestHostsDeny(t *testing.T) {
	const others = "# mine\nALL: 203.0.113.9\nsshd: .example.com EXCEPT good.example.com" // no line end
	var path string
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		path = filepath.Join(t.TempDir(), "hosts.deny")
		if err := os.WriteFile(path, []byte(others), 0o640); err != nil {
			t.Fatal(err)
		}
		return must(firewall.NewHostsDeny(firewall.Options{HostsDeny: path, MaxRules: 12}))(t)
	}, firewalltest.Caps{
		Max: 12,
		Others: func(t *testing.T) string {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		},
	})
}

// TestWall runs the contract through the socket.
func TestWall(t *testing.T) {
	var dump func() string
	var flush func()
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		var w *firewall.IPTables
		w, dump, flush = firewall.FakeIPTables(firewall.Options{MaxRules: 12})
		ours, theirs := net.Pipe()
		done := make(chan error)
		go func() { done <- firewall.Serve(t.Context(), theirs, nil, w, firewall.Limits{}) }()
		c := firewall.NewClient(ours, nil)
		t.Cleanup(func() {
			c.Close()
			<-done
		})
		return c
	}, firewalltest.Caps{
		Max:    12,
		Others: func(*testing.T) string { return dump() },
		Break:  func(*testing.T) { flush() },
	})
}

func TestMulti(t *testing.T) {
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		w, _, _ := firewall.FakeIPTables(firewall.Options{})
		d := must(firewall.NewHostsDeny(firewall.Options{HostsDeny: filepath.Join(t.TempDir(), "hosts.deny")}))(t)
		return firewall.Multi{d, w, firewall.NewDryRun()}
	}, firewalltest.Caps{})
}

// must turns a constructor's answer into a value or the end of the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// busy fills a namespace's ruleset with what administrators have.
func busy(t *testing.T, iptables, ip6tables string) {
	t.Helper()
	for _, prog := range []string{iptables, ip6tables} {
		firewalltest.Output(t, prog, "-N", "DOCKER-USER")
		firewalltest.Output(t, prog, "-A", "FORWARD", "-j", "DOCKER-USER")
		firewalltest.Output(t, prog, "-A", "DOCKER-USER", "-j", "RETURN")
		firewalltest.Output(t, prog, "-N", "f2b-sshd")
		firewalltest.Output(t, prog, "-A", "f2b-sshd", "-m", "comment", "--comment", `it's "quoted" \ here`, "-j", "RETURN")
		firewalltest.Output(t, prog, "-A", "INPUT", "-p", "tcp", "-m", "multiport", "--dports", "22", "-j", "f2b-sshd")
		firewalltest.Output(t, prog, "-A", "INPUT", "-i", "lo", "-j", "ACCEPT")
		firewalltest.Output(t, prog, "-A", "INPUT", "-p", "tcp", "--dport", "22", "-j", "ACCEPT")
		firewalltest.Output(t, prog, "-t", "nat", "-A", "POSTROUTING", "-o", "eth9", "-j", "MASQUERADE")
		firewalltest.Output(t, prog, "-P", "FORWARD", "DROP")
	}
}

// ruleset is everything in the kernel but counters and the dates of the dump.
func ruleset(t *testing.T, save, save6 string) string {
	t.Helper()
	return withoutComments(firewalltest.Output(t, save)) + withoutComments(firewalltest.Output(t, save6))
}

func testIPTablesKernel(t *testing.T, iptables, ip6tables string) {
	firewalltest.NeedPrograms(t, iptables, ip6tables)
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		firewalltest.Namespace(t)
		busy(t, iptables, ip6tables)
		return must(firewall.NewIPTables(firewall.Options{IPTables: iptables, IP6Tables: ip6tables, MaxRules: 20}))(t)
	}, firewalltest.Caps{
		Max: 20, Packets: true,
		Others: func(t *testing.T) string { return ruleset(t, iptables+"-save", ip6tables+"-save") },
		Break: func(t *testing.T) {
			firewalltest.Output(t, iptables, "-F")
			firewalltest.Output(t, iptables, "-X")
		},
	})
}

func TestIPTablesLegacy(t *testing.T) { testIPTablesKernel(t, "iptables-legacy", "ip6tables-legacy") }
func TestIPTablesNFT(t *testing.T)    { testIPTablesKernel(t, "iptables-nft", "ip6tables-nft") }

func TestNFTables(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft", "iptables-nft") // to look, and to be beside
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		firewalltest.Namespace(t)
		busy(t, "iptables-nft", "ip6tables-nft")
		firewalltest.Output(t, "nft", "add table inet filter; add chain inet filter input { type filter hook input priority 0; }; add rule inet filter input tcp dport 22 accept")
		w := must(firewall.NewNFTables(firewall.Options{MaxSet: 20}))(t)
		t.Cleanup(func() { w.Close() })
		return w
	}, firewalltest.Caps{
		Max: 20, Packets: true,
		Others: func(t *testing.T) string { return firewalltest.Output(t, "nft", "-s", "list", "ruleset") },
		Break:  func(t *testing.T) { firewalltest.Output(t, "nft", "flush", "ruleset") },
	})
}

func testIPSetKernel(t *testing.T, iptables, ip6tables string) {
	firewalltest.NeedPrograms(t, iptables, ip6tables, "ipset")
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		firewalltest.Namespace(t)
		busy(t, iptables, ip6tables)
		firewalltest.Output(t, "ipset", "create", "theirs", "hash:ip")
		firewalltest.Output(t, "ipset", "add", "theirs", "192.0.2.1")
		return must(firewall.NewIPSet(firewall.Options{IPTables: iptables, IP6Tables: ip6tables, MaxSet: 20}))(t)
	}, firewalltest.Caps{
		Max: 20, Packets: true,
		Others: func(t *testing.T) string {
			return ruleset(t, iptables+"-save", ip6tables+"-save") + firewalltest.Output(t, "ipset", "save")
		},
		Break: func(t *testing.T) { firewalltest.Output(t, "ipset", "flush") },
	})
}

func TestIPSetLegacy(t *testing.T) { testIPSetKernel(t, "iptables-legacy", "ip6tables-legacy") }
func TestIPSetNFT(t *testing.T)    { testIPSetKernel(t, "iptables-nft", "ip6tables-nft") }
