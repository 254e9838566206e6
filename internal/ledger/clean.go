package ledger

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxLines = 16
	maxLine  = 1024
)

// clean makes text of strangers fit to be kept and shown: valid UTF-8 without
// control characters, of at most so many bytes.
func clean(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	if plain(s) {
		return s
	}
	bad := func(r rune) bool {
		return r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	}
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case bad(r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// plain reports whether s is printable ASCII, as most lines are.
func plain(s string) bool {
	for i := range len(s) {
		if s[i]-' ' >= 0x7f-' ' {
			return false
		}
	}
	return true
}

// cleanAll cleans lines, at most maxLines of them, the last. It returns the same
// slice when there is nothing to clean.
func cleanAll(lines []string) []string {
	lines = lines[max(len(lines)-maxLines, 0):]
	if !slices.ContainsFunc(lines, func(s string) bool { return len(s) > maxLine || !plain(s) }) {
		return lines
	}
	out := make([]string, len(lines))
	for i, s := range lines {
		out[i] = clean(s, maxLine)
	}
	return out
}
