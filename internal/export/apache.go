package export

import "bufio"

// apache is for mod_authz_host. The lines are to be included in a
// <RequireAll> of the administrator's: outside of one Apache refuses them, and
// a <RequireAll> of our own beside other Require lines would let people in.
// Apache compares line by line, hence the cap.
func apacheFormat() format {
	return format{Format{Name: "apache", About: "Apache httpd: Require not ip lines to include in <RequireAll>", MIME: textPlain, Cap: linear},
		byCover, func(w *bufio.Writer, l *List) {
			comment(w, l, "# ", "include inside <RequireAll>, beside Require all granted or what else is required")
			each(w, l.pieces, "Require not ip ", "\n")
		}}
}
