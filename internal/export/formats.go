package export

import "bufio"

// everything is the cap of formats whose readers look addresses up in a tree
// or a hash table; linear of those that compare one by one.
const (
	everything = 1_000_000
	linear     = 10_000
)

const textPlain = "text/plain; charset=utf-8"

// formats is the table of all that can be written. Those with a grammar of
// their own have a file each.
func formats() []format {
	return []format{
		// What most firewalls fetch by URL (pfSense and OPNsense aliases,
		// FortiGate threat feeds, Palo Alto external dynamic lists).
		{Format{Name: "plain", About: "one address or prefix on each line, # comments: pfSense, OPNsense, FortiGate, Palo Alto", MIME: textPlain, Cap: everything},
			byCover, nothing, hosts()},
		// For readers that know no comments.
		{Format{Name: "cidr", About: "one prefix with its length on each line, nothing else", MIME: textPlain, Cap: everything, Mute: true},
			byCover, nothing, func(w *bufio.Writer, l *List) { each(w, l.pieces, "", "\n") }},
		{Format{Name: "json", About: "one object with every block: prefix, until, rule, count, points; limited blocks separately", MIME: "application/json", Cap: everything},
			byEntry, anything, writeJSON},
		{Format{Name: "csv", About: "a table with every block: prefix, until, rule, count, points", MIME: "text/csv; charset=utf-8; header=present", Cap: everything, Mute: true},
			byEntry, nothing, writeCSV},
		// hosts_access(5). Every line is tried for every connection.
		{Format{Name: "hosts.deny", About: "tcp wrappers: lines for /etc/hosts.deny", MIME: textPlain, Cap: linear},
			byCover, nothing, writeHostsDeny},
		{Format{Name: "iptables-restore", About: "a chain for iptables-restore --noflush and ip6tables-restore --noflush; with ports and rates", MIME: textPlain, Cap: linear},
			byEnd, anything, writeIptables},
		{Format{Name: "ipset", About: "ipset restore: the sets stoplog-export4 and stoplog-export6 (hash:net), and stoplog-export-ports4 and 6 (hash:net,port)", MIME: textPlain, Cap: everything, Counts: true},
			byEnd, ipsetPorts, writeIpset},
		{Format{Name: "nft", About: "nft -f: the table inet stoplog_export, with sets and rules; with ports and rates", MIME: textPlain, Cap: everything, Counts: true},
			byEnd, anything, writeNft},
		// pf.conf(5), "table <stoplog> persist file"; pfctl(8) -T replace -f:
		// addresses and prefixes apart by white space, comments after "#".
		{Format{Name: "pf", About: "pf: a table file for pfctl -t stoplog -T replace -f", MIME: textPlain, Cap: everything},
			byCover, nothing, hosts("in pf.conf: table <stoplog> persist file \"/etc/pf.stoplog\"; block in quick from <stoplog>")},
		{Format{Name: "cisco-acl", About: "Cisco IOS: access-list 150 and ipv6 access-list stoplog; with ports", MIME: textPlain, Cap: linear},
			byCover, portsAlone, writeCiscoACL},
		{Format{Name: "cisco-prefix-list", About: "Cisco IOS: ip and ipv6 prefix-list stoplog, which match blocked prefixes", MIME: textPlain, Cap: everything},
			byCover, nothing, writeCiscoPrefixList},
		{Format{Name: "mikrotik", About: "RouterOS: a script for /import, address-list stoplog", MIME: textPlain, Cap: linear * 5, Counts: true},
			byEnd, nothing, writeMikrotik},
		// ngx_http_access_module compares lines one by one.
		{Format{Name: "nginx-deny", About: "nginx: deny lines to include in http, server or location", MIME: textPlain, Cap: linear, Web: true},
			byCover, nothing, lines("deny ", ";\n")},
		// ngx_http_geo_module, a radix tree: $stoplog is 1 for the blocked and 0
		// for all others.
		{Format{Name: "nginx-geo", About: "nginx: geo $stoplog to include in http; if ($stoplog) { return 429; }", MIME: textPlain, Cap: everything, Web: true},
			byCover, nothing, writeGeo},
		// mod_authz_host. Outside of a <RequireAll> of the administrator's Apache
		// refuses these lines, and one of our own beside other Require lines would
		// let people in. Apache compares line by line.
		{Format{Name: "apache", About: "Apache httpd: Require not ip lines to include in <RequireAll>", MIME: textPlain, Cap: linear, Web: true},
			byCover, nothing, lines("Require not ip ", "\n", "include inside <RequireAll>, next to Require all granted or other requirements")},
		// `acl … src -f` (HAProxy configuration manual, 7.1), a tree.
		{Format{Name: "haproxy-acl", About: "HAProxy: a file for acl blocked src -f", MIME: textPlain, Cap: everything, Web: true},
			byCover, nothing, lines("", "\n")},
		{Format{Name: "haproxy-map", About: "HAProxy: a map of prefixes to the Unix second at which the block ends", MIME: textPlain, Cap: everything, Web: true},
			byEnd, nothing, writeHAProxyMap},
		{Format{Name: "caddy", About: "Caddy: the snippet (stoplog) to import in sites", MIME: textPlain, Cap: linear, Web: true},
			byCover, nothing, writeCaddy},
	}
}

// lines writes every prefix between two words, after the notes.
func lines(before, after string, notes ...string) writer {
	return func(w *bufio.Writer, l *List) {
		comment(w, l, "# ", notes...)
		each(w, l.pieces, before, after)
	}
}

// hosts writes an address or prefix a line, after the notes.
func hosts(notes ...string) writer {
	return func(w *bufio.Writer, l *List) {
		comment(w, l, "# ", notes...)
		for _, p := range l.pieces {
			putHost(w, p.Prefix)
			put(w, "\n")
		}
	}
}

// writeHostsDeny puts IPv6 in brackets, the length outside them.
func writeHostsDeny(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	for _, p := range family(l.pieces, false) {
		put(w, "ALL: ")
		putHost(w, p.Prefix)
		put(w, "\n")
	}
	for _, p := range family(l.pieces, true) {
		put(w, "ALL: [", p.Addr().String(), "]/")
		putInt(w, int64(p.Bits()))
		put(w, "\n")
	}
}

func writeGeo(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	put(w, "geo $stoplog {\n\tdefault 0;\n")
	each(w, l.pieces, "\t", " 1;\n")
	put(w, "}\n")
}

// lastSecond ends what has no end, in HAProxy's maps: the year 9999.
const lastSecond = 253_402_300_799

// writeHAProxyMap is for a map_ip_int converter (7.3.1): HAProxy ends blocks by
// itself, whether or not somebody still renews the file.
func writeHAProxyMap(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	for _, p := range l.pieces {
		putPrefix(w, p.Prefix)
		put(w, " ")
		putInt(w, min(p.end, lastSecond))
		put(w, "\n")
	}
}

// writeCaddy is a snippet of the Caddyfile ("import FILE" at the top, "import
// stoplog" in a site). Caddy compares prefix by prefix. A matcher needs an
// address, so that an empty list is a snippet that does nothing.
func writeCaddy(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	put(w, "(stoplog) {\n")
	if len(l.pieces) > 0 {
		put(w, "\t@stoplog {\n")
		each(w, l.pieces, "\t\tremote_ip ", "\n")
		put(w, "\t}\n\trespond @stoplog 429\n")
	}
	put(w, "}\n")
}

// mikrotikMax is the greatest timeout of RouterOS: 35w3d13h13m56s.
const mikrotikMax = 21_474_836

// writeMikrotik is a script for RouterOS's /import (manual, "Address-lists"):
// entries with a timeout are dynamic and end by themselves. Adding an entry
// twice is an error that ends an import, so that the old ones go first.
func writeMikrotik(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	for _, f := range []struct {
		menu string
		v6   bool
	}{{"/ip firewall address-list\n", false}, {"/ipv6 firewall address-list\n", true}} {
		put(w, f.menu, "remove [find where list=stoplog]\n")
		for _, p := range family(l.pieces, f.v6) {
			put(w, "add list=stoplog address=")
			putPrefix(w, p.Prefix)
			if p.end != forever {
				put(w, " timeout=")
				putInt(w, l.seconds(p, mikrotikMax))
				put(w, "s")
			}
			put(w, "\n")
		}
	}
}
