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
	// endAnchor closes what an author left open.
	endAnchor = `\s*$`
)

// pattern is one way in which a service tells of a client: an expression over
// the message, or tests of the fields of a JSON or logfmt line.
type pattern struct {
	name                 string
	outcome, kind, class uint8
	text                 *expression // of the message; nil for fields
	unless               *expression // a message that it matches is not read
	fields               []fieldTest
	from                 fieldPaths
	literals             []string // one of them occurs in every line that matches; nil: unknown
}

// expression is a regular expression whose group "ip", if it has one, matches
// the mark instead of what its author wrote: which text is an address is
// package scan's to say.
type expression struct {
	source  string // with the mark
	hasIP   bool
	before  string // fixed text right before the address
	literal []string

	once   sync.Once
	re     *regexp.Regexp
	groups []string
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

// parseExpression reads expr and prepares its marked form.
func parseExpression(expr string) (*expression, *syntax.Regexp, error) {
	re, err := syntax.Parse(expand(expr), syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil, nil, err
	}
	e := &expression{literal: required(re.Simplify())}
	if i := captureOf(re, "ip"); i != nil {
		e.hasIP = true
		e.before = literalBefore(re, i)
		i.Sub[0] = &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{mark}, Rune0: i.Sub[0].Rune0}
	}
	e.source = `(?:` + re.String() + `)`
	if !endsOpen(re) {
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
		e.fill(text, at, m)
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
	var found netip.Addr
	var at []int
	var marked []byte
	for _, s := range spans {
		if at != nil && s.addr == found || !endsWith(text[:s.from], e.before) {
			continue
		}
		t := m.marked(text, s)
		hit := e.compiled().FindSubmatchIndex(t)
		if hit == nil {
			continue
		}
		if at != nil {
			return false
		}
		found, at, marked = s.addr, hit, t
	}
	if at == nil {
		return false
	}
	e.fill(marked, at, m)
	m.Addr = found
	return true
}

func endsWith(b []byte, s string) bool {
	return len(b) >= len(s) && string(b[len(b)-len(s):]) == s
}

// marked returns text with the mark in s's place. It lives in m's memory.
func (m *Match) marked(text []byte, s span) []byte {
	n := len(m.buf)
	m.buf = append(append(append(m.buf, text[:s.from]...), mark), text[s.to:]...)
	return m.buf[n:len(m.buf):len(m.buf)]
}

// fill sets what the groups caught.
func (e *expression) fill(text []byte, at []int, m *Match) {
	for i, name := range e.groups {
		if name == "" || name == "ip" || at[2*i] < 0 {
			continue
		}
		m.set(name, text[at[2*i]:at[2*i+1]])
	}
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
			m.Time = ns
		}
	default:
		m.Fields = append(m.Fields, Field{name, v})
	}
}
