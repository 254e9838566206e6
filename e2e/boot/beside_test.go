package boot

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// walls are what each backend's blocks look like in the kernel: scripts that
// print the blocked prefixes and fail when what leads packets to them is gone.
var walls = map[string]string{
	"nftables": `nft list chain inet stoplog input | grep -q 'jump walls'
nft list chain inet stoplog walls | grep -q 'jump blocks'
for s in v4.28 v6.64; do nft list chain inet stoplog blocks | grep -q "@$s.drop .*drop"; nft list set inet stoplog $s.drop; done`,
	"ipset": `for p in iptables ip6tables; do $p -S INPUT | grep -q -e '-j STOPLOG-SET$'
$p -S STOPLOG-SET | grep -q -e '-j STOPLOG-SET-BLOCKS'; $p -S STOPLOG-SET-BLOCKS | grep -q 'match-set stoplog..drop src -j DROP'; done
ipset save stoplog4-drop; ipset save stoplog6-drop`,
	"iptables": `for p in iptables ip6tables; do $p -S INPUT | grep -q -e '-j STOPLOG$'; $p -S STOPLOG | grep -q -e '-j STOPLOG-BLOCKS'; $p -S STOPLOG-BLOCKS; done`,
}

// other is what another program or an administrator does to the firewall.
type other struct{ name, do string }

// others in the order in which they are done. Each begins with all blocks in
// place. "kept" is a save of the ruleset from before stoplog's first block.
var others = []other{
	{"nft flush ruleset", "nft flush ruleset"},
	{"nftables.service", "systemctl start nftables"},
	{"nftables.service restarted", "systemctl restart nftables"},
	{"nftables.service with a saved ruleset", `cp /etc/nftables.conf /root/nftables.conf; set -e
(echo 'flush ruleset'; nft list tables | grep ' inet ' | while read t; do nft list $t; done) >/etc/nftables.conf
nft -c -f /etc/nftables.conf; systemctl restart nftables; systemctl is-active nftables; cp /root/nftables.conf /etc/nftables.conf`},
	{"nftables.service stopped", "systemctl stop nftables"},
	{"iptables -F", "iptables -F; ip6tables -F"},
	{"iptables-restore of an older save", "iptables-restore </root/kept4; ip6tables-restore </root/kept6"},
	{"iptables-restore of now", "iptables-save >/root/now4; ip6tables-save >/root/now6; iptables-restore </root/now4; ip6tables-restore </root/now6"},
	{"ipset flush", "ipset flush"},
	{"DOCKER chains", `for p in iptables ip6tables; do $p -N DOCKER; $p -N DOCKER-USER; $p -A DOCKER-USER -j RETURN; $p -I FORWARD -j DOCKER-USER
$p -A FORWARD -o docker0 -j DOCKER; done; iptables -t nat -N DOCKER; iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
iptables -I DOCKER-USER -s 203.0.113.128/28 -j DROP`},
	{"DOCKER chains again", "iptables -F DOCKER-USER; iptables -A DOCKER-USER -j RETURN; iptables -D FORWARD -j DOCKER-USER; iptables -I FORWARD -j DOCKER-USER"},
	{"ufw enable", "ufw --force enable"},
	{"ufw reload", "ufw allow 22/tcp; ufw deny from 203.0.113.99; ufw reload"},
	{"ufw disable", "ufw disable"},
	{"fail2ban with iptables", `printf '[DEFAULT]\nbanaction=iptables-multiport\n[sshd]\nenabled=true\nbackend=polling\nlogpath=/var/log/f2b.log\n' >/etc/fail2ban/jail.local
touch /var/log/f2b.log; systemctl start fail2ban; until fail2ban-client status sshd; do sleep 0.1; done; fail2ban-client set sshd banip 203.0.113.77 198.51.100.9`},
	{"fail2ban restarted with nftables", `sed -i s/iptables-multiport/nftables/ /etc/fail2ban/jail.local; systemctl restart fail2ban
until fail2ban-client status sshd; do sleep 0.1; done; fail2ban-client set sshd banip 203.0.113.78 198.51.100.10
until nft list ruleset | grep -q 203.0.113.77 && nft list ruleset | grep -q 198.51.100.9; do sleep 0.1; done`},
	{"nft flush ruleset beside fail2ban", "nft flush ruleset; fail2ban-client set sshd banip 203.0.113.79"},
	{"fail2ban stopped", "systemctl stop fail2ban"},
	{"firewalld", "systemctl start firewalld"},
	{"firewalld with rules", "firewall-cmd --permanent --add-service=ssh --add-rich-rule='rule family=ipv4 source address=203.0.113.98 drop'; firewall-cmd --reload"},
	{"firewalld reloaded", "firewall-cmd --reload"},
	{"firewalld reloaded completely", "firewall-cmd --complete-reload"},
	{"firewalld stopped", "systemctl stop firewalld"},
}

// theirs prints all that is not stoplog's, without counters. Tables that
// iptables keeps in nftables are printed by iptables-save; its base chains are
// there as soon as anybody has a rule.
const theirs = `nft list tables | grep -v -E -e ' stoplog$' -e ' ip6? (filter|nat|mangle|raw|security)$' | while read _ f n; do nft -s list table $f $n; done
for p in iptables ip6tables; do $p-save 2>/dev/null | grep -vi -e stoplog -e '^[#*:]' -e '^COMMIT'; $p-save | sed -n 's/^\(:[^ ]* -\).*/\1/p' | grep -v STOPLOG | sort; done
ipset list -n | grep -v -e '^stoplog[46]' | while read s; do ipset save $s; done; true`

var blocked = regexp.MustCompile(`(198\.18\.|2001:db8:b:)[0-9a-f.:]+(?:/\d+)?`)

// besides is one backend's run beside others.
type besides struct {
	*machine
	backend string
	want    []string // as the kernel prints them
}

// held are the blocks in the kernel, nil while packets are not led to them.
func (b *besides) held() []string {
	out, err := b.try("sh", "-ec", walls[b.backend])
	if err != nil {
		return nil
	}
	there := map[string]bool{}
	for _, p := range blocked.FindAllString(out, -1) {
		p, _, _ = strings.Cut(p, "/")
		there[p] = true
	}
	return slices.Sorted(maps.Keys(there))
}

// TestBesideOthers has each backend stand beside every program that changes the
// firewall of a Debian. After whatever it did, all blocks are in place within
// three seconds, none is lifted, and what is not stoplog's is as it was left.
func TestBesideOthers(t *testing.T) {
	soak(t)
	for _, backend := range slices.Sorted(maps.Keys(walls)) {
		t.Run(backend, func(t *testing.T) {
			b := &besides{machine: boot(t, "trixie"), backend: backend}
			b.installBuilt()
			b.run("sh", "-ec", `nft add table inet mine; nft 'add set inet mine s { type ipv4_addr; flags timeout; }'; nft 'add element inet mine s { 203.0.113.1 }'
nft 'add chain inet mine input { type filter hook input priority 0; }'; nft 'add rule inet mine input ip saddr @s counter drop'
ipset create mine hash:net; ipset add mine 203.0.113.64/28; iptables -A INPUT -m set --match-set mine src -j DROP
ip6tables -A INPUT -s 2001:db8:bad::/48 -j DROP; iptables -t nat -A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE
iptables-save >/root/kept4; ip6tables-save >/root/kept6`)
			b.write("/etc/stoplog/rules.yaml", "use: []\nsources: [{file: /var/log/none.log}]\nfirewall: {backend: "+backend+"}\n", 0o644)
			b.run("systemctl", "start", "stoplog")
			for i := range 20 {
				b.run("stoplog", "block", fmt.Sprintf("198.18.%d.0/28", i), "--ttl", "2h")
				b.want = append(b.want, fmt.Sprintf("198.18.%d.0", i))
			}
			for i := range 5 {
				b.run("stoplog", "block", fmt.Sprintf("2001:db8:b:%d::/64", i+1), "--ttl", "2h")
				b.want = append(b.want, fmt.Sprintf("2001:db8:b:%d::", i+1))
			}
			slices.Sort(b.want)
			b.meets(other{"the start", "true"})
			for _, o := range others {
				b.meets(o)
			}
			if n := len(b.blocks()); n != len(b.want) {
				t.Errorf("stoplog lists %d blocks, want %d", n, len(b.want))
			}
		})
	}
}

// soon is when what others removed must be back. The promise is three seconds,
// which the log shows; the rest is for a busy machine.
const soon = 10 * time.Second

// meets lets another do its thing and waits for the blocks.
func (b *besides) meets(o other) {
	b.t.Helper()
	out, err := b.try("sh", "-c", o.do)
	done := time.Now()
	if err != nil {
		b.t.Errorf("%s: %v\n%s", o.name, err, out)
	}
	before := b.run("sh", "-c", theirs)
	var held []string
	for !slices.Equal(held, b.want) {
		if held = b.held(); time.Since(done) > soon {
			log, _ := b.try("journalctl", "--no-pager", "-u", "stoplog", "-n", "15")
			b.t.Errorf("%s: %s later the kernel holds %v, want %v\n%s", o.name, soon, held, b.want, log)
			break
		}
	}
	b.t.Logf("%s: in place %v later", o.name, time.Since(done).Round(time.Millisecond))
	b.until("all blocks after "+o.name, func() bool { return slices.Equal(b.held(), b.want) })
	if after := b.run("sh", "-c", theirs); after != before {
		b.t.Errorf("%s: what is not stoplog's was\n%s\nand is\n%s", o.name, before, after)
	}
}
