package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// backend is one as the unit runs it.
type backend struct {
	name  string
	rules string // of the firewall section
	holds string // a script that succeeds while PREFIX (or its first address ADDR) is blocked
	none  string // one that succeeds when nothing of the wall is left
	make  string // what an administrator does before
	found bool   // its blocks can be taken over when the state is lost
	drop  string // the example of a drop-in that it needs
}

// backends in an order in which each replaces the one before.
var backends = []backend{
	{name: "nftables", rules: "backend: nftables", found: true,
		holds: "nft get element inet stoplog v4.28.drop '{ ADDR }'", none: "! nft list table inet stoplog"},
	{name: "ipset", rules: "backend: ipset", found: true,
		holds: "ipset list stoplog4-drop | grep -q '^PREFIX ' && iptables -S INPUT | grep -q STOPLOG-SET", none: "! ipset list -n | grep ^stoplog && ! iptables-save | grep STOPLOG-SET"},
	{name: "iptables-nft", rules: "backend: iptables", found: true,
		holds: "iptables-nft -S STOPLOG-BLOCKS | grep -q -e '-s PREFIX .*DROP'", none: "! iptables-nft-save | grep STOPLOG"},
	{name: "iptables-legacy", rules: "backend: iptables", found: true,
		make:  "for p in iptables ip6tables; do update-alternatives --set $p /usr/sbin/$p-legacy; done",
		holds: "iptables-legacy -S STOPLOG-BLOCKS | grep -q -e '-s PREFIX .*DROP'", none: "! iptables-legacy-save | grep STOPLOG"},
	{name: "hosts.deny", rules: "backend: hosts.deny", found: true, drop: "hosts-deny.conf",
		holds: "grep -q '^ALL: ADDR/255.255.255.240' /etc/hosts.deny", none: "! grep ^ALL /etc/hosts.deny"},
	{name: "set-only", rules: "backend: set-only, sets: {kind: ipset, ipv4: mine4, ipv6: mine6}",
		make:  "ipset create mine4 hash:net timeout 0; ipset create mine6 hash:net family inet6 timeout 0; iptables -I INPUT -m set --match-set mine4 src -j DROP",
		holds: "ipset list mine4 | grep -q '^PREFIX '", none: "! ipset list mine4 | grep timeout.[1-9]"},
}

// unit is the service with one backend.
type unit struct {
	*machine
	backend
}

func (u *unit) script(s, prefix string) error {
	first, _, _ := strings.Cut(prefix, "/")
	_, err := u.try("sh", "-c", strings.NewReplacer("PREFIX", prefix, "ADDR", first).Replace(s))
	return err
}

func (u *unit) held(prefix string, want bool) {
	u.t.Helper()
	what := u.name + ": " + prefix + " to be blocked in the kernel"
	if !want {
		what = u.name + ": " + prefix + " to be gone from the kernel"
	}
	u.until(what, func() bool { return (u.script(u.holds, prefix) == nil) == want })
}

func (u *unit) listed(prefix string) bool {
	for _, b := range u.blocks() {
		if b.Prefix == prefix {
			return true
		}
	}
	return false
}

func (u *unit) mainPID() string {
	return strings.TrimSpace(u.run("systemctl", "show", "-p", "MainPID", "--value", "stoplog"))
}

// TestBackendsInUnit runs every backend under the packaged unit, with all that
// confines it and the drop-in that its documentation names: each blocks, lifts, keeps its blocks over restarts, survives a
// wall process that hangs and a lost state, and leaves nothing to the next.
func TestBackendsInUnit(t *testing.T) {
	soak(t)
	m := boot(t, "trixie")
	m.installBuilt()
	var before *unit
	for _, b := range backends {
		u := &unit{machine: m, backend: b}
		m.run("sh", "-ec", b.make)
		if b.drop != "" {
			text, err := os.ReadFile(filepath.Join("../../packaging/examples", b.drop))
			if err != nil {
				t.Fatal(err)
			}
			m.write("/etc/systemd/system/stoplog.service.d/"+b.drop, string(text), 0o644)
		}
		u.begin()
		if before != nil {
			m.until(before.name+" to be gone with "+b.name, func() bool { return before.script(before.none, "") == nil })
		}
		u.restarts()
		u.stalls()
		u.losesState()
		u.dryRuns()
		before = u
		t.Logf("%s works", b.name)
	}
}

func (u *unit) begin() {
	u.t.Helper()
	u.write("/etc/stoplog/rules.yaml", "use: []\nsources: [{file: /var/log/none.log}]\nfirewall: {"+u.rules+"}\n", 0o644)
	u.run("systemctl", "daemon-reload")
	if out, err := u.try("systemctl", "restart", "stoplog"); err != nil {
		log, _ := u.try("journalctl", "--no-pager", "-u", "stoplog", "-n", "15")
		u.t.Fatalf("%s: the unit does not start: %s\n%s", u.name, out, log)
	}
	u.run("stoplog", "block", "198.18.1.0/28", "--ttl", "2h")
	u.run("stoplog", "block", "198.18.2.0/28", "--ttl", "2h")
	u.held("198.18.1.0/28", true)
	u.held("198.18.2.0/28", true)
	u.run("stoplog", "unblock", "198.18.2.0/28")
	if u.script(u.holds, "198.18.2.0/28") == nil {
		u.t.Errorf("%s: unblock answered, and the kernel still blocks", u.name)
	}
}

func (u *unit) restarts() {
	u.t.Helper()
	u.run("systemctl", "restart", "stoplog")
	u.held("198.18.1.0/28", true)
	if !u.listed("198.18.1.0/28") || u.listed("198.18.2.0/28") {
		u.t.Errorf("%s: after a restart the blocks are %v", u.name, u.blocks())
	}
}

// stalls stops the wall process.
func (u *unit) stalls() {
	u.t.Helper()
	main := u.mainPID()
	wall := strings.TrimSpace(u.run("pgrep", "-P", main, "-f", "wall"))
	u.run("kill", "-STOP", wall)
	out, err := u.try("stoplog", "block", "198.18.3.0/28", "--ttl", "2h")
	if err == nil && u.script(u.holds, "198.18.3.0/28") != nil {
		u.t.Errorf("%s: block answers %q while the wall hangs", u.name, out)
	}
	u.until(u.name+": a restart of both processes", func() bool {
		now := u.mainPID()
		active, _ := u.try("systemctl", "is-active", "stoplog")
		return now != main && now != "0" && active == "active\n"
	})
	if state, err := u.try("ps", "-o", "stat=", "-p", wall); err == nil && strings.HasPrefix(state, "T") {
		u.t.Errorf("%s: the wall that hung is there still", u.name)
	}
	u.held("198.18.1.0/28", true)
	u.held("198.18.3.0/28", true) // it was on disk before the answer
}

func (u *unit) losesState() {
	u.t.Helper()
	u.run("systemctl", "stop", "stoplog")
	u.run("sh", "-c", "rm -r /var/lib/stoplog/*")
	u.run("systemctl", "start", "stoplog")
	if got := u.listed("198.18.1.0/28"); got != u.found {
		u.t.Errorf("%s: with a lost state the blocks are %v", u.name, u.blocks())
	}
	if !u.found {
		u.run("stoplog", "block", "198.18.1.0/28", "--ttl", "2h")
	}
	u.held("198.18.1.0/28", true)
}

func (u *unit) dryRuns() {
	u.t.Helper()
	const dropIn = "/etc/systemd/system/stoplog.service.d/dry.conf"
	u.write(dropIn, "[Service]\nExecStart=\nExecStart=/usr/bin/stoplog run --dry-run\n", 0o644)
	u.run("systemctl", "daemon-reload")
	u.run("systemctl", "restart", "stoplog")
	u.run("stoplog", "block", "198.18.9.0/28", "--ttl", "2h")
	u.run("rm", dropIn)
	u.run("systemctl", "daemon-reload")
	u.run("systemctl", "restart", "stoplog")
	u.held("198.18.1.0/28", true)
	if u.listed("198.18.9.0/28") || u.script(u.holds, "198.18.9.0/28") == nil {
		u.t.Errorf("%s: what a dry run blocked stands", u.name)
	}
}
