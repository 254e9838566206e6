package export

import "bufio"

// lastSecond ends what has no end, in HAProxy's maps: the year 9999.
const lastSecond = 253_402_300_799

// haproxy-acl is the file of `acl … src -f` (HAProxy configuration manual,
// 7.1): a prefix a line, comments after "#"; a tree.
func haproxyACLFormat() format {
	return format{Format{Name: "haproxy-acl", About: "HAProxy: a file for acl blocked src -f", MIME: textPlain, Cap: everything},
		byCover, func(w *bufio.Writer, l *List) {
			comment(w, l, "# ")
			each(w, l.pieces, "", "\n")
		}}
}

// haproxy-map is the file of a map_ip_int converter (7.3.1): each prefix with
// the Unix second at which its block ends, so that HAProxy can end blocks by
// itself, whether or not somebody still renews the file.
func haproxyMapFormat() format {
	return format{Format{Name: "haproxy-map", About: "HAProxy: a map of prefixes to the Unix second at which the block ends", MIME: textPlain, Cap: everything},
		byEnd, func(w *bufio.Writer, l *List) {
			comment(w, l, "# ")
			for _, p := range l.pieces {
				putPrefix(w, p.Prefix)
				put(w, " ")
				putInt(w, min(p.end, lastSecond))
				put(w, "\n")
			}
		}}
}
