package firewall_test

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
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

var dates = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?|(expires|timeout) [0-9hms]+`)

// TestNFTablesGolden pins the table as nft itself prints it.
func TestNFTablesGolden(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	firewalltest.Namespace(t)
	w := must(firewall.NewNFTables(firewall.Options{Forward: true}))(t)
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
		jump lock
		jump blocks
	}
}
table inet stoplog {
	chain lock {
		ip saddr @known4 counter return
		ip6 saddr @known6 counter return
		meta nfproto @locked tcp dport 22-22 ct state 0x8 counter drop
	}
}
table inet stoplog {
	chain blocks {
		tcp dport 22-22 ip6 saddr & ffff:ffff:ffff:ffff:: @v6.64.drop.tcp22.any80_90 counter drop
		tcp dport 80-90 ip6 saddr & ffff:ffff:ffff:ffff:: @v6.64.drop.tcp22.any80_90 counter drop
		udp dport 80-90 ip6 saddr & ffff:ffff:ffff:ffff:: @v6.64.drop.tcp22.any80_90 counter drop
		ip saddr & 255.255.255.240 @v4.28.drop counter drop
		ip saddr & 255.255.255.0 @v4.24.reject meta l4proto 6 counter reject with tcp reset
		ip saddr & 255.255.255.0 @v4.24.reject counter reject
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
	w := must(firewall.NewIPTables(firewall.Options{IPTables: "iptables-legacy", IP6Tables: "ip6tables-legacy", Forward: true}))(t)
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
-A STOPLOG-LOCK -s 203.0.113.9/32 -m comment --comment "stoplog known 203.0.113.9" -j RETURN
-A STOPLOG-LOCK -p tcp -m comment --comment "stoplog lockdown until=WHEN ports=tcp/22" -m multiport --dports 22 -m conntrack --ctstate NEW -m time --datestop WHEN -j DROP
-N STOPLOG-BLOCKS
-A STOPLOG-BLOCKS -s 2001:db8::/64 -p tcp -m multiport --dports 22,80:90 -m time --datestop WHEN -m comment --comment "stoplog 2001:db8::/64 until=WHEN action=drop ports=tcp/22,80-90" -j DROP
-A STOPLOG-BLOCKS -s 2001:db8::/64 -p udp -m multiport --dports 80:90 -m time --datestop WHEN -m comment --comment "stoplog 2001:db8::/64 until=WHEN action=drop ports=tcp/22,80-90" -j DROP
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestIPSetGolden pins the rules that look into sets, and the sets.
func TestIPSetGolden(t *testing.T) {
	firewalltest.NeedPrograms(t, "ipset", "iptables-legacy", "ip6tables-legacy")
	firewalltest.Namespace(t)
	w := must(firewall.NewIPSet(firewall.Options{IPTables: "iptables-legacy", IP6Tables: "ip6tables-legacy"}))(t)
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
