package firewall_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/ipset"
	"stoplog/internal/firewall/iptables"
	"stoplog/internal/firewall/nft"
)

// full is a policy and blocks that need every form of rule.
func full() (firewall.Policy, []firewall.Entry) {
	p := firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.5/32"), netip.MustParsePrefix("2001:db8::5/128")}}
	p.Lockdown.Until = time.Now().Add(time.Hour)
	p.Lockdown.Ports = []firewall.Ports{{Proto: "tcp", From: 22, To: 22}}
	p.Lockdown.Known = []netip.Addr{netip.MustParseAddr("203.0.113.9")}
	drop, reject, slow, ports := firewalltest.Entry("192.0.2.0/28", time.Hour), firewalltest.Entry("198.51.100.0/24", time.Hour),
		firewalltest.Entry("203.0.113.0/28", time.Hour), firewalltest.Entry("2001:db8::/64", time.Hour)
	reject.Action, slow.Action = firewall.Reject, firewall.Slow
	ports.Ports = []firewall.Ports{{Proto: "tcp", From: 22, To: 22}, {From: 80, To: 90}}
	return p, []firewall.Entry{drop, reject, slow, ports}
}

var dates = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?|(expires|timeout) [0-9hms]+|change [0-9a-z]+`)

// TestNFTablesGolden pins the table as nft itself prints it.
func TestNFTablesGolden(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	firewalltest.Namespace(t)
	w := firewalltest.Must(nft.New(firewall.Options{Forward: true}))(t)
	defer w.Close()
	p, es := full()
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := w.Block(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range []string{"input", "forward", "walls", "lock", "blocks"} {
		got += firewalltest.Output(t, "nft", "-s", "-n", "list", "chain", "inet", "stoplog", c)
	}
	// Versions of nft differ in these.
	got = dates.ReplaceAllString(strings.ReplaceAll(got, " == @", " @"), "WHEN")
	const want = `table inet stoplog {
	chain input {
		type filter hook input priority -10; policy accept;
		jump walls
	}
}
table inet stoplog {
	chain forward {
		type filter hook forward priority -10; policy accept;
		jump walls
	}
}
table inet stoplog {
	chain walls {
		ct state 0x2,0x4 ct direction 1 counter return
		icmpv6 type 133-137 counter return
		ip saddr @allow4 counter return
		ip6 saddr @allow6 counter return
		ip6 saddr & ffff:ffff::ffff:ffff ^ 2001::ffff:ffff @allow6 counter return
		jump lock
		jump blocks
	}
}
table inet stoplog {
	chain lock {
		ip saddr @known4 counter return
		ip6 saddr @known6 counter return
		ip6 saddr & ffff:ffff::ffff:ffff ^ 2001::ffff:ffff @known6 counter return
		meta nfproto @locked tcp dport 22 ct state 0x8 counter drop
	}
}
table inet stoplog {
	chain blocks {
		ip6 saddr & ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0 @v6.124.drop counter drop
		ip6 saddr & ffff:ffff::ffff:fff0 ^ 2065:ff9b::ffff:fff0 @v6.124.drop counter drop
		tcp dport 22 ip6 saddr & ffff:ffff:ffff:ffff:: @v6.64.drop.tcp22.any80_90 counter drop
		tcp dport 80-90 ip6 saddr & ffff:ffff:ffff:ffff:: @v6.64.drop.tcp22.any80_90 counter drop
		udp dport 80-90 ip6 saddr & ffff:ffff:ffff:ffff:: @v6.64.drop.tcp22.any80_90 counter drop
		ip6 saddr & ffff:ffff:fff0:: @v6.44.drop counter drop
		ip saddr & 255.255.255.240 @v4.28.drop counter drop
		ip6 saddr & ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00 @v6.120.reject meta l4proto 6 counter reject with tcp reset
		ip6 saddr & ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00 @v6.120.reject counter reject
		ip6 saddr & ffff:ffff::ffff:ff00 ^ 2065:ff9b::ffff:ff00 @v6.120.reject meta l4proto 6 counter reject with tcp reset
		ip6 saddr & ffff:ffff::ffff:ff00 ^ 2065:ff9b::ffff:ff00 @v6.120.reject counter reject
		ip6 saddr & ffff:ffff:ff00:: @v6.40.reject meta l4proto 6 counter reject with tcp reset
		ip6 saddr & ffff:ffff:ff00:: @v6.40.reject counter reject
		ip saddr & 255.255.255.0 @v4.24.reject meta l4proto 6 counter reject with tcp reset
		ip saddr & 255.255.255.0 @v4.24.reject counter reject
		ip6 saddr & ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0 @v6.124.slow ct state 0x8 update @meter.v6.124 { ip6 saddr & ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0 WHEN limit rate over 3/minute burst 3 packets } counter drop
		ip6 saddr & ffff:ffff::ffff:fff0 ^ 2065:ff9b::ffff:fff0 @v6.124.slow ct state 0x8 update @meter.v6.124 { ip6 saddr & ffff:ffff::ffff:fff0 WHEN limit rate over 3/minute burst 3 packets } counter drop
		ip6 saddr & ffff:ffff:fff0:: @v6.44.slow ct state 0x8 update @meter.v6.44 { ip6 saddr & ffff:ffff:fff0:: WHEN limit rate over 3/minute burst 3 packets } counter drop
		ip saddr & 255.255.255.240 @v4.28.slow ct state 0x8 update @meter.v4.28 { ip saddr & 255.255.255.240 WHEN limit rate over 3/minute burst 3 packets } counter drop
	}
}
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestIPTablesGolden pins the rules as iptables itself prints them.
func TestIPTablesGolden(t *testing.T) {
	firewalltest.NeedPrograms(t, "iptables-legacy", "ip6tables-legacy")
	firewalltest.Namespace(t)
	w := firewalltest.Must(iptables.New(firewall.Options{IPTables: "iptables-legacy", IP6Tables: "ip6tables-legacy", Forward: true}))(t)
	p, es := full()
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if err := w.Block(t.Context(), []firewall.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	got := dates.ReplaceAllString(firewalltest.Output(t, "iptables-legacy", "-S")+firewalltest.Output(t, "ip6tables-legacy", "-S", "STOPLOG-BLOCKS"), "WHEN")
	const want = `-P INPUT ACCEPT
-P FORWARD ACCEPT
-P OUTPUT ACCEPT
-N STOPLOG
-N STOPLOG-BLOCKS
-N STOPLOG-LOCK
-A INPUT -m comment --comment stoplog -j STOPLOG
-A FORWARD -m comment --comment stoplog -j STOPLOG
-A STOPLOG -m comment --comment "stoplog replies to our own connections" -m conntrack --ctstate RELATED,ESTABLISHED --ctdir REPLY -j RETURN
-A STOPLOG -s 192.0.2.5/32 -m comment --comment "stoplog allow 192.0.2.5/32" -j RETURN
-A STOPLOG -m comment --comment "stoplog lockdown" -j STOPLOG-LOCK
-A STOPLOG -m comment --comment "stoplog blocks" -j STOPLOG-BLOCKS
-A STOPLOG-BLOCKS -s 198.51.100.0/24 -p tcp -m time --datestop WHEN -m comment --comment "stoplog 198.51.100.0/24 until=WHEN action=reject" -j REJECT --reject-with tcp-reset
-A STOPLOG-BLOCKS -s 198.51.100.0/24 -m time --datestop WHEN -m comment --comment "stoplog 198.51.100.0/24 until=WHEN action=reject" -j REJECT --reject-with icmp-port-unreachable
-A STOPLOG-BLOCKS -s 192.0.2.0/28 -m time --datestop WHEN -m comment --comment "stoplog 192.0.2.0/28 until=WHEN action=drop" -j DROP
-A STOPLOG-BLOCKS -s 203.0.113.0/28 -m conntrack --ctstate NEW -m limit --limit 3/min --limit-burst 3 -m time --datestop WHEN -m comment --comment "stoplog 203.0.113.0/28 until=WHEN action=slow" -j RETURN
-A STOPLOG-BLOCKS -s 203.0.113.0/28 -m conntrack --ctstate NEW -m time --datestop WHEN -m comment --comment "stoplog 203.0.113.0/28 until=WHEN action=slow" -j DROP
-A STOPLOG-BLOCKS -s 255.255.255.255/32 -m comment --comment "stoplog WHEN" -j RETURN
-A STOPLOG-LOCK -s 203.0.113.9/32 -m comment --comment "stoplog known 203.0.113.9" -j RETURN
-A STOPLOG-LOCK -p tcp -m comment --comment "stoplog lockdown until=WHEN ports=tcp/22" -m multiport --dports 22 -m conntrack --ctstate NEW -m time --datestop WHEN -j DROP
-N STOPLOG-BLOCKS
-A STOPLOG-BLOCKS -s 2001:db8::/64 -p tcp -m multiport --dports 22,80:90 -m time --datestop WHEN -m comment --comment "stoplog 2001:db8::/64 until=WHEN action=drop ports=tcp/22,80-90" -j DROP
-A STOPLOG-BLOCKS -s 2001:db8::/64 -p udp -m multiport --dports 80:90 -m time --datestop WHEN -m comment --comment "stoplog 2001:db8::/64 until=WHEN action=drop ports=tcp/22,80-90" -j DROP
-A STOPLOG-BLOCKS -s ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128 -m comment --comment "stoplog WHEN" -j RETURN
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestIPSetGolden pins the rules that look into sets, and the sets.
func TestIPSetGolden(t *testing.T) {
	firewalltest.NeedPrograms(t, "ipset", "iptables-legacy", "ip6tables-legacy")
	firewalltest.Namespace(t)
	w := firewalltest.Must(ipset.New(firewall.Options{IPTables: "iptables-legacy", IP6Tables: "ip6tables-legacy"}))(t)
	p, es := full()
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if err := w.Block(t.Context(), []firewall.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	got := firewalltest.Output(t, "iptables-legacy", "-S", "STOPLOG-SET") + firewalltest.Output(t, "iptables-legacy", "-S", "STOPLOG-SET-BLOCKS") +
		firewalltest.Output(t, "ip6tables-legacy", "-S", "STOPLOG-SET-BLOCKS") + firewalltest.Output(t, "ipset", "list", "-n")
	const want = `-N STOPLOG-SET
-A STOPLOG-SET -m comment --comment "stoplog allow" -m set --match-set stoplog4-allow src -j RETURN
-A STOPLOG-SET -m comment --comment "stoplog replies to our own connections" -m conntrack --ctstate RELATED,ESTABLISHED --ctdir REPLY -j RETURN
-A STOPLOG-SET -m comment --comment "stoplog lockdown" -j STOPLOG-SET-LOCK
-A STOPLOG-SET -m comment --comment "stoplog blocks" -j STOPLOG-SET-BLOCKS
-N STOPLOG-SET-BLOCKS
-A STOPLOG-SET-BLOCKS -m comment --comment "stoplog set action=drop ports=" -m set --match-set stoplog4-drop src -j DROP
-A STOPLOG-SET-BLOCKS -p tcp -m comment --comment "stoplog set action=reject ports=" -m set --match-set stoplog4-reject src -j REJECT --reject-with tcp-reset
-A STOPLOG-SET-BLOCKS -m comment --comment "stoplog set action=reject ports=" -m set --match-set stoplog4-reject src -j REJECT --reject-with icmp-port-unreachable
-A STOPLOG-SET-BLOCKS -m comment --comment "stoplog set action=slow ports=" -m set --match-set stoplog4-slow src -m conntrack --ctstate NEW -m hashlimit --hashlimit-above 3/min --hashlimit-burst 3 --hashlimit-mode srcip --hashlimit-name stoplog4 --hashlimit-srcmask 28 -j DROP
`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s and more", got, want)
	}
	for _, set := range []string{"stoplog4-known", "stoplog6-allow", "stoplog6-d"} {
		if !strings.Contains(got, "\n"+set) {
			t.Errorf("no set %s in\n%s", set, got)
		}
	}
}

// TestNFTablesReadBack: what nft prints of the table, nft loads again, as who
// saves the ruleset to /etc/nftables.conf expects, and the wall goes on with it.
func TestNFTablesReadBack(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	firewalltest.Namespace(t)
	for _, o := range []firewall.Options{{Forward: true}, {Hook: firewall.HookPrerouting}, {Hook: firewall.HookRaw}} {
		w := firewalltest.Must(nft.New(o))(t)
		p, es := full()
		es = slices.DeleteFunc(es, func(e firewall.Entry) bool { return o.Hook != "" && e.Action != firewall.Drop })
		if err := w.Setup(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if err := w.Block(t.Context(), es); err != nil {
			t.Fatal(err)
		}
		want := firewalltest.List(t, w)
		saved := filepath.Join(t.TempDir(), "saved")
		if err := os.WriteFile(saved, []byte(firewalltest.Output(t, "nft", "list", "ruleset")), 0o644); err != nil {
			t.Fatal(err)
		}
		firewalltest.Output(t, "nft", "-c", "-f", saved)
		firewalltest.Output(t, "nft", "flush", "ruleset")
		firewalltest.Output(t, "nft", "-f", saved)
		next := firewalltest.Must(nft.New(o))(t)
		if got := firewalltest.List(t, next); !slices.Equal(got, want) {
			t.Errorf("the next wall lists %v, want %v", got, want)
		}
		if err := next.Setup(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := firewalltest.List(t, next); !slices.Equal(got, want) || next.Check(t.Context()) != nil {
			t.Errorf("after a setup the next wall lists %v, %v, want %v", got, next.Check(t.Context()), want)
		}
		if err := w.List(t.Context(), func(firewall.Entry) {}); !errors.Is(err, firewall.ErrBroken) {
			t.Errorf("the wall says %v of a table that nft loaded, want that it is another", err)
		}
		if err := w.Setup(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if err := w.Block(t.Context(), es); err != nil {
			t.Fatal(err)
		}
		if got := firewalltest.List(t, w); !slices.Equal(got, want) {
			t.Errorf("after the repair the wall lists %v, want %v", got, want)
		}
		if err := w.Teardown(t.Context()); err != nil {
			t.Fatal(err)
		}
		next.Close()
		w.Close()
	}
}

// TestNFTablesForms: an IPv6 form that is gone, or that stands alone, is noticed.
func TestNFTablesForms(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	firewalltest.Namespace(t)
	w := firewalltest.Must(nft.New(firewall.Options{}))(t)
	defer w.Close()
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	es := []firewall.Entry{firewalltest.Entry("203.0.113.0/28", time.Hour), firewalltest.Entry("198.51.100.0/28", time.Hour), firewalltest.Entry("2001:db8::/64", time.Hour)}
	block := func(want ...string) {
		t.Helper()
		if err := w.Block(t.Context(), es); err != nil {
			t.Fatal(err)
		}
		if got := firewalltest.List(t, w); !slices.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
	}
	block("198.51.100.0/28", "2001:db8::/64", "203.0.113.0/28")
	firewalltest.Output(t, "nft", "delete", "element", "inet", "stoplog", "v6.124.drop", "{ 64:ff9b::cb00:7100 }")
	if err := w.List(t.Context(), func(firewall.Entry) {}); !errors.Is(err, firewall.ErrBroken) || !strings.Contains(err.Error(), "the IPv6 forms of 1 blocks are missing") {
		t.Errorf("a form is gone, and List says %v", err)
	}
	block("198.51.100.0/28", "2001:db8::/64", "203.0.113.0/28")
	firewalltest.Output(t, "nft", "delete", "element", "inet", "stoplog", "v4.28.drop", "{ 203.0.113.0 }")
	stray := []string{"198.51.100.0/28", "2001:db8::/64", "2002:cb00:7100::/44", "64:ff9b::cb00:7100/124"}
	if got := firewalltest.List(t, w); !slices.Equal(got, stray) {
		t.Errorf("listed %v, want %v", got, stray)
	}
	es[0].Action = firewall.Reject // over forms that stand alone in another set
	block("198.51.100.0/28", "2001:db8::/64", "203.0.113.0/28")
	es[0].Action = firewall.Drop
	block("198.51.100.0/28", "2001:db8::/64", "203.0.113.0/28")
	if err := w.Unblock(t.Context(), []netip.Prefix{es[0].Prefix, es[1].Prefix}); err != nil {
		t.Fatal(err)
	}
	if out := firewalltest.Output(t, "nft", "list", "table", "inet", "stoplog"); strings.Contains(out, "cb00:71") || strings.Contains(out, "c633:64") {
		t.Errorf("forms outlive their blocks:\n%s", out)
	}
}

// TestIPTablesSavedByNFT: nft saves rules that iptables made as rules that
// iptables cannot list. Our own are replaced, and the table can be listed again.
func TestIPTablesSavedByNFT(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft", "iptables-nft", "ip6tables-nft")
	firewalltest.Namespace(t)
	firewalltest.Output(t, "iptables-nft", "-A", "INPUT", "-s", "203.0.113.9", "-j", "DROP")
	w := firewalltest.Must(iptables.New(firewall.Options{IPTables: "iptables-nft", IP6Tables: "ip6tables-nft"}))(t)
	p, es := full()
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := w.Block(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	want, rules := firewalltest.List(t, w), firewalltest.Output(t, "iptables-nft", "-S", "STOPLOG")
	saved := filepath.Join(t.TempDir(), "saved")
	firewalltest.Output(t, "sh", "-c", "(echo flush ruleset; nft list ruleset) >"+saved+"; nft -f "+saved)
	if err := w.Check(t.Context()); err == nil {
		t.Error("Check finds nothing")
	}
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := w.Block(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	_ = w.List(t.Context(), func(firewall.Entry) {}) // says once that the mark was gone
	if got := firewalltest.List(t, w); !slices.Equal(got, want) || w.Check(t.Context()) != nil {
		t.Errorf("the wall lists %v, %v, want %v", got, w.Check(t.Context()), want)
	}
	if got := firewalltest.Output(t, "iptables-nft", "-S", "STOPLOG"); got != rules {
		t.Errorf("got the rules\n%s\nwant\n%s", got, rules)
	}
	if got := firewalltest.Output(t, "iptables-nft", "-S", "INPUT"); strings.Count(got, "-j STOPLOG") != 1 || !strings.Contains(got, "-s 203.0.113.9/32 -j DROP") {
		t.Errorf("INPUT is\n%s", got)
	}
}
