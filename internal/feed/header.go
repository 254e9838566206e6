package feed

import (
	"strconv"
	"strings"
)

// accepts reports whether an Accept-Encoding header takes the coding: named,
// or by "*", and not with a weight of zero (RFC 9110, 12.5.3).
func accepts(values []string, coding string) bool {
	any, named, found := false, false, false
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			name, params, _ := strings.Cut(part, ";")
			switch name = strings.TrimSpace(name); {
			case strings.EqualFold(name, coding):
				named, found = weight(params) > 0, true
			case name == "*":
				any = weight(params) > 0
			}
		}
	}
	if found {
		return named
	}
	return any
}

func weight(params string) float64 {
	k, v, ok := strings.Cut(strings.TrimSpace(params), "=")
	if !ok {
		return 1
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	if err != nil || !strings.EqualFold(strings.TrimSpace(k), "q") {
		return 0 // not understood: better plain
	}
	return q
}
