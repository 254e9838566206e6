package f2b

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// node is one part of an expression in the syntax of Python's re.
type node struct {
	op       op
	subs     []*node
	set      *set // opSet
	min, max int  // opRepeat; max -1: any number
	lazy     bool
	group    int  // opGroup, opBackref, opCond
	behind   bool // opLook
	not      bool // opLook
	fold     bool // opBackref
	at       assertion
}

type op uint8

const (
	opEmpty op = iota
	opSet
	opCat
	opAlt
	opRepeat
	opGroup
	opLook
	opBackref
	opCond
	opAssert
)

// assertion is what holds between two bytes.
type assertion uint8

const (
	atBegin     assertion = iota // of the text
	atEnd                        // of the text
	atLastLine                   // of the text, or before the newline that ends it
	atLineBegin                  // (?m)^
	atLineEnd                    // (?m)$
	atWord                       // \b
	atNoWord                     // \B
)

// set is a set of bytes. A byte of a character outside ASCII is a letter to \w
// and no blank to \s.
type set [4]uint64

func (s *set) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *set) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }
func (s *set) addRange(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s.add(byte(b))
	}
}
func (s *set) or(o *set) {
	for i := range s {
		s[i] |= o[i]
	}
}
func (s *set) not() set { return set{^s[0], ^s[1], ^s[2], ^s[3]} }

func setOf(bytes string) (s set) {
	for i := range len(bytes) {
		s.add(bytes[i])
	}
	return s
}

var (
	digits = setOf("0123456789")
	blanks = setOf(" \t\n\r\f\v\x1c\x1d\x1e\x1f")
	words  = func() set {
		s := setOf("_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		s.addRange(0x80, 0xff)
		return s
	}()
)

// Limits of one expression.
const (
	maxExpr   = 64 << 10 // bytes as written
	maxDepth  = 100      // brackets in brackets
	maxRepeat = 1000
	maxInsts  = 20_000 // of the compiled program
)

// flags are those of (?ims), which hold for a part of an expression.
type flags struct{ fold, multi, dotAll, verbose bool }

type parser struct {
	src    string
	pos    int
	depth  int
	names  map[string]int
	groups int
	open   []int // groups that are not closed yet
	behind int   // inside of how many lookbehinds
}

// syntaxError is what is wrong with an expression, and at which byte.
type syntaxError struct {
	at  int
	msg string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at character %d", e.msg, e.at+1) }

func (p *parser) fail(format string, args ...any) {
	panic(&syntaxError{p.pos, fmt.Sprintf(format, args...)})
}

// parse reads an expression. multi is re.MULTILINE.
func parse(src string, multi bool) (n *node, p *parser, err error) {
	if len(src) > maxExpr {
		return nil, nil, fmt.Errorf("longer than %d bytes", maxExpr)
	}
	if !utf8.ValidString(src) {
		return nil, nil, fmt.Errorf("not valid UTF-8")
	}
	p = &parser{src: src, names: map[string]int{}}
	defer func() {
		if r := recover(); r != nil {
			se, ok := r.(*syntaxError)
			if !ok {
				panic(r)
			}
			n, err = nil, se
		}
	}()
	n = p.alternatives(&flags{multi: multi})
	if p.pos < len(p.src) {
		p.fail("unbalanced )")
	}
	return n, p, nil
}

func (p *parser) more() bool { return p.pos < len(p.src) }

func (p *parser) eat(s string) bool {
	if strings.HasPrefix(p.src[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

// alternatives reads A|B|C up to a closing bracket. f changes with (?i).
func (p *parser) alternatives(f *flags) *node {
	if p.depth++; p.depth > maxDepth {
		p.fail("brackets are nested too deeply")
	}
	defer func() { p.depth-- }()
	var alts []*node
	for {
		alts = append(alts, p.sequence(f))
		if !p.eat("|") {
			break
		}
	}
	if len(alts) == 1 {
		return alts[0]
	}
	return &node{op: opAlt, subs: alts}
}

func (p *parser) sequence(f *flags) *node {
	cat := &node{op: opCat}
	for p.more() && p.src[p.pos] != '|' && p.src[p.pos] != ')' {
		if f.verbose && p.skipVerbose() {
			continue
		}
		n := p.atom(f)
		if n == nil {
			continue
		}
		cat.subs = append(cat.subs, p.repeats(n, f))
	}
	return cat
}

func (p *parser) skipVerbose() bool {
	c := p.src[p.pos]
	if blanks.has(c) {
		p.pos++
		return true
	}
	if c == '#' {
		if i := strings.IndexByte(p.src[p.pos:], '\n'); i >= 0 {
			p.pos += i + 1
		} else {
			p.pos = len(p.src)
		}
		return true
	}
	return false
}

// repeats reads the quantifiers behind n.
func (p *parser) repeats(n *node, f *flags) *node {
	for p.more() {
		for f.verbose && p.more() && p.skipVerbose() {
		}
		lo, hi, ok := p.quantifier()
		if !ok {
			return n
		}
		if n.op == opRepeat {
			p.fail("multiple repeat")
		}
		if n.op == opAssert {
			p.fail("nothing to repeat")
		}
		if hi >= 0 && lo > hi {
			p.fail("min repeat greater than max repeat")
		}
		if lo > maxRepeat || hi > maxRepeat {
			p.fail("more than %d repeats", maxRepeat)
		}
		if blank(n) {
			lo, hi = 1, 1 // each round would take time and leave nothing
		}
		n = &node{op: opRepeat, subs: []*node{n}, min: lo, max: hi}
		if p.eat("?") {
			n.lazy = true
		} else if p.more() && p.src[p.pos] == '+' {
			p.fail("possessive repeats are not supported")
		}
	}
	return n
}

// blank reports whether n compiles to no instruction.
func blank(n *node) bool {
	switch n.op {
	case opEmpty:
		return true
	case opRepeat:
		return n.max == 0 || n.min == n.max && blank(n.subs[0])
	case opCat:
		return !slices.ContainsFunc(n.subs, func(s *node) bool { return !blank(s) })
	}
	return false
}

func (p *parser) quantifier() (lo, hi int, ok bool) {
	if !p.more() {
		return 0, 0, false
	}
	switch p.src[p.pos] {
	case '*':
		p.pos++
		return 0, -1, true
	case '+':
		p.pos++
		return 1, -1, true
	case '?':
		p.pos++
		return 0, 1, true
	case '{':
		end := strings.IndexByte(p.src[p.pos:], '}')
		if end < 0 {
			return 0, 0, false
		}
		a, b, ranged := strings.Cut(p.src[p.pos+1:p.pos+end], ",")
		if !decimal(a) || !decimal(b) || a == "" && !ranged {
			return 0, 0, false
		}
		lo, hi = 0, -1
		if a != "" {
			lo, _ = strconv.Atoi(a)
		}
		if b != "" {
			hi, _ = strconv.Atoi(b)
		}
		if !ranged {
			hi = lo
		}
		p.pos += end + 1
		return lo, hi, true
	}
	return 0, 0, false
}

func decimal(s string) bool {
	for i := range len(s) {
		if !digits.has(s[i]) {
			return false
		}
	}
	return len(s) < 8
}

// atom reads one part; nil is one that matches nothing by itself, as (?i).
func (p *parser) atom(f *flags) *node {
	switch c := p.src[p.pos]; c {
	case '(':
		return p.bracket(f)
	case '[':
		return p.class(f)
	case '.':
		p.pos++
		var s set
		if !f.dotAll {
			s = setOf("\n")
		}
		s = s.not()
		return &node{op: opSet, set: &s}
	case '^':
		p.pos++
		return assertNode(f.multi, atLineBegin, atBegin)
	case '$':
		p.pos++
		return assertNode(f.multi, atLineEnd, atLastLine)
	case '\\':
		return p.escape(f)
	case '*', '+', '?':
		p.fail("nothing to repeat")
	}
	r, size := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += size
	return literal(r, f.fold)
}

func assertNode(first bool, a, b assertion) *node {
	if first {
		b = a
	}
	return &node{op: opAssert, at: b}
}

// literal is one character; outside ASCII it is the bytes of its UTF-8.
func literal(r rune, fold bool) *node {
	if r < 0x80 {
		s := setOf(string(r))
		if fold {
			foldSet(&s)
		}
		return &node{op: opSet, set: &s}
	}
	cat := &node{op: opCat}
	for _, b := range []byte(string(r)) {
		var s set
		s.add(b)
		cat.subs = append(cat.subs, &node{op: opSet, set: &s})
	}
	return &node{op: opCat, subs: []*node{cat}}
}

func foldSet(s *set) {
	for b := byte('a'); b <= 'z'; b++ {
		if s.has(b) || s.has(b-32) {
			s.add(b)
			s.add(b - 32)
		}
	}
}

// bracket reads what begins with "(".
func (p *parser) bracket(f *flags) *node {
	start := p.pos
	p.pos++
	switch {
	case p.eat("?:"):
		inner := *f
		return p.close(p.alternatives(&inner), start)
	case p.eat("?#"):
		i := strings.IndexByte(p.src[p.pos:], ')')
		if i < 0 {
			p.fail("missing ), unterminated comment")
		}
		p.pos += i + 1
		return nil
	case p.eat("?="):
		return p.look(f, start, false, false)
	case p.eat("?!"):
		return p.look(f, start, false, true)
	case p.eat("?<="):
		return p.look(f, start, true, false)
	case p.eat("?<!"):
		return p.look(f, start, true, true)
	case p.eat("?P="):
		return p.backref(p.groupNamed(p.until(')')), f)
	case p.eat("?("):
		return p.conditional(f, start)
	case p.eat("?P<"):
		name := p.until('>')
		if !isName(name) {
			p.fail("bad character in group name %q", clip(name))
		}
		if p.names[name] != 0 {
			p.fail("redefinition of group name %q", clip(name))
		}
		return p.capture(name, f, start)
	case p.eat("?>"):
		p.fail("atomic groups are not supported")
	case p.eat("?"):
		return p.flagged(f, start)
	}
	return p.capture("", f, start)
}

func (p *parser) capture(name string, f *flags, start int) *node {
	p.groups++
	if p.groups > 100 {
		p.fail("more than 100 groups")
	}
	g := p.groups
	if name != "" {
		p.names[name] = g
	}
	p.open = append(p.open, g)
	inner := *f
	n := &node{op: opGroup, group: g, subs: []*node{p.alternatives(&inner)}}
	p.open = p.open[:len(p.open)-1]
	return p.close(n, start)
}

func (p *parser) close(n *node, start int) *node {
	if !p.eat(")") {
		p.pos = start
		p.fail("missing ), unterminated subpattern")
	}
	return &node{op: opCat, subs: []*node{n}}
}

func (p *parser) look(f *flags, start int, behind, not bool) *node {
	inner := *f
	if behind {
		p.behind++
	}
	sub := p.alternatives(&inner)
	if behind {
		p.behind--
	}
	return p.close(&node{op: opLook, subs: []*node{sub}, behind: behind, not: not}, start)
}

func (p *parser) until(end byte) string {
	i := strings.IndexByte(p.src[p.pos:], end)
	if i < 0 {
		p.fail("missing %c, unterminated name", end)
	}
	name := p.src[p.pos : p.pos+i]
	p.pos += i + 1
	return name
}

// groupNamed is the number of a group by its name or number.
func (p *parser) groupNamed(name string) int {
	g := p.names[name]
	if g == 0 && decimal(name) && name != "" {
		g, _ = strconv.Atoi(name)
	}
	if g == 0 || g > p.groups {
		p.fail("unknown group name %q", clip(name))
	}
	return g
}

func (p *parser) backref(g int, f *flags) *node {
	if p.behind > 0 {
		p.fail("a backreference in a lookbehind is not supported")
	}
	for _, o := range p.open {
		if o == g {
			p.fail("cannot refer to an open group")
		}
	}
	return &node{op: opBackref, group: g, fold: f.fold}
}

// conditional reads (?(group)yes|no).
func (p *parser) conditional(f *flags, start int) *node {
	name := p.until(')')
	g := p.groupNamed(name)
	inner := *f
	n := p.alternatives(&inner)
	yes, no := n, &node{op: opEmpty}
	if n.op == opAlt {
		if len(n.subs) > 2 {
			p.fail("conditional backref with more than two branches")
		}
		yes, no = n.subs[0], n.subs[1]
	}
	return p.close(&node{op: opCond, group: g, subs: []*node{yes, no}}, start)
}

// flagged reads (?i), (?iu), (?i:…), (?-i:…).
func (p *parser) flagged(f *flags, start int) *node {
	inner := *f
	on := true
	for p.more() {
		c := p.src[p.pos]
		p.pos++
		switch c {
		case 'i':
			inner.fold = on
		case 'm':
			inner.multi = on
		case 's':
			inner.dotAll = on
		case 'x':
			inner.verbose = on
		case 'u', 'a', 'L':
		case '-':
			on = false
		case ')':
			*f = inner
			return nil
		case ':':
			return p.close(p.alternatives(&inner), start)
		default:
			p.fail("unknown extension ?%c", c)
		}
	}
	p.fail("missing -, : or )")
	return nil
}

func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x80 || !words.has(c) || i == 0 && digits.has(c) {
			return false
		}
	}
	return s != ""
}

// escape reads what begins with a backslash outside of a class.
func (p *parser) escape(f *flags) *node {
	if p.pos+1 >= len(p.src) {
		p.fail("bad escape at the end of the expression")
	}
	c := p.src[p.pos+1]
	switch c {
	case 'A', 'Z', 'b', 'B':
		p.pos += 2
		return &node{op: opAssert, at: map[byte]assertion{'A': atBegin, 'Z': atEnd, 'b': atWord, 'B': atNoWord}[c]}
	}
	if c >= '1' && c <= '9' {
		end := p.pos + 2
		if end < len(p.src) && digits.has(p.src[end]) {
			end++
		}
		name := p.src[p.pos+1 : end]
		p.pos = end
		return p.backref(p.groupNamed(name), f)
	}
	s, r := p.escaped()
	if s != nil {
		return &node{op: opSet, set: s}
	}
	return literal(r, f.fold)
}

// escaped reads an escape that is a set or a character.
func (p *parser) escaped() (*set, rune) {
	p.pos++
	if !p.more() {
		p.fail("bad escape at the end of the expression")
	}
	r, size := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += size
	var s set
	switch r {
	case 'd':
		s = digits
	case 'D':
		s = digits.not()
	case 's':
		s = blanks
	case 'S':
		s = blanks.not()
	case 'w':
		s = words
	case 'W':
		s = words.not()
	case 'n':
		return nil, '\n'
	case 't':
		return nil, '\t'
	case 'r':
		return nil, '\r'
	case 'f':
		return nil, '\f'
	case 'v':
		return nil, '\v'
	case 'a':
		return nil, 7
	case 'b':
		return nil, 8
	case '0':
		return nil, p.number(2, 8, true)
	case 'x':
		return nil, p.number(2, 16, false)
	case 'u':
		return nil, p.number(4, 16, false)
	default:
		if r < 0x80 && words.has(byte(r)) && r != '_' {
			p.fail("bad escape \\%c", r)
		}
		return nil, r
	}
	return &s, 0
}

func (p *parser) number(most, base int, fewer bool) rune {
	n := 0
	for n < most && p.pos+n < len(p.src) && strings.IndexByte("0123456789abcdef"[:base], lower(p.src[p.pos+n])) >= 0 {
		n++
	}
	if n == 0 && fewer {
		return 0
	}
	if n < most && !fewer {
		p.fail("incomplete escape")
	}
	v, _ := strconv.ParseInt(p.src[p.pos:p.pos+n], base, 32)
	p.pos += n
	return rune(v)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 32
	}
	return c
}

// class reads [...].
func (p *parser) class(f *flags) *node {
	start := p.pos
	p.pos++
	not := p.eat("^")
	var s set
	var wide []rune // members outside ASCII
	for first := true; ; first = false {
		if !p.more() {
			p.pos = start
			p.fail("unterminated character set")
		}
		if p.src[p.pos] == ']' && !first {
			p.pos++
			break
		}
		lo, ls := p.member()
		if ls != nil {
			s.or(ls)
			continue
		}
		hi := lo
		if p.pos+1 < len(p.src) && p.src[p.pos] == '-' && p.src[p.pos+1] != ']' {
			p.pos++
			var hs *set
			if hi, hs = p.member(); hs != nil || hi < lo {
				p.fail("bad character range")
			}
		}
		if hi >= 0x80 && hi-lo > 255 {
			if lo <= 0x80 && hi >= 0xff { // as [\x00-\uffff], [\x80-\xff]
				s.addRange(0x80, 0xff)
				if lo < 0x80 {
					s.addRange(byte(lo), 0x7f)
				}
				continue
			}
			p.fail("ranges of characters outside ASCII are not supported")
		}
		for r := lo; r <= hi; r++ {
			if r < 0x80 {
				s.add(byte(r))
			} else {
				wide = append(wide, r)
			}
		}
	}
	if f.fold {
		foldSet(&s)
	}
	if not {
		// What is outside ASCII is taken for other characters than those.
		s = s.not()
		return &node{op: opSet, set: &s}
	}
	n := &node{op: opSet, set: &s}
	if len(wide) == 0 {
		return n
	}
	alt := &node{op: opAlt, subs: []*node{n}}
	for _, r := range wide {
		alt.subs = append(alt.subs, literal(r, false))
	}
	return alt
}

func (p *parser) member() (rune, *set) {
	if !p.more() {
		p.fail("unterminated character set")
	}
	if p.src[p.pos] == '\\' {
		s, r := p.escaped()
		return r, s
	}
	r, size := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += size
	return r, nil
}

func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
