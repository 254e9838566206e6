package export

import "bufio"

// mikrotikMax is the greatest timeout of RouterOS: 35w3d13h13m56s.
const mikrotikMax = 21_474_836

// mikrotik is a script for RouterOS's /import (manual, "Address-lists"):
// entries with a timeout are dynamic and end by themselves. Adding an entry
// twice is an error that ends an import, so that the old ones go first.
func mikrotikFormat() format {
	return format{Format{Name: "mikrotik", About: "RouterOS: a script for /import, address-list stoplog", MIME: textPlain, Cap: linear * 5, Counts: true},
		byEnd, writeMikrotik}
}

func writeMikrotik(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	writeMikrotikFamily(w, l, "/ip firewall address-list\n", l.family(false))
	writeMikrotikFamily(w, l, "/ipv6 firewall address-list\n", l.family(true))
}

func writeMikrotikFamily(w *bufio.Writer, l *List, menu string, ps []piece) {
	put(w, menu, "remove [find where list=stoplog]\n")
	for _, p := range ps {
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
