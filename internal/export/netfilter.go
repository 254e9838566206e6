package export

import (
	"bufio"
	"fmt"
	"strconv"
	"time"
)

// nftMax is the longest timeout in seconds: nft reads eight digits and no more.
const nftMax = 99_999_999

// writeNft writes a file for `nft -f` (nft(8)): a table of its own, replaced in
// one transaction. It drops before connection marks and filters, but lets
// replies to connections from inside and neighbour discovery pass on. A slowed
// prefix has its rate for each address, of IPv6 for each /64.
func writeNft(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	put(w, "table inet stoplog_export\ndelete table inet stoplog_export\ntable inet stoplog_export {\n")
	nftFamily := []struct{ name, kind, saddr, by string }{
		{"4", "ipv4_addr", "ip saddr", "ip saddr"},
		{"6", "ipv6_addr", "ip6 saddr", "ip6 saddr & ffff:ffff:ffff:ffff::"},
	}
	for i, f := range nftFamily {
		writeNftSet(w, l, "blocked"+f.name, f.kind, family(l.pieces, i == 1))
	}
	for n, c := range l.classes {
		for i, f := range nftFamily {
			writeNftSet(w, l, nftClass(n, f.name), f.kind, family(c.pieces, i == 1))
			if c.Rate > 0 {
				put(w, "\tset ", nftRates(n, f.name), " {\n\t\ttype ", f.kind, "\n\t\tsize 65535\n\t\tflags dynamic, timeout\n\t\ttimeout 2m\n\t}\n")
			}
		}
	}
	put(w, `	chain prerouting {
		type filter hook prerouting priority mangle - 5; policy accept;
		ct direction reply return
		icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } return
		ip saddr @blocked4 drop
		ip6 saddr @blocked6 drop
`)
	for n, c := range l.classes {
		for _, f := range nftFamily {
			for _, p := range c.protocols() {
				put(w, "\t\t", f.saddr, " @", nftClass(n, f.name))
				if p.name != "" {
					put(w, " ", p.name, " dport { ", p.list("-", ", "), " }")
				}
				if c.Rate > 0 {
					put(w, fmt.Sprintf(" ct state new add @%s { %s limit rate over %d/minute burst %d packets }", nftRates(n, f.name), f.by, c.Rate, c.Rate))
				}
				put(w, " drop\n")
			}
		}
	}
	put(w, "\t}\n}\n")
}

func nftClass(n int, family string) string { return "limited" + strconv.Itoa(n+1) + "_" + family }
func nftRates(n int, family string) string { return "rates" + strconv.Itoa(n+1) + "_" + family }

// writeNftSet writes one set. nft's grammar has no empty list of elements.
func writeNftSet(w *bufio.Writer, l *List, name, kind string, ps []piece) {
	put(w, "\tset ", name, " {\n\t\ttype ", kind, "\n\t\tflags interval, timeout\n")
	if len(ps) > 0 {
		put(w, "\t\telements = {\n")
		for _, p := range ps {
			put(w, "\t\t\t")
			putPrefix(w, p.Prefix)
			if p.end != forever {
				put(w, " timeout ")
				putInt(w, l.seconds(p, nftMax))
				put(w, "s")
			}
			put(w, ",\n")
		}
		put(w, "\t\t}\n")
	}
	put(w, "\t}\n")
}

// ipsetMax is the greatest timeout of ipset, in seconds; ipsetPortMax how many
// ports one block may add to a set, each of which is an element.
const (
	ipsetMax     = 2_147_483
	ipsetPortMax = 32
)

// ipsetPorts: a set can tell ports, but not many of them, and no rates.
func ipsetPorts(l Limit) bool {
	n := 0
	for _, p := range l.protocols() {
		n += p.count()
	}
	return l.Rate == 0 && n <= ipsetPortMax
}

// writeIpset is for `ipset restore`: the new list is made beside the old one
// and swapped with it, so that there is no moment without. A timeout of 0 is
// none.
func writeIpset(w *bufio.Writer, l *List) {
	comment(w, l, "# ", "load with: ipset restore -exist", "match with: -m set --match-set stoplog-export4 src, and --match-set stoplog-export-ports4 src,dst")
	for _, v6 := range []bool{false, true} {
		n, inet := "4", "inet"
		if v6 {
			n, inet = "6", "inet6"
		}
		spec := " family " + inet + " maxelem 1048576 timeout 0\n"
		swapSet(w, "stoplog-export"+n, " hash:net"+spec, func(set string) {
			l.addAll(w, set, family(l.pieces, v6), "")
		})
		swapSet(w, "stoplog-export-ports"+n, " hash:net,port"+spec, func(set string) {
			for _, c := range l.classes {
				for _, p := range c.protocols() {
					for _, x := range p.ports {
						l.addAll(w, set, family(c.pieces, v6), fmt.Sprintf(",%s:%d-%d", p.name, x.From, x.To))
					}
				}
			}
		})
	}
}

func swapSet(w *bufio.Writer, set, spec string, fill func(set string)) {
	next := set + "-new"
	put(w, "create ", set, spec, "create ", next, spec, "flush ", next, "\n")
	fill(next)
	put(w, "swap ", next, " ", set, "\ndestroy ", next, "\n")
}

func (l *List) addAll(w *bufio.Writer, set string, ps []piece, ports string) {
	for _, p := range ps {
		put(w, "add ", set, " ")
		putPrefix(w, p.Prefix)
		put(w, ports, " timeout ")
		if p.end == forever {
			put(w, "0\n")
			continue
		}
		putInt(w, l.seconds(p, ipsetMax))
		put(w, "\n")
	}
}

// lastDate is the greatest time that iptables' -m time knows (32 bits).
const lastDate = 1<<31 - 1

// writeIptables is for iptables-restore(8), one text for both families: a rule
// with -4 is ignored by ip6tables-restore, one with -6 by iptables-restore.
// --datestop is in UTC and lets each rule end by itself.
func writeIptables(w *bufio.Writer, l *List) {
	comment(w, l, "# ",
		"load with iptables-restore --noflush and ip6tables-restore --noflush; without --noflush the other rules of the table are deleted",
		"then run once: iptables -I INPUT -j stoplog-export; ip6tables -I INPUT -j stoplog-export")
	put(w, "*filter\n:stoplog-export - [0:0]\n")
	for _, v6 := range []bool{false, true} {
		l.iptablesRules(w, v6, family(l.pieces, v6), Limit{})
		for _, c := range l.classes {
			l.iptablesRules(w, v6, family(c.pieces, v6), c.Limit)
		}
	}
	put(w, "COMMIT\n")
}

func (l *List) iptablesRules(w *bufio.Writer, v6 bool, ps []piece, limit Limit) {
	source, n := " -4 -s ", "4"
	if v6 {
		source, n = " -6 -s ", "6"
	}
	for _, p := range ps {
		for _, proto := range limit.protocols() {
			put(w, "-A stoplog-export", source)
			putPrefix(w, p.Prefix)
			if proto.name != "" {
				put(w, " -p ", proto.name, " -m multiport --dports ", proto.list(":", ","))
			}
			if limit.Rate > 0 {
				put(w, fmt.Sprintf(" -m conntrack --ctstate NEW -m hashlimit --hashlimit-above %d/minute --hashlimit-burst %d --hashlimit-mode srcip --hashlimit-srcmask %d --hashlimit-name so%s-%d-%d",
					limit.Rate, limit.Rate, p.Bits(), n, p.Bits(), limit.Rate))
			}
			if p.end < lastDate {
				put(w, " -m time --datestop ", time.Unix(p.end, 0).UTC().Format("2006-01-02T15:04:05"))
			}
			put(w, " -j DROP\n")
		}
	}
}
