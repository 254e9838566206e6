package rules

import (
	"fmt"
	"sort"
	"strings"
)

// Problem is one mistake in a rules file, or one warning about it.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`   // 1-based; 0: the file as a whole
	Column int    `json:"column,omitempty"` // 1-based
	Msg    string `json:"message"`
	Hint   string `json:"hint,omitempty"` // what to write instead
	// Warning marks what is allowed but hardly meant.
	Warning bool `json:"warning,omitempty"`
}

// Error gives "file:line:column: message (hint)", the form editors jump to.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Msg)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// sortProblems orders them as a reader meets them.
func sortProblems(ps []Problem) {
	sort.SliceStable(ps, func(i, j int) bool {
		a, b := ps[i], ps[j]
		if a.File != b.File {
			return a.File < b.File
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
}

// nearest returns the word most like got, "" when none is near enough to be
// meant: at most a third of its letters differ.
func nearest(got string, words []string) string {
	best, at := "", 1+max(1, len(got)/3)
	if len(got) > 64 {
		return ""
	}
	for _, w := range words {
		if d := distance(got, w); d < at {
			best, at = w, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func distance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
