package export

import "bufio"

// plain is the list that most firewalls fetch by URL (pfSense and OPNsense
// aliases, FortiGate threat feeds, Palo Alto external dynamic lists): a
// prefix or address a line, comments after "#".
func plainFormat() format {
	return format{Format{Name: "plain", About: "an address or prefix a line, # comments: pfSense, OPNsense, FortiGate, Palo Alto", MIME: textPlain, Cap: everything},
		byCover, writePlain}
}

func writePlain(w *bufio.Writer, l *List) {
	comment(w, l, "# ")
	for _, p := range l.pieces {
		putHost(w, p.Prefix)
		put(w, "\n")
	}
}
