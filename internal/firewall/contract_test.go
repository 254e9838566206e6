package firewall_test

import (
	"os"
	"path/filepath"
	"testing"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/hostsdeny"
	"stoplog/internal/firewall/ipset"
	"stoplog/internal/firewall/iptables"
	"stoplog/internal/firewall/listwall"
	"stoplog/internal/firewall/nft"
)

func TestHostsDeny(t *testing.T) {
	const others = "# mine\nALL: 203.0.113.9\nsshd: .example.com EXCEPT good.example.com" // no line end
	var path string
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		path = filepath.Join(t.TempDir(), "hosts.deny")
		if err := os.WriteFile(path, []byte(others), 0o640); err != nil {
			t.Fatal(err)
		}
		return firewalltest.Must(hostsdeny.New(firewall.Options{HostsDeny: path, MaxRules: 12}))(t)
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

// busy fills a namespace's ruleset with what administrators have.
func busy(t *testing.T, prog, prog6 string) {
	t.Helper()
	for _, prog := range []string{prog, prog6} {
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

func testIPTablesKernel(t *testing.T, prog, prog6 string) {
	firewalltest.NeedPrograms(t, prog, prog6)
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		firewalltest.Namespace(t)
		busy(t, prog, prog6)
		return firewalltest.Must(iptables.New(firewall.Options{IPTables: prog, IP6Tables: prog6, MaxRules: 20}))(t)
	}, firewalltest.Caps{
		Max: 20, Packets: true,
		Others: func(t *testing.T) string { return ruleset(t, prog+"-save", prog6+"-save") },
		Break: func(t *testing.T) {
			firewalltest.Output(t, prog, "-F")
			firewalltest.Output(t, prog, "-X")
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
		w := firewalltest.Must(nft.New(firewall.Options{MaxSet: 20}))(t)
		t.Cleanup(func() { w.Close() })
		return w
	}, firewalltest.Caps{
		Max: 20, Packets: true,
		Others: func(t *testing.T) string { return firewalltest.Output(t, "nft", "-s", "list", "ruleset") },
		Break:  func(t *testing.T) { firewalltest.Output(t, "nft", "flush", "ruleset") },
	})
}

func testIPSetKernel(t *testing.T, prog, prog6 string) {
	firewalltest.NeedPrograms(t, prog, prog6, "ipset")
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		firewalltest.Namespace(t)
		busy(t, prog, prog6)
		firewalltest.Output(t, "ipset", "create", "theirs", "hash:ip")
		firewalltest.Output(t, "ipset", "add", "theirs", "192.0.2.1")
		return firewalltest.Must(ipset.New(firewall.Options{IPTables: prog, IP6Tables: prog6, MaxSet: 20}))(t)
	}, firewalltest.Caps{
		Max: 20, Packets: true,
		Others: func(t *testing.T) string {
			return ruleset(t, prog+"-save", prog6+"-save") + firewalltest.Output(t, "ipset", "save")
		},
		Break: func(t *testing.T) { firewalltest.Output(t, "ipset", "flush") },
	})
}

func TestIPSetLegacy(t *testing.T) { testIPSetKernel(t, "iptables-legacy", "ip6tables-legacy") }
func TestIPSetNFT(t *testing.T)    { testIPSetKernel(t, "iptables-nft", "ip6tables-nft") }

func TestSetOnlyIPSet(t *testing.T) {
	firewalltest.NeedPrograms(t, "ipset", "iptables")
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		firewalltest.Namespace(t)
		firewalltest.Output(t, "ipset", "create", "mine", "hash:net", "timeout", "0")
		firewalltest.Output(t, "ipset", "create", "mine6", "hash:net", "family", "inet6", "timeout", "0")
		firewalltest.Output(t, "ipset", "add", "mine", "203.0.113.99")
		return firewalltest.Must(listwall.NewSetOnly(firewall.Options{Set4: "ipset:mine", Set6: "ipset:mine6", MaxSet: 12}))(t)
	}, firewalltest.Caps{Max: 12, NoSlow: true, Others: func(t *testing.T) string { return firewalltest.Output(t, "ipset", "save") }})
}

func TestSetOnlyNFT(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		firewalltest.Namespace(t)
		firewalltest.Output(t, "nft", "add table inet filter; add set inet filter mine { type ipv4_addr; flags interval, timeout; elements = { 203.0.113.99 } ; }; "+
			"add set inet filter mine6 { type ipv6_addr; flags interval, timeout; };")
		return firewalltest.Must(listwall.NewSetOnly(firewall.Options{Set4: "nft:inet:filter:mine", Set6: "nft:inet:filter:mine6", MaxSet: 12}))(t)
	}, firewalltest.Caps{Max: 12, NoSlow: true, Others: func(t *testing.T) string { return firewalltest.Output(t, "nft", "list", "ruleset") }})
}

// TestExec lets small programs keep the list in a file.
func TestExec(t *testing.T) {
	var dir string
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		dir = t.TempDir()
		list := filepath.Join(dir, "list")
		script := func(name, text string) []string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte("#!/bin/sh\nset -eu\nlist="+list+"\n"+text), 0o700); err != nil {
				t.Fatal(err)
			}
			return []string{path}
		}
		const without = `cut -d' ' -f1 | sed 's|.*|^& |' > "$list.gone"; grep -v -f "$list.gone" "$list" > "$list.new" || :` + "\n"
		return firewalltest.Must(listwall.NewExec(firewall.Options{MaxSet: 12, Exec: firewall.ExecOptions{
			Setup:    script("setup", `touch "$list"`),
			Block:    script("block", `cat > "$list.in"; `+"< \"$list.in\" "+without+`cat "$list.in" >> "$list.new"; mv "$list.new" "$list"`),
			Unblock:  script("unblock", without+`mv "$list.new" "$list"`),
			Teardown: script("teardown", `if [ -s "$list" ]; then echo "not empty" >&2; exit 1; fi`),
		}}))(t)
	}, firewalltest.Caps{Max: 12, NoSlow: true})
}
