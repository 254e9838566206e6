package pack

import (
	"net/netip"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"stoplog/internal/parse/scan"
)

const (
	// maxText bounds what an expression is run over: longer texts match nothing.
	maxText = 4 << 10
	// mark stands in for the address while an expression runs.
	mark = 0
	// markSource is the mark as an expression writes it.
	markSource = `(?P<ip>\x00)`
	// endAnchor closes what an author left open.
	endAnchor = `\s*$`
)

// pattern is one way in which a service reports a client: an expression over
// the message, or tests of the fields of a JSON or logfmt line.
type pattern struct {
	name                 string
	outcome, kind, class uint8
	text                 *expression // of the message; nil for fields
	unless               *expression // a message that it matches is not read
	fields               []fieldTest
	from                 fieldPaths
	informs              bool     // its pack's events count toward no block
	literals             []string // one of them occurs in every line that matches; nil: unknown
}

// expression is a regular expression whose group "ip", if it has one, matches
// the mark instead of what its author wrote: which text is an address is
// package scan's to say.
type expression struct {
	source  string // with the mark
	hasIP   bool
	open    bool   // what follows the match is not looked at
	indent  bool   // it says itself that its text may begin with a blank
	before  string // fixed text right before the address
	literal []string

	once   sync.Once
	re     *regexp.Regexp
	groups []string

	edge func() *edges // computed once
}

// compiled returns the expression ready to run; compiling is put off to the
// first line that it may match.
func (e *expression) compiled() *regexp.Regexp {
	e.once.Do(func() {
		e.re = regexp.MustCompile(e.source) // parsed once before: cannot fail
		e.groups = e.re.SubexpNames()
	})
	return e.re
}

// shorthands that a pattern may use for what is easily got wrong.
var shorthands = map[string]string{
	"ip":   `(?P<ip>\[?[0-9A-Fa-f:.]+\]?)`,
	"user": `(?P<user>.*)`,
}

// expand replaces <ip> and <user>, but not where they name a group, (?P<ip>…).
func expand(expr string) string {
	for name, full := range shorthands {
		short := "<" + name + ">"
		for from := 0; ; {
			i := strings.Index(expr[from:], short)
			if i < 0 {
				break
			}
			i += from
			from = i + len(short)
			if i > 0 && (expr[i-1] == 'P' || expr[i-1] == '?') && strings.HasSuffix(strings.TrimSuffix(expr[:i], "P"), "(?") {
				continue
			}
			expr = expr[:i] + full + expr[from:]
			from = i + len(full)
		}
	}
	return expr
}

// parseExpression reads expr and prepares its marked form. An expression that
// does not say where it ends must reach the text's end, unless open.
func parseExpression(expr string, open bool) (*expression, *syntax.Regexp, error) {
	re, err := syntax.Parse(expand(expr), syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil, nil, err
	}
	e := &expression{literal: required(re.Simplify()), indent: writesBlank(re)}
	e.edge = sync.OnceValue(func() *edges { return edgesIn(re) })
	if i := captureOf(re, "ip"); i != nil {
		e.hasIP = true
		e.before = literalBefore(re, i)
		i.Sub[0] = &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{mark}, Rune0: i.Sub[0].Rune0}
	}
	e.source = `(?:` + re.String() + `)`
	if !endsOpen(re) {
		return e, re, nil
	}
	if open {
		e.open = true
		return e, re, nil
	}
	e.source += endAnchor
	return e, re, nil
}

// captureOf finds the group of that name.
func captureOf(re *syntax.Regexp, name string) *syntax.Regexp {
	if re.Op == syntax.OpCapture && re.Name == name {
		return re
	}
	for _, s := range re.Sub {
		if c := captureOf(s, name); c != nil {
			return c
		}
	}
	return nil
}

// literalBefore returns the fixed text right before group in the sequence
// that holds it, "" when there is none.
func literalBefore(re, group *syntax.Regexp) string {
	if re.Op == syntax.OpConcat {
		for i, s := range re.Sub {
			if s != group || i == 0 {
				continue
			}
			if p := re.Sub[i-1]; p.Op == syntax.OpLiteral && p.Flags&syntax.FoldCase == 0 {
				return string(p.Rune)
			}
		}
		return ""
	}
	if re.Op == syntax.OpCapture {
		return literalBefore(re.Sub[0], group)
	}
	return ""
}

// writesBlank reports whether re begins with a blank that its author wrote, and
// not only with something that a blank matches.
func writesBlank(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return re.Rune[0] == ' ' || re.Rune[0] == '\t'
	case syntax.OpConcat:
		i := 0
		for i < len(re.Sub)-1 && (re.Sub[i].Op == syntax.OpBeginText || re.Sub[i].Op == syntax.OpBeginLine) {
			i++
		}
		return writesBlank(re.Sub[i]) || re.Sub[i].Op == syntax.OpQuest && i+1 < len(re.Sub) && writesBlank(re.Sub[i+1])
	case syntax.OpQuest, syntax.OpCapture:
		return writesBlank(re.Sub[0])
	}
	return false
}

// endsOpen reports whether re does not say itself where it ends.
func endsOpen(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpEndText, syntax.OpEndLine:
		return false
	case syntax.OpConcat:
		return endsOpen(re.Sub[len(re.Sub)-1])
	case syntax.OpCapture:
		return endsOpen(re.Sub[0])
	}
	return true
}

// match runs e over text and fills m from its groups.
func (e *expression) match(text []byte, m *Match) bool {
	if len(text) > maxText {
		return false
	}
	if !e.hasIP {
		at := e.compiled().FindSubmatchIndex(text)
		if at == nil {
			return false
		}
		e.fill(text, at, m, nil)
		return true
	}
	return e.matchAddr(text, m)
}

// matchAddr asks for each address of text whether it may be the one. Two
// different ones that may are one too many.
func (e *expression) matchAddr(text []byte, m *Match) bool {
	var room [maxSpans]span
	spans, ok := addresses(text, room[:0])
	if !ok {
		return false
	}
	if e.open && e.twice(text, spans) {
		return false
	}
	var found *span
	var at []int
	for i := range spans {
		s := &spans[i]
		if found != nil && s.addr == found.addr || !endsWith(text[:s.from], e.before) {
			continue
		}
		hit := e.compiled().FindSubmatchIndex(m.marked(text, s))
		if hit == nil || !e.caught(hit, s.from) {
			continue
		}
		if found != nil {
			return false
		}
		found, at = s, hit
	}
	if found == nil {
		return false
	}
	e.fill(text, at, m, found)
	m.Addr = found.addr
	return true
}

// caught reports whether the group "ip" is what matched the mark at i, and no
// other group of that name matched anything else.
func (e *expression) caught(at []int, i int) bool {
	n := 0
	for g, name := range e.groups {
		if name != "ip" || at[2*g] < 0 {
			continue
		}
		if at[2*g] != i || at[2*g+1] != i+1 {
			return false
		}
		n++
	}
	return n > 0
}

// twice reports whether two different addresses stand behind the text that
// stands before the expression's. Of an expression with an open end either may
// be the one, whichever it matches: the other may be what a client wrote.
func (e *expression) twice(text []byte, spans []span) bool {
	var first netip.Addr
	for i := range spans {
		s := &spans[i]
		if !endsWith(text[:s.from], e.before) {
			continue
		}
		if first.IsValid() && s.addr != first {
			return true
		}
		first = s.addr
	}
	return false
}

func endsWith(b []byte, s string) bool {
	return len(b) >= len(s) && string(b[len(b)-len(s):]) == s
}

// marked returns text with the mark in s's place, until it is called again.
func (m *Match) marked(text []byte, s *span) []byte {
	m.scratch = append(append(append(m.scratch[:0], text[:s.from]...), mark), text[s.to:]...)
	return m.scratch
}

// fill sets what the groups caught, at these places of text with the mark in
// s's place; nil: of text itself. The values alias text.
func (e *expression) fill(text []byte, at []int, m *Match, s *span) {
	for i, name := range e.groups {
		if name == "" || name == "ip" || at[2*i] < 0 {
			continue
		}
		m.set(name, text[s.unmarked(at[2*i]):s.unmarked(at[2*i+1])])
	}
}

// unmarked is where the place i of a marked text is in the text itself.
func (s *span) unmarked(i int) int {
	if s == nil || i <= s.from {
		return i
	}
	return i - 1 + s.to - s.from
}

// set stores one named value.
func (m *Match) set(name string, v []byte) {
	switch name {
	case "user":
		m.User = v
	case "conn":
		m.Conn = v
	case "time":
		if ns, _, ok := scan.Stamp(v, m.Ref, m.loc()); ok {
			m.Time, m.Named = ns, true
		}
	default:
		m.Fields = append(m.Fields, Field{name, v})
	}
}
