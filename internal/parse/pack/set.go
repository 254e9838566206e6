package pack

import (
	"slices"
	"strings"
)

// Set is packs that are looked at together. It is immutable and safe for
// concurrent use.
type Set struct {
	packs     []*Pack
	refs      []ref
	find      *finder
	owner     []int16 // of each literal: its ref
	always    []int16 // refs without a literal, tried on every line
	byProgram map[string][]int16
	anyTag    []int16 // packs for every tag
}

// ref is one pattern of one pack.
type ref struct{ pack, pattern int16 }

// entry is what a set needs to know of a pack before the pack is read.
type entry struct {
	pack     *Pack
	literals [][]string // of each pattern
}

// NewSet puts packs together. Patterns of earlier packs win over later ones
// that read the same address.
func NewSet(packs ...*Pack) *Set {
	es := make([]entry, len(packs))
	for i, p := range packs {
		es[i].pack = p
		for _, pt := range p.patterns {
			es[i].literals = append(es[i].literals, pt.literals)
		}
	}
	return newSet(es)
}

func newSet(es []entry) *Set {
	s := &Set{byProgram: map[string][]int16{}}
	var lits []string
	for i, e := range es {
		s.packs = append(s.packs, e.pack)
		s.addTags(int16(i), e.pack)
		for j, ls := range e.literals {
			r := int16(len(s.refs))
			s.refs = append(s.refs, ref{int16(i), int16(j)})
			if len(ls) == 0 {
				s.always = append(s.always, r)
			}
			for _, l := range ls {
				lits, s.owner = append(lits, l), append(s.owner, r)
			}
		}
	}
	if len(lits) > 0 {
		s.find = newFinder(lits)
	}
	return s
}

func (s *Set) addTags(i int16, p *Pack) {
	if p.anyTag {
		s.anyTag = append(s.anyTag, i)
	}
	tags := p.programs
	if !p.nameless {
		tags = append([]string{p.name}, tags...)
	}
	for _, t := range tags {
		for _, key := range [...]string{t, strings.ToLower(t)} {
			if t != "*" && !slices.Contains(s.byProgram[key], i) {
				s.byProgram[key] = append(s.byProgram[key], i)
			}
		}
	}
}

// Pack returns the pack of that service or program, nil when there is none.
func (s *Set) Pack(service string) *Pack {
	for _, p := range s.packs {
		if p.name == service {
			return p
		}
	}
	if is := s.byProgram[service]; len(is) > 0 {
		return s.packs[is[0]]
	}
	return nil
}

// Services are the names of the packs in order.
func (s *Set) Services() []string {
	names := make([]string, len(s.packs))
	for i, p := range s.packs {
		names[i] = p.name
	}
	return names
}

// Runtime reports whether tag says in what a program is written, not which it
// is: the journal names a service's own output after its process.
func Runtime(tag []byte) bool { return runtimes[string(tag)] }

var runtimes = map[string]bool{
	"node": true, "npm": true, "java": true, "python": true, "python3": true, "gunicorn": true, "uwsgi": true,
	"dotnet": true, "mono": true, "ruby": true, "puma": true, "php": true, "php-fpm": true, "perl": true,
	"docker": true, "dockerd": true, "podman": true, "conmon": true, "containerd": true, "beam.smp": true,
	"sh": true, "bash": true, "run.sh": true, "start.sh": true,
}

// wanted picks the packs that may read a line; bare is every one that is not
// for syslog alone.
type wanted struct {
	bare bool
	a, b []int16
}

func (s *Set) wants(w *wanted, i int16) bool {
	return w.bare && !s.packs[i].tagOnly || slices.Contains(w.a, i) || slices.Contains(w.b, i)
}

// MatchTagged reads a message that a program sent to syslog or the journal
// under tag. Only packs that know the tag are asked: by their name or one of
// their programs, whole or as a word of it ("docker-gitea-1").
func (s *Set) MatchTagged(tag, msg []byte, m *Match) bool {
	w := wanted{a: s.forTag(tag), b: s.anyTag}
	if w.a == nil && w.b == nil {
		return false
	}
	return s.match(msg, m, &w)
}

// Knows reports whether MatchTagged has packs that know tag itself.
func (s *Set) Knows(tag []byte) bool { return s.forTag(tag) != nil }

// forTag returns the packs that know tag or a word of it.
func (s *Set) forTag(tag []byte) []int16 {
	if p := s.byProgram[string(tag)]; p != nil {
		return p
	}
	for start := 0; start < len(tag); {
		end := start
		for end < len(tag) && alnum(tag[end]) {
			end++
		}
		if p := s.byProgram[string(tag[start:end])]; p != nil {
			return p
		}
		start = end + 1
	}
	return nil
}

// MatchBare tries every pack on a line: for tools that show what a line could be,
// never where a client could have begun it.
func (s *Set) MatchBare(line []byte, m *Match) bool {
	return s.match(line, m, &wanted{bare: true})
}

// Pick is some packs of a Set; nil is none.
type Pick []int16

// Named picks the packs of a service or program of that whole name, in any case
// of letters.
func (s *Set) Named(service string) Pick {
	if is := s.byProgram[service]; is != nil {
		return is
	}
	return s.byProgram[strings.ToLower(service)]
}

// NamedBy reports whether tag names one of those packs.
func (s *Set) NamedBy(tag []byte, packs Pick) bool {
	return slices.ContainsFunc(s.forTag(tag), func(i int16) bool { return slices.Contains(packs, i) })
}

// Holds reports whether one of those packs is the service's.
func (s *Set) Holds(packs Pick, service string) bool {
	return slices.ContainsFunc(packs, func(i int16) bool { return s.packs[i].name == service })
}

// MatchIn reads a line, tagged or bare, by those packs only.
func (s *Set) MatchIn(packs Pick, line []byte, m *Match) bool {
	return s.match(line, m, &wanted{a: packs})
}

// Each calls f for every pattern that reads msg, in the set's order: those that
// know its tag, those for any tag, and all of a line that has none. The Match
// that f gets is overwritten by the next. Ref and Loc are taken from m, which
// also lends its memory.
func (s *Set) Each(tag, msg []byte, m *Match, f func(*Match)) {
	s.each(msg, m, wanted{a: s.forTag(tag), b: s.anyTag, bare: len(tag) == 0}, f)
}

// EachOf is Each without the patterns for any tag.
func (s *Set) EachOf(tag, msg []byte, m *Match, f func(*Match)) {
	s.each(msg, m, wanted{a: s.forTag(tag)}, f)
}

func (s *Set) each(msg []byte, m *Match, w wanted, f func(*Match)) {
	c := s.candidates(msg, &w)
	if c == (bitmap{}) {
		return
	}
	m.clear()
	v := newView(msg, m)
	for r := range s.refs {
		if c.has(r) && s.try(r, v, m) {
			f(m)
		}
	}
}

// bitmap marks up to 1024 patterns.
type bitmap [16]uint64

const maxPatterns = len(bitmap{}) * 64

func (b *bitmap) set(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b *bitmap) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

// candidates are the patterns of the wanted packs whose fixed text occurs.
func (s *Set) candidates(line []byte, w *wanted) (c bitmap) {
	for _, r := range s.always {
		if s.wants(w, s.refs[r].pack) {
			c.set(int(r))
		}
	}
	if s.find == nil {
		return c
	}
	it := s.find.search(line)
	for lit := it.next(); lit >= 0; lit = it.next() {
		if r := s.owner[lit]; s.wants(w, s.refs[r].pack) {
			c.set(int(r))
		}
	}
	return c
}

// match reads line by the candidates of the wanted packs. Two that read
// different addresses are no reading.
func (s *Set) match(line []byte, m *Match, w *wanted) bool {
	c := s.candidates(line, w)
	if c == (bitmap{}) {
		return false
	}
	m.clear()
	v := newView(line, m)
	found := false
	for r := range s.refs {
		if !c.has(r) {
			continue
		}
		if !found {
			found = s.try(r, v, m)
			continue
		}
		other := Match{Ref: m.Ref, Loc: m.Loc}
		if s.try(r, v, &other) && other.Addr != m.Addr {
			return false
		}
	}
	return found
}

// try reads v by one pattern.
func (s *Set) try(r int, v *view, m *Match) bool {
	m.clear()
	pk := s.packs[s.refs[r].pack]
	p := pk.pattern(int(s.refs[r].pattern))
	if p == nil || !v.match(p, m) {
		return false
	}
	m.Service, m.Name = pk.name, p.name
	m.Informs = p.informs
	m.Outcome, m.Kind, m.Class = p.outcome, p.kind, p.class
	if m.Time == 0 {
		m.Time = v.time
	}
	return true
}
