package export

import "bufio"

// Both Cisco forms are IOS configuration ("!" comments) that removes the list
// and makes it anew: a list that exists is added to, not replaced.

// cisco-acl is a numbered extended access list for IPv4, whose masks are
// inverted, and a named one for IPv6. A list denies what it does not name, so
// that the last line permits the rest.
func ciscoACLFormat() format {
	return format{Format{Name: "cisco-acl", About: "Cisco IOS: access-list 150 and ipv6 access-list stoplog", MIME: textPlain, Cap: linear},
		byCover, writeCiscoACL}
}

func writeCiscoACL(w *bufio.Writer, l *List) {
	comment(w, l, "! ")
	put(w, "no access-list 150\n")
	for _, p := range l.family(false) {
		put(w, "access-list 150 deny ip ")
		if p.IsSingleIP() {
			put(w, "host ", p.Addr().String(), " any\n")
			continue
		}
		m := mask4(p.Prefix)
		for i := range m {
			m[i] = ^m[i]
		}
		put(w, p.Addr().String(), " ", m.String(), " any\n")
	}
	put(w, "access-list 150 permit ip any any\n", "no ipv6 access-list stoplog\nipv6 access-list stoplog\n")
	each(w, l.family(true), " deny ipv6 ", " any\n")
	put(w, " permit ipv6 any any\n!\n")
}

// cisco-prefix-list permits what is blocked, for route maps that match it and
// send it to Null0. A list that does not exist matches everything, so that
// there is always a last line that matches nothing.
func ciscoPrefixListFormat() format {
	return format{Format{Name: "cisco-prefix-list", About: "Cisco IOS: ip and ipv6 prefix-list stoplog, which match what is blocked", MIME: textPlain, Cap: everything},
		byCover, writeCiscoPrefixList}
}

func writeCiscoPrefixList(w *bufio.Writer, l *List) {
	comment(w, l, "! ")
	writeCiscoPrefixes(w, "ip prefix-list stoplog", "0.0.0.0/0 le 32", l.family(false))
	writeCiscoPrefixes(w, "ipv6 prefix-list stoplog", "::/0 le 128", l.family(true))
}

func writeCiscoPrefixes(w *bufio.Writer, list, rest string, ps []piece) {
	put(w, "no ", list, "\n")
	seq := int64(5)
	for _, p := range ps {
		put(w, list, " seq ")
		putInt(w, seq)
		put(w, " permit ")
		putPrefix(w, p.Prefix)
		put(w, "\n")
		seq += 5
	}
	put(w, list, " seq ")
	putInt(w, seq)
	put(w, " deny ", rest, "\n")
}
