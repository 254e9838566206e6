package export

import "bufio"

// pf is the file of a pf table (pf.conf(5), "table <stoplog> persist file";
// pfctl(8) -T replace -f): addresses and prefixes apart by white space,
// comments after "#".
func pfFormat() format {
	return format{Format{Name: "pf", About: "pf: the file of a table, for pfctl -t stoplog -T replace -f", MIME: textPlain, Cap: everything},
		byCover, func(w *bufio.Writer, l *List) {
			comment(w, l, "# ", "in pf.conf: table <stoplog> persist file \"/etc/pf.stoplog\"; block in quick from <stoplog>")
			for _, p := range l.pieces {
				putHost(w, p.Prefix)
				put(w, "\n")
			}
		}}
}
