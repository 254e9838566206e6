package firewall_test

import "strings"

// withoutComments drops the lines that say when a dump was made, and the
// counters of chains.
func withoutComments(s string) string {
	var b strings.Builder
	for l := range strings.Lines(s) {
		if strings.HasPrefix(l, "#") {
			continue
		}
		if strings.HasPrefix(l, ":") {
			l, _, _ = strings.Cut(l, " [")
			l += "\n"
		}
		b.WriteString(l)
	}
	return b.String()
}
