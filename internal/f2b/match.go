package f2b

import (
	"bytes"
	"errors"
	"slices"
	"sync"
)

// Regex is an expression of Python's re, matched in time that grows linearly
// with the text. Only with backreferences that no automaton replaces is a
// match tried by steps, up to a limit. It may be used from several goroutines.
//
// A text is read twice. From its end to its begin, a lazily built automaton
// finds for each position the instructions from which the rest matches;
// lookaheads are part of it, since what follows is known then. From its begin,
// the first of the preferred instructions that are among these are taken.
type Regex struct {
	*program
	src    string
	needed []byte // a text without it does not match
	first  *set   // a text that begins with another byte does not match; nil: any

	mu     sync.Mutex
	states []*state
	known  map[string]int32
	size   int
	// scratch memory of a match
	at    []int32 // position → state
	work  []int32
	truth []uint64
	mark  []uint32
	gen   uint32
	stack []choice
}

type state struct {
	truth []uint64
	next  [][]int32 // condition bits → class → state before it; 0 unknown
}

// maxStates bounds what is kept of an automaton between texts, in bytes.
const maxStates = 512 << 10

// maxSteps bounds the steps of an expression with backreferences on one text.
const maxSteps = 20_000

// ErrSteps is of a text that an expression with backreferences was not matched
// on to the end: it counts as one without a match.
var ErrSteps = errors.New("over the limit of steps")

// Compile compiles an expression in the syntax of Python's re. multi is
// re.MULTILINE.
func Compile(src string, multi bool) (*Regex, error) {
	n, p, err := parse(src, multi)
	if err != nil {
		return nil, err
	}
	needed := requiredText(n)
	first := firstBytes(n)
	prog, err := compile(n, p)
	if err != nil {
		return nil, err
	}
	r := &Regex{program: prog, src: src, needed: needed, first: first, mark: make([]uint32, len(prog.insts))}
	r.truth = make([]uint64, (len(prog.insts)+63)/64)
	r.flush()
	return r, nil
}

func (r *Regex) String() string { return r.src }

// Groups is the number of slots of a match: two a group, the whole is group 0.
func (r *Regex) slots() int { return 2 * (r.groups + 1) }

func (r *Regex) flush() {
	// The state 0 is none, 1 what stands behind the end: nothing.
	r.states = append(r.states[:0], nil, &state{truth: make([]uint64, len(r.truth))})
	r.known = map[string]int32{}
	r.size = 0
}

func bit(b []uint64, i int32) bool { return b[i>>6]>>(uint(i)&63)&1 != 0 }

// conditions are the bits of the checks that hold before text[i].
func (r *Regex) conditions(text []byte, i int) (f uint16) {
	for n := range r.checks {
		if r.checks[n].holds(text, i) {
			f |= 1 << n
		}
	}
	return f
}

func (k *check) holds(text []byte, i int) bool {
	if k.behind == nil {
		return k.at.holds(text, i)
	}
	for _, path := range k.behind {
		if ends(path, text, i) {
			return !k.not
		}
	}
	return k.not
}

func ends(path []step, text []byte, i int) bool {
	i -= width(path)
	if i < 0 {
		return false
	}
	for n := range path {
		s := &path[n]
		if !s.isWord {
			if !s.at.holds(text, i) {
				return false
			}
			continue
		}
		if !s.set.has(text[i]) {
			return false
		}
		i++
	}
	return true
}

func (a assertion) holds(text []byte, i int) bool {
	switch a {
	case atBegin:
		return i == 0
	case atEnd:
		return i == len(text)
	case atLastLine:
		return i == len(text) || i == len(text)-1 && text[i] == '\n'
	case atLineBegin:
		return i == 0 || text[i-1] == '\n'
	case atLineEnd:
		return i == len(text) || text[i] == '\n'
	}
	if len(text) == 0 {
		return false // re says so
	}
	word := (i > 0 && words.has(text[i-1])) != (i < len(text) && words.has(text[i]))
	return word == (a == atWord)
}

// scan fills r.at for text. It reports the least position where a match may
// begin, -1 for none.
func (r *Regex) scan(text []byte) int {
	if r.size > maxStates {
		r.flush()
	}
	if cap(r.at) < len(text)+1 {
		r.at = make([]int32, len(text)+1)
	}
	r.at = r.at[:len(text)+1]
	found := -1
	st := int32(1)
	checks := len(r.checks) > 0
	start := r.start
	for i := len(text); i >= 0; i-- {
		c := r.classes // none: the end
		if i < len(text) {
			c = int(r.class[text[i]])
		}
		var f uint16
		if checks {
			f = r.conditions(text, i)
		}
		s := r.states[st]
		if int(f) < len(s.next) && s.next[f] != nil && s.next[f][c] != 0 {
			st = s.next[f][c]
		} else {
			st = r.step(s, c, f)
		}
		r.at[i] = st
		if bit(r.states[st].truth, start) {
			found = i
		}
	}
	return found
}

// step computes the state before a byte of class c, where the conditions f
// hold, from the state behind it.
func (r *Regex) step(s *state, c int, f uint16) int32 {
	t := r.truth
	clear(t)
	for level := r.levels; level >= 0; level-- {
		r.work = r.work[:0]
		r.seed(s, c, level)
		for len(r.work) > 0 {
			pc := r.work[len(r.work)-1]
			r.work = r.work[:len(r.work)-1]
			for _, b := range r.before[pc] {
				if bit(t, b) || int(r.level[b]) != level {
					continue
				}
				in := &r.insts[b]
				if in.op == iAssert && f>>uint(in.arg)&1 == 0 || in.op == iLook && bit(t, in.alt) == in.not {
					continue
				}
				t[b>>6] |= 1 << (uint(b) & 63)
				r.work = append(r.work, b)
			}
		}
	}
	key := make([]byte, 0, len(t)*8)
	for _, w := range t {
		key = append(key, byte(w), byte(w>>8), byte(w>>16), byte(w>>24), byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56))
	}
	id, ok := r.known[string(key)]
	if !ok {
		id = int32(len(r.states))
		r.states = append(r.states, &state{truth: append([]uint64{}, t...)})
		r.known[string(key)] = id
		r.size += 3*len(key) + 64
	}
	for len(s.next) <= int(f) {
		s.next = append(s.next, nil)
	}
	if s.next[f] == nil {
		s.next[f] = make([]int32, r.classes+1)
		r.size += 4*r.classes + 24
	}
	s.next[f][c] = id
	return id
}

// seed marks the instructions of a level that match by themselves.
func (r *Regex) seed(s *state, c, level int) {
	set := func(pc int32) {
		if int(r.level[pc]) == level && !bit(r.truth, pc) {
			r.truth[pc>>6] |= 1 << (uint(pc) & 63)
			r.work = append(r.work, pc)
		}
	}
	if c < r.classes {
		for _, pc := range r.byClass[c] {
			if bit(s.truth, r.insts[pc].out) {
				set(pc)
			}
		}
	}
	for _, pc := range r.matches {
		set(pc)
	}
}

// Match searches text for the expression, as re.search. The slots of loc are
// the begins and ends of its groups, -1 for those that took no part. loc is
// memory to use, nil to allocate.
func (r *Regex) Match(text []byte, loc []int) ([]int, error) {
	if r.first != nil && (len(text) == 0 || !r.first.has(text[0])) || r.needed != nil && !bytes.Contains(text, r.needed) {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.match(text, loc)
}

func (r *Regex) match(text []byte, loc []int) ([]int, error) {
	at := r.scan(text)
	if at < 0 {
		return nil, nil
	}
	loc = loc[:0]
	for range r.slots() {
		loc = append(loc, -1)
	}
	if r.exact {
		r.walk(text, r.start, at, loc)
		return loc, nil
	}
	steps := maxSteps
	for ; at <= len(text); at++ {
		if !bit(r.states[r.at[at]].truth, r.start) {
			continue
		}
		if ok, err := r.try(text, at, loc, &steps, nil); ok || err != nil {
			if err != nil {
				loc = nil
			}
			return loc, err
		}
	}
	return nil, nil
}

// choice is what to do when the way taken since then leads nowhere: go on at
// pc, or, with slot >= 0, restore a slot.
type choice struct {
	pc   int32
	slot int32
	pos  int
}

// walk takes the preferred way from pc at position i, which is known to reach
// a match. Within a position, an instruction is passed once: a loop that
// matched nothing ends.
func (r *Regex) walk(text []byte, pc int32, i int, loc []int) {
	base := len(r.stack)
	r.gen++
	gen := r.gen
	live := r.states[r.at[i]].truth
	for {
		if r.mark[pc] == gen || !bit(live, pc) {
			var ok bool
			if pc, ok = r.back(base, loc); !ok {
				return
			}
			continue
		}
		r.mark[pc] = gen
		in := &r.insts[pc]
		switch in.op {
		case iSet:
			r.stack = r.stack[:base]
			i++
			r.gen++
			gen = r.gen
			live = r.states[r.at[i]].truth
			pc = in.out
		case iSplit:
			r.stack = append(r.stack, choice{pc: in.alt, slot: -1})
			pc = in.out
		case iCap:
			r.stack = append(r.stack, choice{slot: in.arg, pos: loc[in.arg]})
			loc[in.arg] = i
			pc = in.out
		case iLook:
			if in.caps {
				r.lookInto(text, in.alt, i, loc)
			}
			pc = in.out
		case iMatch:
			r.stack = r.stack[:base]
			return
		default:
			pc = in.out
		}
	}
}

// lookInto sets the groups in a lookahead that holds at i.
func (r *Regex) lookInto(text []byte, pc int32, i int, loc []int) {
	mark, gen, old := r.mark, r.gen, append([]int(nil), loc...)
	r.mark, r.gen = make([]uint32, len(mark)), 0
	r.walk(text, pc, i, loc)
	r.mark, r.gen = mark, gen
	for slot, pos := range old {
		if loc[slot] != pos {
			r.stack = append(r.stack, choice{slot: int32(slot), pos: pos})
		}
	}
}

func (r *Regex) back(base int, loc []int) (pc int32, ok bool) {
	for len(r.stack) > base {
		c := r.stack[len(r.stack)-1]
		r.stack = r.stack[:len(r.stack)-1]
		if c.slot < 0 {
			return c.pc, true
		}
		loc[c.slot] = c.pos
	}
	return 0, false
}

// try matches an expression with backreferences at position i by trying every
// way that leads to a match of the superset without them; with only, those in
// which one of its groups is its span.
func (r *Regex) try(text []byte, i int, loc []int, steps *int, only *spans) (bool, error) {
	type branch struct {
		choice
		i int
	}
	var stack []branch
	pc := r.start
	for {
		if *steps--; *steps < 0 {
			return false, ErrSteps
		}
		ok := bit(r.states[r.at[i]].truth, pc)
		if ok {
			in := &r.insts[pc]
			switch in.op {
			case iSet:
				i++
				pc = in.out
			case iSplit:
				stack = append(stack, branch{choice{pc: in.alt, slot: -1}, i})
				pc = in.out
			case iCap:
				stack = append(stack, branch{choice{slot: in.arg, pos: loc[in.arg]}, 0})
				loc[in.arg] = i
				ok = only.allows(int(in.arg), i)
				pc = in.out
			case iMatch:
				if ok = only.passed(loc); ok {
					return true, nil
				}
			case iBackref:
				a, b := loc[2*in.arg], loc[2*in.arg+1]
				ok = a >= 0 && b >= a && same(text[a:b], text[i:], in.fold)
				if ok {
					i += b - a
					pc = in.out
				}
			default: // of lookaheads only the truth counts
				pc = in.out
			}
		}
		for !ok {
			if len(stack) == 0 {
				return false, nil
			}
			b := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if b.slot >= 0 {
				loc[b.slot] = b.pos
				continue
			}
			pc, i, ok = b.pc, b.i, true
		}
	}
}

// spans are what groups, by their first slots, are to be.
type spans struct {
	groups   []int
	from, to int
}

func (s *spans) allows(slot, i int) bool {
	if s == nil {
		return true
	}
	for _, g := range s.groups {
		if slot == g && i != s.from || slot == g+1 && i != s.to {
			return false
		}
	}
	return true
}

func (s *spans) passed(loc []int) bool {
	return s == nil || slices.ContainsFunc(s.groups, func(g int) bool { return loc[g] == s.from && loc[g+1] == s.to })
}

func same(want, text []byte, fold bool) bool {
	if len(text) < len(want) {
		return false
	}
	if fold {
		return bytes.EqualFold(want, text[:len(want)])
	}
	return bytes.Equal(want, text[:len(want)])
}

// Also reports whether the expression matches text as well so that one of the
// groups is exactly text[from:to], in any way that re could have preferred.
// groups are the first slots of groups; a way through any of them elsewhere
// does not count.
func (r *Regex) Also(text []byte, groups []int, from, to int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scan(text) < 0 || !r.reaches(text, groups, from, to) {
		return false
	}
	steps := maxSteps
	for at := 0; !r.exact && at <= from; at++ {
		if !bit(r.states[r.at[at]].truth, r.start) {
			continue
		}
		loc := make([]int, r.slots())
		for i := range loc {
			loc[i] = -1
		}
		if ok, err := r.try(text, at, loc, &steps, &spans{groups, from, to}); ok || err != nil {
			return true
		}
	}
	return r.exact
}

// reaches is Also for the superset without backreferences.
func (r *Regex) reaches(text []byte, groups []int, from, to int) bool {
	// The states of a forward run: an instruction, and whether the group was
	// passed. Those that lead to no match are left out.
	n := int32(len(r.insts))
	seen := make([]uint32, 2*n)
	var gen uint32
	var now, next []int32
	var add func(x int32, i int) bool
	add = func(x int32, i int) bool {
		pc, passed := x%n, x/n
		if seen[x] == gen || !bit(r.states[r.at[i]].truth, pc) {
			return false
		}
		seen[x] = gen
		in := &r.insts[pc]
		switch in.op {
		case iSet:
			now = append(now, x)
			return false
		case iSplit:
			return add(in.out+passed*n, i) || add(in.alt+passed*n, i)
		case iMatch:
			return passed == 1
		case iCap:
			for _, g := range groups {
				switch int(in.arg) {
				case g:
					if i != from {
						return false
					}
				case g + 1:
					if i != to {
						return false
					}
					passed = 1
				}
			}
		case iBackref:
			return add(in.alt+passed*n, i)
		}
		return add(in.out+passed*n, i)
	}
	for i := 0; i <= len(text); i++ {
		gen++
		step := next
		now = now[:0]
		for _, x := range step {
			pc, passed := x%n, x/n
			if add(r.insts[pc].out+passed*n, i) {
				return true
			}
		}
		if i <= from && add(r.start, i) {
			return true
		}
		if i > from && len(now) == 0 {
			return false
		}
		next, now = now, next
	}
	return false
}
