package export

import "bufio"

// nginx-deny is for ngx_http_access_module, inside http, server or location.
// nginx compares IPv4 and IPv6 lines one by one, hence the cap.
func nginxDenyFormat() format {
	return format{Format{Name: "nginx-deny", About: "nginx: deny lines to include in http, server or location", MIME: textPlain, Cap: linear},
		byCover, func(w *bufio.Writer, l *List) {
			comment(w, l, "# ")
			each(w, l.pieces, "deny ", ";\n")
		}}
}

// nginx-geo is for ngx_http_geo_module, inside http; a radix tree. $stoplog is
// 1 for the blocked and 0 for all others.
func nginxGeoFormat() format {
	return format{Format{Name: "nginx-geo", About: "nginx: geo $stoplog to include in http; if ($stoplog) { return 429; }", MIME: textPlain, Cap: everything},
		byCover, func(w *bufio.Writer, l *List) {
			comment(w, l, "# ")
			put(w, "geo $stoplog {\n\tdefault 0;\n")
			each(w, l.pieces, "\t", " 1;\n")
			put(w, "}\n")
		}}
}
