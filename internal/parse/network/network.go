package network

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// kernel reads the lines of netfilter's LOG target (nf_log_syslog.c); also in
// ufw's and firewalld's wording. A packet that was logged is no failure by itself, and its source can be forged.
func kernel(env *event.Message, msg []byte, ev *event.Event) bool {
	m := msg
	if rest, ok := scan.After(m, "["); ok {
		if up, rest, ok := scan.Cut(rest, "] "); ok && len(bytes.Trim(up, " 0123456789.")) == 0 {
			m = rest
		}
	}
	_, rest, ok := scan.Cut(m, "IN=")
	_, rest, ok2 := scan.Cut(rest, " SRC=")
	if !ok || !ok2 {
		return false
	}
	src, rest := scan.Word(rest)
	a, ok := scan.Addr(src)
	_, ok2 = scan.After(rest, "DST=")
	return ok && ok2 && ev.Set("netfilter", event.Other, event.Plain, a)
}
