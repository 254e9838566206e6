package export

import (
	"bufio"
	"time"
)

// csv is RFC 4180 with a header line. No field needs quotes: rules' names are
// written in letters, digits, "-", "_" and ".".
func csvFormat() format {
	return format{Format{Name: "csv", About: "a table with every block: prefix, until, rule, count", MIME: "text/csv; charset=utf-8; header=present", Cap: everything},
		byEntry, writeCSV}
}

func writeCSV(w *bufio.Writer, l *List) {
	put(w, "prefix,until,rule,count\r\n")
	for _, p := range l.pieces {
		putPrefix(w, p.Prefix)
		put(w, ",")
		if p.end != forever {
			put(w, time.Unix(p.end, 0).UTC().Format(time.RFC3339))
		}
		put(w, ",", l.rule(p), ",")
		putInt(w, int64(l.entries[p.entry].Count))
		put(w, "\r\n")
	}
}
