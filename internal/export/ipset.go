package export

import "bufio"

// ipsetMax is the greatest timeout of ipset, in seconds.
const ipsetMax = 2_147_483

// ipset is for `ipset restore`: the new list is made beside the old one and
// swapped with it, so that there is no moment without. A timeout of 0 is none.
func ipsetFormat() format {
	return format{Format{Name: "ipset", About: "ipset restore: the sets stoplog-export4 and stoplog-export6 (hash:net)", MIME: textPlain, Cap: everything, Counts: true},
		byEnd, writeIpset}
}

func writeIpset(w *bufio.Writer, l *List) {
	comment(w, l, "# ", "load with: ipset restore -exist")
	writeIpsetFamily(w, l, "stoplog-export4", " hash:net family inet maxelem 1048576 timeout 0\n", l.family(false))
	writeIpsetFamily(w, l, "stoplog-export6", " hash:net family inet6 maxelem 1048576 timeout 0\n", l.family(true))
}

func writeIpsetFamily(w *bufio.Writer, l *List, set, spec string, ps []piece) {
	next := set + "-new"
	put(w, "create ", set, spec, "create ", next, spec, "flush ", next, "\n")
	for _, p := range ps {
		put(w, "add ", next, " ")
		putPrefix(w, p.Prefix)
		put(w, " timeout ")
		if p.end == forever {
			put(w, "0\n")
			continue
		}
		putInt(w, l.seconds(p, ipsetMax))
		put(w, "\n")
	}
	put(w, "swap ", next, " ", set, "\ndestroy ", next, "\n")
}
