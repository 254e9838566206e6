package pack

import (
	"fmt"
	"strings"
)

// Problem is a mistake in a pack or pattern, or a Warning about one that
// works. Line and Col are 1-based in the pack's file, 0 when there is none;
// Offset counts bytes in the pattern's expression.
type Problem struct {
	File      string
	Line, Col int
	Offset    int
	Msg       string
	Warning   bool
}

func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		fmt.Fprintf(&b, "%s:", p.File)
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Col)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Msg)
	return b.String()
}

// Broken reports whether any of ps is more than a warning.
func Broken(ps []Problem) bool {
	for _, p := range ps {
		if !p.Warning {
			return true
		}
	}
	return false
}

// nearest returns the word of words that is closest to w, "" when none is
// within a third of its length.
func nearest(w string, words []string) string {
	best, at := "", len(w)/3+2
	for _, c := range words {
		if d := distance(w, c); d < at {
			best, at = c, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, diag+1)
		}
	}
	return row[len(b)]
}

// unknown says that got is not one of words, and which one may be meant.
func unknown(what, got string, words []string) string {
	if n := nearest(got, words); n != "" {
		return fmt.Sprintf("unknown %s %q, did you mean %q?", what, got, n)
	}
	return fmt.Sprintf("unknown %s %q; known are %s", what, got, strings.Join(words, ", "))
}
