package notify

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text is a text from a log as a message may hold it: one line, printable,
// bounded.
func text(s string) string {
	if len(s) > 4*maxText { // escaping must not cost more for a longer line
		s = s[:4*maxText]
	}
	return clip(clean(s), maxText)
}

// clean escapes everything that is not printable: control characters and
// broken UTF-8 as \xNN, what turns writing around or is not seen as \uNNNN.
func clean(s string) string {
	if printable(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1 || r < 0x80 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteString(s[i : i+n])
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// clip cuts to n characters, the last of them an ellipsis.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
