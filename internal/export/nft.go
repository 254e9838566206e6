package export

import "bufio"

// nftMax is the longest timeout in seconds: nft reads eight digits and no more.
const nftMax = 99_999_999

// nft is a file for `nft -f` (nft(8)): a table of its own, replaced in one
// transaction. It drops before connection marks and filters, but lets replies
// to connections from inside and neighbour discovery pass on.
func nftFormat() format {
	return format{Format{Name: "nft", About: "nft -f: the table inet stoplog_export, with sets and rules", MIME: textPlain, Cap: everything, Counts: true},
		byEnd, writeNft}
}

func writeNft(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	put(w, "table inet stoplog_export\ndelete table inet stoplog_export\ntable inet stoplog_export {\n")
	writeNftSet(w, l, "blocked4", "ipv4_addr", l.family(false))
	writeNftSet(w, l, "blocked6", "ipv6_addr", l.family(true))
	put(w, `	chain prerouting {
		type filter hook prerouting priority mangle - 5; policy accept;
		ct direction reply return
		icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } return
		ip saddr @blocked4 drop
		ip6 saddr @blocked6 drop
	}
}
`)
}

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
