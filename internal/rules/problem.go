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
