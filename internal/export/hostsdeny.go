package export

import "bufio"

// hosts.deny is for hosts_access(5): IPv6 stands in brackets, the length
// outside them. Every line is tried for every connection, hence the cap.
func hostsDenyFormat() format {
	return format{Format{Name: "hosts.deny", About: "tcp wrappers: lines for /etc/hosts.deny", MIME: textPlain, Cap: linear},
		byCover, writeHostsDeny}
}

func writeHostsDeny(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	for _, p := range l.family(false) {
		put(w, "ALL: ")
		putHost(w, p.Prefix)
		put(w, "\n")
	}
	for _, p := range l.family(true) {
		put(w, "ALL: [", p.Addr().String(), "]/")
		putInt(w, int64(p.Bits()))
		put(w, "\n")
	}
}
