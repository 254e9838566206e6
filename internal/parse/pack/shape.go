package pack

import (
	"bytes"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Shape is how a line of a pack's service stands to records that hold line
// breaks of a client's. The zero Shape says nothing.
type Shape struct {
	// Begins: a record may begin here and go on in the following lines.
	Begins bool
	// Open: it is not complete here, and names its client at its end.
	Open bool
	// Time is the stamp that the line begins with, Unix ns; 0: it has none.
	Time int64
	// First is the client of the record that begins here, when the record names
	// it before anything that the client sent.
	First netip.Addr
	// Ends: a record that began before may end here, as one of Last; of somebody
	// unknown when Last is invalid.
	Ends bool
	Last netip.Addr
	// Failing: all the patterns that the line begins or ends like are of failures.
	// Service is one's that is, "" when none is.
	Failing bool
	Service string
}

// edges are what the service itself writes around a client's text in the lines
// of one pattern.
type edges struct {
	none bool           // no client's text, or none that holds line breaks
	head *regexp.Regexp // all before the client's text; nil: too short to tell
	// first: the address stands in the head. Else it stands in the tail, which
	// is all from the client's text to the line's end or to more of such text.
	first *expression
	tail  *expression
	both  bool // more of the client's text follows the tail
}

// tailText bounds what is looked at for a tail.
const tailText = 1 << 10

// Shape returns the shape of a line that those packs read, by their patterns. m is
// only lent: it keeps its Ref and Loc.
func (s *Set) Shape(packs Pick, line []byte, m *Match) (out Shape) {
	if len(packs) == 0 {
		return out
	}
	m.clear()
	v := newView(line, m)
	s.eachEdge(packs, func(e *edges, p *pattern, _ string) {
		if v.match(p, m) {
			e.whole(m.Addr, &out)
			out.Failing = out.Failing || p.outcome == Failure
		}
		m.clear()
	})
	if !out.Begins {
		failures, all := 0, 0
		s.eachEdge(packs, func(e *edges, p *pattern, service string) {
			if e.part(v, m, &out) {
				out.Service = service
				if all++; p.outcome == Failure {
					failures++
				}
			}
		})
		out.Failing = failures == all
		if failures == 0 {
			out.Service = ""
		}
	}
	if !out.Begins && !out.Ends {
		return Shape{}
	}
	out.Time = v.time
	return out
}

// eachEdge calls f for the patterns of packs that a client's text may break.
func (s *Set) eachEdge(packs Pick, f func(*edges, *pattern, string)) {
	for _, i := range packs {
		pk := s.packs[i]
		for j := 0; ; j++ {
			p := pk.pattern(j)
			if p == nil || pk.oneLine != "" {
				break
			}
			if p.text == nil || !p.text.hasIP {
				continue
			}
			if e := p.text.edge(); !e.none {
				f(e, p, pk.name)
			}
		}
	}
}

// whole adds what a line that is a complete record of addr's says.
func (e *edges) whole(addr netip.Addr, out *Shape) {
	out.Begins = true
	if e.first != nil || e.both {
		out.name(addr)
	}
	if e.first == nil {
		out.end(addr)
	}
}

// part adds what a line that is no complete record says, if it begins or ends
// like one, and reports whether it does.
func (e *edges) part(v *view, m *Match, out *Shape) bool {
	text, begun := v.plain, e.head != nil && e.head.Match(v.plain)
	if e.head != nil && v.rest != nil && e.head.Match(v.rest) {
		text, begun = v.rest, true
	}
	out.Begins = out.Begins || begun
	if e.first != nil {
		if begun {
			_, addr := e.ending(text[:min(len(text), maxText)], m, e.first)
			out.name(addr)
		}
		return begun
	}
	out.Open = out.Open || begun
	if begun && e.both {
		if ends, addr := e.ending(text[:min(len(text), maxText)], m, e.tail); ends {
			out.end(addr)
			out.name(addr)
		}
		return true
	}
	ends, addr := e.ending(v.plain[max(0, len(v.plain)-tailText):], m, e.tail)
	if ends {
		out.end(addr)
	}
	return begun || ends
}

// end adds a client whose record may end in the line.
func (s *Shape) end(a netip.Addr) {
	if s.Ends && a != s.Last {
		a = netip.Addr{}
	}
	s.Ends, s.Last = true, a
}

// name adds a client whose address stands before what it sent.
func (s *Shape) name(a netip.Addr) {
	if !a.IsValid() || s.First.IsValid() && a != s.First {
		a = netip.IPv4Unspecified() // one of several
	}
	s.First = a
}

// ending reports whether text holds x, which is an edge with an address, and
// whose it is: nobody's when it may be several's.
func (e *edges) ending(text []byte, m *Match, x *expression) (bool, netip.Addr) {
	ok := x.match(text, m)
	addr := m.Addr
	m.clear()
	if !ok {
		ok = bytes.Contains(text, []byte(x.before)) && x.any(text, m)
	}
	return ok, addr
}

// any reports whether e matches text with one of its addresses, whichever.
func (e *expression) any(text []byte, m *Match) bool {
	var room [maxSpans]span
	spans, ok := addresses(text, room[:0])
	if !ok {
		return true
	}
	for i := range spans {
		if endsWith(text[:spans[i].from], e.before) && e.compiled().Match(m.marked(text, &spans[i])) {
			return true
		}
	}
	return false
}

// edgesIn splits an expression at the client's text. The address's group of re
// holds the mark.
func edgesIn(re *syntax.Regexp) *edges {
	group := captureOf(re, "ip")
	before, after, _ := around(re, group)
	own := clients
	if captureOf(re, "user") != nil {
		own = names // what else stands before the address is the service's
	}
	i, j := slices.IndexFunc(before, own), slices.IndexFunc(after, clients)
	if i < 0 && j < 0 {
		return &edges{none: true}
	}
	e := &edges{}
	if i < 0 {
		j = slices.IndexFunc(after, own)
		if j < 0 {
			j = slices.IndexFunc(after, clients)
		}
		head := sequence(append(append(slices.Clone(before), group), after[:j]...))
		e.head = strong(head, true)
		e.first = &expression{source: anchored(head), hasIP: true, open: true, before: lastLiteral(before)}
		return e
	}
	e.head = strong(sequence(before[:i]), false)
	last := len(before) - 1
	for ; !own(before[last]); last-- {
	}
	tail := after
	if j >= 0 {
		tail, e.both = after[:j], true
	}
	parts := append(append(slices.Clone(before[last+1:]), group), tail...)
	source := `(?:` + sequence(parts).String() + `)`
	if !e.both && endsOpen(re) {
		source += endAnchor
	}
	e.tail = &expression{source: source, hasIP: true, before: lastLiteral(before)}
	return e
}

// sequence joins parts. A literal at their end loses its blanks, which a line
// that ends there does not have.
func sequence(parts []*syntax.Regexp) *syntax.Regexp {
	if n := len(parts); n > 0 && parts[n-1].Op == syntax.OpLiteral {
		last := *parts[n-1]
		last.Rune = []rune(strings.TrimRight(string(last.Rune), " "))
		if parts = slices.Clone(parts[:n-1]); len(last.Rune) > 0 {
			parts = append(parts, &last)
		}
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: parts, Flags: syntax.Perl}
}

func anchored(re *syntax.Regexp) string { return `^(?:` + re.String() + `)` }

// lastLiteral is the fixed text at the end of parts.
func lastLiteral(parts []*syntax.Regexp) string {
	if n := len(parts); n > 0 && parts[n-1].Op == syntax.OpLiteral && parts[n-1].Flags&syntax.FoldCase == 0 {
		return string(parts[n-1].Rune)
	}
	return ""
}

// strong compiles the beginning of a pattern's lines, nil when it has so little
// fixed text that other lines begin like it. An address in it may be any.
func strong(re *syntax.Regexp, addressed bool) *regexp.Regexp {
	if r := required(re.Simplify()); r == nil || worth(r) < strongHead {
		return nil
	}
	source := anchored(re)
	if addressed {
		source = strings.Replace(source, markSource, `\[?[0-9A-Fa-f:.]+\]?(?::\d+)?`, 1)
	}
	return regexp.MustCompile(source)
}

// strongHead is how many bytes of fixed text tell a pattern's beginning.
const strongHead = 6

// names reports whether re holds a name, or any text at all.
func names(re *syntax.Regexp) bool {
	if re.Op == syntax.OpCapture && re.Name == "user" || (re.Op == syntax.OpStar || re.Op == syntax.OpPlus) && re.Sub[0].Op == syntax.OpAnyChar {
		return true
	}
	return slices.ContainsFunc(re.Sub, names)
}

// clients reports whether re may match what a client chose, with line breaks.
func clients(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpCapture:
		if re.Name == "user" {
			return true
		}
	case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		switch s := re.Sub[0]; s.Op {
		case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
			return true
		case syntax.OpCharClass:
			for _, c := range "\n\"'<" {
				if inClass(s, c) {
					return true
				}
			}
		}
	}
	return slices.ContainsFunc(re.Sub, clients)
}
