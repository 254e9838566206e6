package pack

import (
	"fmt"

	"stoplog/internal/parse/scan"
)

// CompilePattern prepares the pattern of a rule: expr reads the message of a
// line, after its envelope, whatever program wrote it. matches and ignores are
// lines that it must and must not read, whole or from the message on. Events
// carry name as their service and are failures. Offset tells where in expr a
// problem is. The pack is nil when one is more than a warning.
func CompilePattern(name, expr string, matches, ignores []string) (*Pack, []Problem) {
	e, re, err := parseExpression(expr, true)
	if err != nil {
		return nil, []Problem{{Offset: offset(err, expr), Msg: message(err)}}
	}
	var ps []Problem
	if !e.hasIP {
		ps = append(ps, Problem{Msg: "the pattern has no group (?P<ip>…) or <ip>: its events name nobody", Warning: true})
	}
	for _, w := range doubts(e, re) {
		ps = append(ps, Problem{Msg: w, Warning: true})
	}
	p := &Pack{name: name, anyTag: true, patterns: []*pattern{
		{name: name, outcome: Failure, class: 1, text: e, literals: e.literal},
	}}
	e.compiled()
	if !Broken(ps) {
		ps = append(ps, p.try(matches, ignores)...)
	}
	if Broken(ps) {
		return nil, ps
	}
	return p, ps
}

// try runs lines that must and must not match.
func (p *Pack) try(matches, ignores []string) (ps []Problem) {
	s := NewSet(p)
	var m Match
	for i, l := range matches {
		if !s.reads(l, &m) {
			ps = append(ps, Problem{Msg: fmt.Sprintf("line %d of matches does not match: %q", i+1, l)})
		}
	}
	for i, l := range ignores {
		if s.reads(l, &m) {
			ps = append(ps, Problem{Msg: fmt.Sprintf("line %d of ignores matches, address %s: %q", i+1, m.Addr, l)})
		}
	}
	return ps
}

// reads reads a line as it is, or from behind its syslog header.
func (s *Set) reads(line string, m *Match) bool {
	if s.MatchBare([]byte(line), m) {
		return true
	}
	msg := afterHeader([]byte(line))
	return msg != nil && s.MatchBare(msg, m)
}

// afterHeader returns what follows "stamp host tag[pid]: ", nil when line does
// not begin so.
func afterHeader(line []byte) []byte {
	_, rest, ok := scan.Stamp(line, 0, (&Match{}).loc())
	for range 3 {
		if !ok || len(rest) == 0 {
			return nil
		}
		var word []byte
		word, rest = scan.Word(scan.TrimLeft(rest))
		if n := len(word); n > 0 && word[n-1] == ':' {
			return scan.TrimLeft(rest)
		}
	}
	return nil
}

// Check runs the pack's samples: each of samples must give what it says, none
// of ignores may be read, and each of hostile must give its address or, with
// none, no address.
func (p *Pack) Check() (ps []Problem) {
	s := NewSet(p)
	for _, l := range p.samples {
		if msg := s.checkSample(&l, false); msg != "" {
			ps = append(ps, Problem{File: p.name, Msg: msg})
		}
	}
	for _, l := range p.hostile {
		if msg := s.checkSample(&l, true); msg != "" {
			ps = append(ps, Problem{File: p.name, Msg: msg})
		}
	}
	var m Match
	for _, l := range p.ignores {
		if s.MatchBare([]byte(l), &m) {
			ps = append(ps, Problem{File: p.name, Msg: fmt.Sprintf("an ignored line is read, address %s: %s", m.Addr, l)})
		}
	}
	return ps
}

// checkSample says what is wrong in how a line is read, "" when nothing.
func (s *Set) checkSample(l *sample, mayMiss bool) string {
	var m Match
	if !s.readSample(l, &m) {
		if mayMiss && l.IP == "" {
			return ""
		}
		return fmt.Sprintf("a sample is not read: %s", l.Line)
	}
	got := sample{Line: l.Line, User: string(m.User), Tag: l.Tag, Outcome: name(outcomes, m.Outcome), Kind: name(kinds, m.Kind)}
	if m.Addr.IsValid() {
		got.IP = m.Addr.String()
	}
	want := *l
	if want.Outcome == "" {
		want.Outcome = "failure"
	}
	if mayMiss {
		got.User, got.Outcome, got.Kind = want.User, want.Outcome, want.Kind
	}
	if got != want {
		return fmt.Sprintf("got %+v, want %+v", got, want)
	}
	return ""
}

// readSample reads a sample by its tag, or as a line of a file.
func (s *Set) readSample(l *sample, m *Match) bool {
	if l.Tag != "" {
		return s.MatchTagged([]byte(l.Tag), []byte(l.Line), m)
	}
	return s.MatchBare([]byte(l.Line), m)
}

func name(words map[string]uint8, v uint8) string {
	for w, n := range words {
		if n == v {
			return w
		}
	}
	return ""
}
