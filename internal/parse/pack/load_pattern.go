package pack

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

var patternKeys = []string{"pattern", "fields", "ip", "user", "time", "conn", "outcome", "kind", "class", "name", "unless"}

// pattern reads one item of patterns. It is never nil, so that what is said of
// others keeps its number.
func (l *loader) pattern(n *yaml.Node) *pattern {
	p := &pattern{outcome: Failure, class: 1}
	var at *yaml.Node
	l.each(n, patternKeys, func(key string, v *yaml.Node) {
		switch key {
		case "pattern":
			at, p.text = v, l.expression(v, l.str(v))
		case "fields":
			at = v
			l.fields(p, v)
		default:
			l.patternKey(p, key, v)
		}
	})
	l.complete(p, n, at)
	return p
}

func (l *loader) patternKey(p *pattern, key string, v *yaml.Node) {
	switch key {
	case "name":
		p.name = l.str(v)
	case "unless":
		p.unless = l.expression(v, l.str(v)+".*")
	case "outcome":
		p.outcome = l.choice(v, "outcome", outcomes)
	case "kind":
		p.kind = l.choice(v, "kind", kinds)
	case "class":
		c := l.str(v)
		if len(c) != 1 || c[0] < '0' || c[0] > '9' {
			l.addf(v, "class is 0 to 9, not %q", c)
			return
		}
		p.class = c[0] - '0'
	case "ip":
		p.from.ip = l.strs(v)
	case "user":
		p.from.user = l.strs(v)
	case "time":
		p.from.time = l.strs(v)
	case "conn":
		p.from.conn = l.strs(v)
	}
}

// fields reads the tests of a fields: mapping. A value between slashes is an
// expression.
func (l *loader) fields(p *pattern, n *yaml.Node) {
	l.each(n, nil, func(key string, v *yaml.Node) {
		t := fieldTest{path: key, equal: l.str(v)}
		if s := t.equal; len(s) > 1 && s[0] == '/' && s[len(s)-1] == '/' {
			t.expr = l.expression(v, s[1:len(s)-1])
			t.broken = t.expr == nil
		}
		p.fields = append(p.fields, t)
	})
}

// complete checks what the keys of one pattern make together.
func (l *loader) complete(p *pattern, n, at *yaml.Node) {
	switch {
	case at == nil:
		l.add(n, "neither pattern: nor fields: says what to look for")
		return
	case p.text != nil && p.fields != nil:
		l.add(n, "pattern: and fields: exclude each other")
		return
	case p.text != nil && p.from.any():
		l.add(n, "ip:, user:, time: and conn: name fields; in a pattern: write groups, (?P<ip>…)")
		return
	}
	switch {
	case p.text != nil:
		p.literals = p.text.literal
	case p.fields == nil || slices.ContainsFunc(p.fields, func(f fieldTest) bool { return f.broken }):
		return // said already
	default:
		p.literals = fieldLiterals(p.fields)
	}
	if p.informs = l.informs; p.informs {
		if p.hasAddr() || p.outcome == Success {
			l.add(at, "the events of a pack that informs have no address and are no success")
		}
		return
	}
	if !p.hasAddr() && !p.hasConn() {
		l.add(at, "no address: the pattern needs a group (?P<ip>…) or <ip>, or conn when another line tells it")
	}
}

func (f *fieldPaths) any() bool {
	return f.ip != nil || f.user != nil || f.time != nil || f.conn != nil
}

func (p *pattern) expressions() []*expression {
	es := []*expression{}
	if p.text != nil {
		es = append(es, p.text)
	}
	for _, f := range p.fields {
		if f.expr != nil {
			es = append(es, f.expr)
		}
	}
	return es
}

func (p *pattern) hasAddr() bool {
	return p.from.ip != nil || slices.ContainsFunc(p.expressions(), func(e *expression) bool { return e.hasIP })
}

func (p *pattern) hasConn() bool {
	return p.from.conn != nil || slices.ContainsFunc(p.expressions(), func(e *expression) bool {
		return strings.Contains(e.source, "(?P<conn>")
	})
}

// expression reads one regular expression and says what is doubtful in it.
func (l *loader) expression(n *yaml.Node, expr string) *expression {
	e, re, err := parseExpression(expr, false)
	if err != nil {
		l.problems = append(l.problems, Problem{File: l.file, Line: n.Line, Col: n.Column,
			Offset: offset(err, expr), Msg: message(err)})
		return nil
	}
	for _, w := range doubts(e, re) {
		l.problems = append(l.problems, Problem{File: l.file, Line: n.Line, Col: n.Column, Msg: w, Warning: true})
	}
	return e
}

// offset is where in expr the text stands that err complains about, 0 when
// that cannot be told.
func offset(err error, expr string) int {
	if e, ok := err.(*syntax.Error); ok {
		return max(strings.Index(expr, e.Expr), 0)
	}
	return 0
}

func message(err error) string {
	if e, ok := err.(*syntax.Error); ok {
		return fmt.Sprintf("the pattern is not RE2: %s: %s", e.Code, e.Expr)
	}
	return "the pattern is not RE2: " + err.Error()
}

// doubts says where a stranger's text could give a line two readings. Such a
// line matches nothing, so a stranger could keep himself from being counted.
func doubts(e *expression, re *syntax.Regexp) []string {
	group := captureOf(re, "ip")
	if group == nil {
		return nil
	}
	before, after, _ := around(re, group)
	open := slices.ContainsFunc(before, free) || !startsFixed(re)
	if open && slices.ContainsFunc(after, free) {
		return []string{"free text stands before the address and behind it: a line in which somebody wrote another address is not read; say more exactly what follows the address"}
	}
	return nil
}

// around splits the sequence that holds group at it.
func around(re, group *syntax.Regexp) (before, after []*syntax.Regexp, found bool) {
	if re == group {
		return nil, nil, true
	}
	for i, s := range re.Sub {
		b, a, ok := around(s, group)
		if !ok {
			continue
		}
		if re.Op == syntax.OpConcat {
			b = append(append([]*syntax.Regexp{}, re.Sub[:i]...), b...)
			a = append(a, re.Sub[i+1:]...)
		}
		return b, a, true
	}
	return nil, nil, false
}

// free reports whether re matches any text with blanks, however long.
func free(re *syntax.Regexp) bool {
	if re.Op == syntax.OpStar || re.Op == syntax.OpPlus {
		s := re.Sub[0]
		return s.Op == syntax.OpAnyChar || s.Op == syntax.OpAnyCharNotNL || s.Op == syntax.OpCharClass && inClass(s, ' ')
	}
	return slices.ContainsFunc(re.Sub, free)
}

func inClass(re *syntax.Regexp, r rune) bool {
	for i := 0; i+1 < len(re.Rune); i += 2 {
		if re.Rune[i] <= r && r <= re.Rune[i+1] {
			return len(re.Rune) > 2 || re.Rune[i] != re.Rune[i+1]
		}
	}
	return false
}

func startsFixed(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginText, syntax.OpBeginLine:
		return true
	case syntax.OpConcat, syntax.OpCapture:
		return startsFixed(re.Sub[0])
	}
	return false
}

// fieldLiterals returns the best fixed text of a line with such fields: one
// that stands in JSON and logfmt as it is, unescaped.
func fieldLiterals(tests []fieldTest) []string {
	var best []string
	for _, t := range tests {
		lits := []string{t.equal}
		if t.expr != nil {
			lits = t.expr.literal
		}
		if lits = unescaped(lits); better(lits, best) {
			best = lits
		}
	}
	if best != nil && worth(best) >= 6 {
		return best
	}
	for _, t := range tests {
		if r := unescaped([]string{t.path[strings.LastIndexByte(t.path, '.')+1:]}); better(r, best) {
			best = r
		}
	}
	return best
}

// unescaped cuts each text to its longest part that no writer escapes.
func unescaped(lits []string) []string {
	var out []string
	for _, l := range lits {
		best := ""
		for _, part := range strings.FieldsFunc(l, escapable) {
			if len(part) > len(best) {
				best = part
			}
		}
		if len(best) < minLiteral {
			return nil
		}
		out = append(out, best)
	}
	return out
}

func escapable(r rune) bool {
	return r < ' ' || r > '~' || strings.ContainsRune(`"\/<>&'=+`, r)
}
