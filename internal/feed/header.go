package feed

import (
	"strconv"
	"strings"
)

// matches reports whether an If-None-Match header names etag, by the weak
// comparison of RFC 9110, 8.8.3.2, or any ("*"). A header that is not one of
// those matches nothing from where it goes wrong.
func matches(values []string, etag string) bool {
	want := strings.TrimPrefix(etag, "W/")
	for _, v := range values {
		if strings.Trim(v, " \t") == "*" {
			return true
		}
		for v != "" {
			v = strings.TrimLeft(v, " \t,")
			tag, rest, ok := cutTag(v)
			if !ok {
				break
			}
			if tag == want {
				return true
			}
			v = rest
		}
	}
	return false
}

// cutTag reads one entity tag and the comma after it, without its "W/".
func cutTag(s string) (tag, rest string, ok bool) {
	s = strings.TrimPrefix(s, "W/")
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	end := strings.IndexByte(s[1:], '"')
	if end < 0 {
		return "", "", false
	}
	tag, rest = s[:end+2], strings.TrimLeft(s[end+2:], " \t")
	return tag, rest, rest == "" || rest[0] == ','
}

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
