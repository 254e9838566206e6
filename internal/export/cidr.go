package export

import "bufio"

// cidr is for readers that know no comments: nothing but prefixes, each with
// its length.
func cidrFormat() format {
	return format{Format{Name: "cidr", About: "a prefix with its length a line and nothing else", MIME: textPlain, Cap: everything},
		byCover, func(w *bufio.Writer, l *List) { each(w, l.pieces, "", "\n") }}
}
