package export

import (
	"bufio"
	"fmt"
)

// Both Cisco forms are IOS configuration ("!" comments) that removes the list
// and makes a new one: a list that exists is added to, not replaced.

// writeCiscoACL is a numbered extended access list for IPv4, whose masks are
// inverted, and a named one for IPv6. A list denies what it does not name, so
// that the last line permits the rest.
func writeCiscoACL(w *bufio.Writer, l *List) {
	comment(w, l, "! ")
	put(w, "no access-list 150\n")
	l.ciscoDeny(w, "access-list 150 deny ", "ip", false)
	put(w, "access-list 150 permit ip any any\n", "no ipv6 access-list stoplog\nipv6 access-list stoplog\n")
	l.ciscoDeny(w, " deny ", "ipv6", true)
	put(w, " permit ipv6 any any\n!\n")
}

// ciscoDeny writes a line for each prefix, and of limited ones for each range
// of ports.
func (l *List) ciscoDeny(w *bufio.Writer, deny, all string, v6 bool) {
	for _, p := range family(l.pieces, v6) {
		put(w, deny, all, " ", ciscoSource(p), " any\n")
	}
	for _, c := range l.classes {
		for _, proto := range c.protocols() {
			for _, x := range proto.ports {
				which := fmt.Sprintf(" any eq %d\n", x.From)
				if x.To != x.From {
					which = fmt.Sprintf(" any range %d %d\n", x.From, x.To)
				}
				for _, p := range family(c.pieces, v6) {
					put(w, deny, proto.name, " ", ciscoSource(p), which)
				}
			}
		}
	}
}

func ciscoSource(p piece) string {
	switch {
	case p.Addr().Is6():
		return p.String()
	case p.IsSingleIP():
		return "host " + p.Addr().String()
	}
	m := mask4(p.Prefix)
	for i := range m {
		m[i] = ^m[i]
	}
	return p.Addr().String() + " " + m.String()
}

// writeCiscoPrefixList permits what is blocked, for route maps that match it
// and send it to Null0. A list that does not exist matches everything, so that
// there is always a last line that matches nothing.
func writeCiscoPrefixList(w *bufio.Writer, l *List) {
	comment(w, l, "! ")
	writeCiscoPrefixes(w, "ip prefix-list stoplog", "0.0.0.0/0 le 32", family(l.pieces, false))
	writeCiscoPrefixes(w, "ipv6 prefix-list stoplog", "::/0 le 128", family(l.pieces, true))
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
