package firewall_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/registry"
)

// TestProcesses runs the contract of the wall process over every backend.
func TestProcesses(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft", "iptables", "iptables-legacy", "ipset")
	if !firewalltest.InNamespace(t) {
		return
	}
	dir := t.TempDir()
	deny, list := filepath.Join(dir, "hosts.deny"), filepath.Join(dir, "list")
	programs := func(argv ...string) func(*testing.T) string {
		return func(t *testing.T) string {
			var all strings.Builder
			for _, a := range argv {
				all.WriteString(firewalltest.Output(t, strings.Fields(a)...))
			}
			return all.String()
		}
	}
	content := func(path string) func(*testing.T) string {
		return func(t *testing.T) string {
			b, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return string(b)
		}
	}
	script := func(name, text string) []string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\nset -eu\nlist="+list+"\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return []string{path}
	}
	const without = `cut -d' ' -f1 | sed 's|.*|^& |' > "$list.gone"; grep -v -f "$list.gone" "$list" > "$list.new" || :` + "\n"
	firewalltest.Output(t, "ipset", "create", "mine", "hash:net", "timeout", "0")
	firewalltest.Output(t, "ipset", "create", "mine6", "hash:net", "family", "inet6", "timeout", "0")
	firewalltest.Output(t, "nft", "add table inet mine; add set inet mine v4 { type ipv4_addr; flags interval, timeout; }; add set inet mine v6 { type ipv6_addr; flags interval, timeout; }")
	legacy := firewall.Options{IPTables: "iptables-legacy", IP6Tables: "ip6tables-legacy"}
	for name, tc := range map[string]struct {
		backend string
		o       firewall.Options
		dump    func(*testing.T) string
		list    bool // knows what it holds from memory, and marks nothing
	}{
		"nftables":        {"nftables", firewall.Options{}, programs("nft list table inet stoplog"), false},
		"ipset":           {"ipset", firewall.Options{}, programs("ipset save"), false},
		"ipset-legacy":    {"ipset", legacy, programs("ipset save"), false},
		"iptables":        {"iptables", firewall.Options{}, programs("iptables-save", "ip6tables-save"), false},
		"iptables-legacy": {"iptables", legacy, programs("iptables-legacy-save", "ip6tables-legacy-save"), false},
		"hosts.deny":      {"hosts.deny", firewall.Options{HostsDeny: deny}, content(deny), false},
		"set-only ipset":  {"set-only", firewall.Options{Set4: "ipset:mine", Set6: "ipset:mine6"}, programs("ipset save"), true},
		"set-only nft":    {"set-only", firewall.Options{Set4: "nft:inet:mine:v4", Set6: "nft:inet:mine:v6"}, programs("nft list table inet mine"), true},
		"exec": {"exec", firewall.Options{Exec: firewall.ExecOptions{
			Setup:   script("setup", `touch "$list"`),
			Block:   script("block", `cat > "$list.in"; `+"< \"$list.in\" "+without+`cat "$list.in" >> "$list.new"; mv "$list.new" "$list"`),
			Unblock: script("unblock", without+`mv "$list.new" "$list"`),
		}}, content(list), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := firewalltest.Process{
				Spawn: func(t *testing.T) firewalltest.Spawned { return spawnWith(t, tc.backend, tc.o) },
				Shows: func(t *testing.T, prefix string) bool {
					if tc.backend == "hosts.deny" {
						prefix = "stoplog " + prefix // in the note that remembers it
					}
					if tc.backend == "nftables" { // elements are addresses; a set has one length
						prefix, _, _ = strings.Cut(prefix, "/")
						return strings.Contains(firewalltest.Output(t, "nft", "list", "ruleset"), prefix)
					}
					return strings.Contains(tc.dump(t), prefix)
				},
				Forgets: tc.list,
			}
			if !tc.list {
				p.Leftovers = func(t *testing.T) []firewall.Leftover {
					left, err := registry.Leftovers(t.Context(), []string{"none"}, tc.o)
					if err != nil {
						t.Fatal(err)
					}
					return left
				}
			}
			firewalltest.RunProcess(t, p)
			firewalltest.Output(t, "ipset", "flush", "mine") // set-only leaves what it cannot mark
			firewalltest.Output(t, "ipset", "flush", "mine6")
			firewalltest.Output(t, "nft", "flush set inet mine v4; flush set inet mine v6")
		})
	}
}
