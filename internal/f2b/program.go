package f2b

import (
	"errors"
	"fmt"
	"slices"
)

// inst is one instruction of a program. The first instructions in order of
// preference lead to the match that Python's re finds.
type inst struct {
	op   instOp
	out  int32
	alt  int32 // iSplit: the second choice; iLook: the program looked at; iBackref: a superset of the group
	arg  int32 // iSet: index of the set; iCap: slot; iAssert: its bit; iBackref: group
	not  bool  // iLook
	caps bool  // iLook: it captures
	fold bool  // iBackref
}

type instOp uint8

const (
	iSet instOp = iota
	iSplit
	iNop
	iCap
	iAssert
	iLook
	iBackref
	iCond // before conditions are resolved: out if group arg took part, else alt
	iMatch
	iFail
)

// program is a compiled expression.
type program struct {
	insts  []inst
	start  int32
	level  []uint8 // how many lookaheads an instruction is inside of
	levels int
	sets   []set
	checks []check // the conditions that iAssert names
	exact  bool    // false: it has backreferences
	names  map[string]int
	groups int

	class   [256]uint8 // bytes that no set and no check tells apart
	classes int
	byClass [][]int32 // class → iSet instructions
	before  [][]int32 // instruction → those that lead to it without a byte
	matches []int32   // iMatch instructions
	alike   map[set]int32
}

// check is a condition on a position: an assertion, or a lookbehind, which has
// a sequence for each alternative.
type check struct {
	at     assertion
	behind [][]step
	not    bool
}

// step is one byte of a lookbehind, or an assertion before the next.
type step struct {
	set    set
	isWord bool
	at     assertion
}

const (
	maxChecks = 16
	maxVisits = 20 * maxInsts
)

var (
	errTooBig    = fmt.Errorf("larger than %d instructions", maxInsts)
	errBehind    = errors.New("a lookbehind must have a fixed width")
	errChecks    = fmt.Errorf("more than %d different assertions", maxChecks)
	errConds     = errors.New("more than six groups are asked for in conditions")
	errManyPaths = errors.New("a lookbehind has too many alternatives")
)

type compiler struct {
	*program
	groupOf map[int]*node
	err     error
	in      int // level
	visits  int // of nodes: a repeated nothing takes time, and no instruction
}

// compile makes a program of an expression. ungreedy search is built in: the
// match may begin anywhere.
func compile(n *node, p *parser) (*program, error) {
	e := expander{left: maxInsts}
	n = e.expand(n)
	c := &compiler{program: &program{exact: true, names: p.names, groups: p.groups, alike: map[set]int32{}}, groupOf: map[int]*node{}}
	collectGroups(n, c.groupOf)
	match := c.emit(inst{op: iMatch})
	end := c.emit(inst{op: iCap, arg: 1, out: match})
	body := c.node(n, end)
	c.start = c.emit(inst{op: iCap, arg: 0, out: body})
	if c.err != nil {
		return nil, c.err
	}
	if err := c.resolve(); err != nil {
		return nil, err
	}
	c.index()
	return c.program, nil
}

func collectGroups(n *node, to map[int]*node) {
	if n.op == opGroup && to[n.group] == nil {
		to[n.group] = n
	}
	for _, s := range n.subs {
		collectGroups(s, to)
	}
}

func (c *compiler) emit(i inst) int32 {
	if len(c.insts) >= maxInsts {
		c.err = errTooBig
		return 0
	}
	c.insts = append(c.insts, i)
	c.level = append(c.level, uint8(c.in))
	c.levels = max(c.levels, c.in)
	return int32(len(c.insts) - 1)
}

func (c *compiler) setIndex(s *set) int32 {
	i, ok := c.alike[*s]
	if !ok {
		i = int32(len(c.sets))
		c.sets = append(c.sets, *s)
		c.alike[*s] = i
	}
	return i
}

// node compiles n so that it goes on at next.
func (c *compiler) node(n *node, next int32) int32 {
	if c.visits++; c.visits > maxVisits {
		c.err = errTooBig
	}
	if c.err != nil {
		return next
	}
	switch n.op {
	case opSet:
		return c.emit(inst{op: iSet, arg: c.setIndex(n.set), out: next})
	case opCat:
		for i := len(n.subs) - 1; i >= 0; i-- {
			next = c.node(n.subs[i], next)
		}
	case opAlt:
		to := c.node(n.subs[len(n.subs)-1], next)
		for i := len(n.subs) - 2; i >= 0; i-- {
			to = c.emit(inst{op: iSplit, out: c.node(n.subs[i], next), alt: to})
		}
		return to
	case opRepeat:
		return c.repeat(n, next)
	case opGroup:
		end := c.emit(inst{op: iCap, arg: int32(2*n.group + 1), out: next})
		body := c.node(n.subs[0], end)
		return c.emit(inst{op: iCap, arg: int32(2 * n.group), out: body})
	case opAssert:
		return c.check(check{at: n.at}, next)
	case opLook:
		return c.look(n, next)
	case opBackref:
		c.exact = false
		sup := next
		if g := c.groupOf[n.group]; g != nil {
			sup = c.node(uncaptured(g.subs[0], n.fold), next)
		}
		return c.emit(inst{op: iBackref, arg: int32(n.group), fold: n.fold, out: next, alt: sup})
	case opCond:
		yes, no := c.node(n.subs[0], next), c.node(n.subs[1], next)
		return c.emit(inst{op: iCond, arg: int32(n.group), out: yes, alt: no})
	}
	return next
}

// uncaptured is a copy of n that captures nothing, and matches either case if fold.
func uncaptured(n *node, fold bool) *node {
	m := *n
	if m.op == opGroup {
		m.op = opCat
	}
	if m.op == opSet && fold {
		s := *m.set
		foldSet(&s)
		m.set = &s
	}
	m.subs = make([]*node, len(n.subs))
	for i, s := range n.subs {
		m.subs[i] = uncaptured(s, fold)
	}
	return &m
}

func (c *compiler) repeat(n *node, next int32) int32 {
	sub := n.subs[0]
	split := func(more, done int32) int32 {
		if n.lazy {
			return c.emit(inst{op: iSplit, out: done, alt: more})
		}
		return c.emit(inst{op: iSplit, out: more, alt: done})
	}
	to := next
	if n.max < 0 {
		loop := split(next, next)
		body := c.node(sub, loop)
		if n.lazy {
			c.insts[loop].alt = body
		} else {
			c.insts[loop].out = body
		}
		to = loop
		if n.min > 0 {
			to = body
			if nullable(sub) {
				to = c.node(sub, loop)
			}
			for i := 1; i < n.min && c.err == nil; i++ {
				to = c.node(sub, to)
			}
			return to
		}
		return to
	}
	for i := n.min; i < n.max && c.err == nil; i++ {
		to = split(c.node(sub, to), next)
	}
	for i := 0; i < n.min && c.err == nil; i++ {
		to = c.node(sub, to)
	}
	return to
}

// nullable reports whether n may match nothing.
func nullable(n *node) bool {
	switch n.op {
	case opSet:
		return false
	case opRepeat:
		return n.min == 0 || nullable(n.subs[0])
	case opGroup, opCat:
		for _, s := range n.subs {
			if !nullable(s) {
				return false
			}
		}
	case opAlt, opCond:
		for _, s := range n.subs {
			if nullable(s) {
				return true
			}
		}
		return false
	}
	return true
}

func (c *compiler) look(n *node, next int32) int32 {
	if n.behind {
		paths, err := sequences(n.subs[0])
		if err != nil {
			c.err = err
			return next
		}
		return c.check(check{behind: paths, not: n.not}, next)
	}
	c.in++
	match := c.emit(inst{op: iMatch})
	sub := c.node(n.subs[0], match)
	c.in--
	inside := map[int]*node{}
	collectGroups(n.subs[0], inside)
	return c.emit(inst{op: iLook, alt: sub, not: n.not, caps: len(inside) > 0 && !n.not, out: next})
}

func (c *compiler) check(k check, next int32) int32 {
	for i, have := range c.checks {
		if have.behind == nil && k.behind == nil && have.at == k.at {
			return c.emit(inst{op: iAssert, arg: int32(i), out: next})
		}
	}
	if len(c.checks) == maxChecks {
		c.err = errChecks
		return next
	}
	c.checks = append(c.checks, k)
	return c.emit(inst{op: iAssert, arg: int32(len(c.checks) - 1), out: next})
}

// sequences writes an expression of a fixed width as the sequences that it
// stands for.
func sequences(n *node) ([][]step, error) {
	all, err := paths(n)
	for i := range all {
		if err == nil && width(all[i]) != width(all[0]) {
			err = errBehind
		}
	}
	return all, err
}

func width(s []step) (w int) {
	for i := range s {
		if s[i].isWord {
			w++
		}
	}
	return w
}

func paths(n *node) ([][]step, error) {
	switch n.op {
	case opEmpty:
		return [][]step{{}}, nil
	case opSet:
		return [][]step{{{set: *n.set, isWord: true}}}, nil
	case opAssert:
		return [][]step{{{at: n.at}}}, nil
	case opGroup:
		return paths(n.subs[0])
	case opAlt:
		var all [][]step
		for _, s := range n.subs {
			p, err := paths(s)
			if err != nil {
				return nil, err
			}
			all = append(all, p...)
		}
		return bounded(all)
	case opCat, opRepeat:
		subs := n.subs
		if n.op == opRepeat {
			if n.min != n.max || n.min > 256 || nullable(n.subs[0]) {
				return nil, errBehind
			}
			subs = slices.Repeat(n.subs, n.min)
		}
		all := [][]step{{}}
		for _, s := range subs {
			p, err := paths(s)
			if err != nil {
				return nil, err
			}
			var next [][]step
			for _, a := range all {
				for _, b := range p {
					next = append(next, append(append([]step{}, a...), b...))
				}
			}
			if all, err = bounded(next); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, errors.New("lookarounds, references and conditions in a lookbehind are not supported")
}

func bounded(all [][]step) ([][]step, error) {
	if len(all) > 64 {
		return nil, errManyPaths
	}
	for _, a := range all {
		if len(a) > 256 {
			return nil, errBehind
		}
	}
	return all, nil
}

// expander writes a group of few texts, as a quote, and what
// refers to it, as alternatives: ([-/])A\1 is (-)A-|(/)A/. So most expressions
// with backreferences are regular.
// left is how many nodes it may still make; what is not expanded is matched by
// trying.
type expander struct{ left int }

func (e *expander) expand(n *node) *node {
	for i, s := range n.subs {
		n.subs[i] = e.expand(s)
	}
	if n.op != opCat {
		return n
	}
	n.subs = flatten(n.subs)
	for i, s := range n.subs {
		if s.op != opGroup {
			continue
		}
		members := finite(s.subs[0])
		last := i
		for j := i + 1; j < len(n.subs); j++ {
			if refers(n.subs[j], s.group) {
				last = j
			}
		}
		if members == nil || last == i {
			continue
		}
		size := 0
		for _, x := range n.subs[i : last+1] {
			size += nodes(x)
		}
		if e.left -= size * len(members); e.left < 0 {
			return n
		}
		alt := &node{op: opAlt}
		for _, b := range members {
			branch := &node{op: opCat, subs: []*node{{op: opGroup, group: s.group, subs: []*node{textNode(b, false)}}}}
			for _, x := range n.subs[i+1 : last+1] {
				branch.subs = append(branch.subs, replaced(x, s.group, b))
			}
			alt.subs = append(alt.subs, e.expand(branch))
		}
		rest := append(append([]*node{}, n.subs[:i]...), alt)
		return e.expand(&node{op: opCat, subs: append(rest, n.subs[last+1:]...)})
	}
	return n
}

func flatten(subs []*node) []*node {
	var out []*node
	for _, s := range subs {
		if s.op == opCat {
			out = append(out, flatten(s.subs)...)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// finite lists the texts that an expression stands for, in order of preference,
// when they are few and short; else nil.
func finite(n *node) []string {
	switch n.op {
	case opEmpty:
		return []string{""}
	case opSet:
		var out []string
		for b := range 256 {
			if n.set.has(byte(b)) {
				if out = append(out, string([]byte{byte(b)})); len(out) > maxFinite {
					return nil
				}
			}
		}
		return out
	case opAlt:
		var out []string
		for _, s := range n.subs {
			f := finite(s)
			if out = append(out, f...); f == nil || len(out) > maxFinite {
				return nil
			}
		}
		return out
	case opCat:
		out := []string{""}
		for _, s := range n.subs {
			f := finite(s)
			if f == nil || len(f)*len(out) > maxFinite {
				return nil
			}
			var next []string
			for _, a := range out {
				for _, b := range f {
					next = append(next, a+b)
				}
			}
			out = next
		}
		return out
	case opRepeat:
		if n.max == 1 && n.min == 0 {
			f := finite(n.subs[0])
			if f == nil || len(f) == maxFinite {
				return nil
			}
			if n.lazy {
				return append([]string{""}, f...)
			}
			return append(slices.Clone(f), "")
		}
	}
	return nil
}

const maxFinite = 8

func textNode(s string, fold bool) *node {
	cat := &node{op: opCat}
	for i := range len(s) {
		set := setOf(s[i : i+1])
		if fold {
			foldSet(&set)
		}
		cat.subs = append(cat.subs, &node{op: opSet, set: &set})
	}
	return cat
}

func nodes(n *node) int {
	sum := 1
	for _, s := range n.subs {
		sum += nodes(s)
	}
	return sum
}

func refers(n *node, group int) bool {
	if n.op == opBackref && n.group == group {
		return true
	}
	for _, s := range n.subs {
		if refers(s, group) {
			return true
		}
	}
	return false
}

func replaced(n *node, group int, by string) *node {
	if n.op == opBackref && n.group == group {
		return textNode(by, n.fold)
	}
	m := *n
	m.subs = make([]*node, len(n.subs))
	for i, s := range n.subs {
		m.subs[i] = replaced(s, group, by)
	}
	return &m
}

// resolve removes iCond: each instruction becomes one for each set of groups
// that took part before it, as far as conditions ask for them.
func (c *compiler) resolve() error {
	asked := map[int32]uint{}
	for _, in := range c.insts {
		if in.op == iCond {
			if _, ok := asked[in.arg]; !ok {
				asked[in.arg] = uint(len(asked))
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if len(asked) > 6 {
		return errConds
	}
	old, oldLevel := c.insts, c.level
	type state struct {
		pc   int32
		took uint8
	}
	ids := map[state]int32{}
	var order []state
	id := func(pc int32, took uint8) int32 {
		for old[pc].op == iCond { // decided here
			in := old[pc]
			if took>>asked[in.arg]&1 != 0 {
				pc = in.out
			} else {
				pc = in.alt
			}
		}
		s := state{pc, took}
		i, ok := ids[s]
		if !ok {
			i = int32(len(order))
			ids[s] = i
			order = append(order, s)
		}
		return i
	}
	c.start = id(c.start, 0)
	c.insts, c.level = nil, nil
	for n := 0; n < len(order); n++ {
		if n >= maxInsts {
			return errTooBig
		}
		s := order[n]
		in := old[s.pc]
		took := s.took
		if in.op == iCap && in.arg&1 == 1 {
			if bit, ok := asked[in.arg/2]; ok {
				took |= 1 << bit
			}
		}
		switch in.op {
		case iMatch, iFail:
		case iSplit, iLook, iBackref:
			in.out, in.alt = id(in.out, took), id(in.alt, took)
		default:
			in.out = id(in.out, took)
		}
		c.insts = append(c.insts, in)
		c.level = append(c.level, oldLevel[s.pc])
	}
	return nil
}

// index computes what matching looks up.
func (p *program) index() {
	p.alike = nil
	all := append([]set{}, p.sets...)
	for _, k := range p.checks {
		for _, path := range k.behind {
			for _, s := range path {
				if s.isWord {
					all = append(all, s.set)
				}
			}
		}
	}
	seen := map[string]uint8{}
	for b := range 256 {
		sig := make([]byte, (len(all)+7)/8)
		for i := range all {
			if all[i].has(byte(b)) {
				sig[i/8] |= 1 << (i % 8)
			}
		}
		n, ok := seen[string(sig)]
		if !ok {
			n = uint8(len(seen))
			seen[string(sig)] = n
		}
		p.class[b] = n
	}
	p.classes = len(seen)
	rep := make([]byte, p.classes)
	for b := range 256 {
		rep[p.class[b]] = byte(b)
	}
	p.byClass = make([][]int32, p.classes)
	p.before = make([][]int32, len(p.insts))
	for pc, in := range p.insts {
		at := int32(pc)
		switch in.op {
		case iSet:
			for c := range p.byClass {
				if p.sets[in.arg].has(rep[c]) {
					p.byClass[c] = append(p.byClass[c], at)
				}
			}
		case iSplit:
			p.before[in.out] = append(p.before[in.out], at)
			if in.alt != in.out {
				p.before[in.alt] = append(p.before[in.alt], at)
			}
		case iBackref:
			p.before[in.alt] = append(p.before[in.alt], at)
		case iNop, iCap, iAssert, iLook:
			p.before[in.out] = append(p.before[in.out], at)
		case iMatch:
			p.matches = append(p.matches, at)
		}
	}
}
