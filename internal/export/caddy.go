package export

import "bufio"

// caddy is a snippet of the Caddyfile ("import FILE" at the top, "import
// stoplog" in a site) that answers 429 to the peers that are blocked. Caddy
// compares prefix by prefix, hence the cap. A matcher needs an address, so
// that an empty list is a snippet that does nothing.
func caddyFormat() format {
	return format{Format{Name: "caddy", About: "Caddy: the snippet (stoplog) to import in sites", MIME: textPlain, Cap: linear},
		byCover, func(w *bufio.Writer, l *List) {
			comment(w, l, "# ")
			put(w, "(stoplog) {\n")
			if len(l.pieces) > 0 {
				put(w, "\t@stoplog {\n")
				each(w, l.pieces, "\t\tremote_ip ", "\n")
				put(w, "\t}\n\trespond @stoplog 429\n")
			}
			put(w, "}\n")
		}}
}
