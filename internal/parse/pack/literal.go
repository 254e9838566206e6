package pack

import "regexp/syntax"

// maxExact bounds the texts that one part of an expression is spelled out to.
const maxExact = 16

// required returns texts of which at least one occurs in everything that re
// matches, nil when no such text of minLiteral bytes is known. It prefers the
// set whose shortest member is longest.
func required(re *syntax.Regexp) []string {
	if all, ok := exact(re); ok {
		return usable(all)
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpAlternate:
		return eachOf(re.Sub)
	case syntax.OpConcat:
		return bestOf(re.Sub)
	}
	return nil
}

// usable returns the set if every member is long enough to look for.
func usable(set []string) []string {
	for _, s := range set {
		if len(s) < minLiteral {
			return nil
		}
	}
	return set
}

// exact returns everything that re matches, if that is few.
func exact(re *syntax.Regexp) (all []string, ok bool) {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return []string{""}, true
	case syntax.OpLiteral:
		return []string{string(re.Rune)}, re.Flags&syntax.FoldCase == 0
	case syntax.OpCharClass:
		return members(re.Rune)
	case syntax.OpCapture:
		return exact(re.Sub[0])
	case syntax.OpQuest:
		all, ok = exact(re.Sub[0])
		return append(all, ""), ok && len(all) < maxExact
	case syntax.OpAlternate:
		return union(re.Sub)
	case syntax.OpConcat:
		return product(re.Sub)
	}
	return nil, false
}

// members spells out a class of a few characters.
func members(ranges []rune) (all []string, ok bool) {
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			if len(all) == 4 {
				return nil, false
			}
			all = append(all, string(r))
		}
	}
	return all, true
}

func union(subs []*syntax.Regexp) (all []string, ok bool) {
	for _, s := range subs {
		one, ok := exact(s)
		if !ok || len(all)+len(one) > maxExact {
			return nil, false
		}
		all = append(all, one...)
	}
	return all, true
}

func product(subs []*syntax.Regexp) (all []string, ok bool) {
	all = []string{""}
	for _, s := range subs {
		one, ok := exact(s)
		if !ok {
			return nil, false
		}
		if all = cross(all, one); all == nil {
			return nil, false
		}
	}
	return all, true
}

// cross joins every a with every b, nil when that makes too many.
func cross(a, b []string) []string {
	if len(a)*len(b) > maxExact {
		return nil
	}
	all := make([]string, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			all = append(all, x+y)
		}
	}
	return all
}

// eachOf unites what each alternative requires; one that requires nothing
// spoils them all.
func eachOf(subs []*syntax.Regexp) []string {
	var all []string
	for _, s := range subs {
		r := required(s)
		if r == nil || len(all)+len(r) > maxExact {
			return nil
		}
		all = append(all, r...)
	}
	return all
}

// bestOf looks at the runs of parts of a sequence that can be spelled out, and
// at each other part by itself.
func bestOf(subs []*syntax.Regexp) []string {
	var best, run []string
	keep := func(set []string) {
		if set = usable(set); better(set, best) {
			best = set
		}
	}
	for _, s := range subs {
		one, ok := exact(s)
		if !ok {
			keep(run)
			run = nil
			keep(required(s))
			continue
		}
		next := one
		if run != nil {
			next = cross(run, one)
		}
		if next == nil || run != nil && better(usable(run), usable(next)) {
			keep(run)
			next = one
		}
		run = next
	}
	keep(run)
	return best
}

func better(a, b []string) bool {
	if a == nil || b == nil {
		return a != nil
	}
	if x, y := worth(a), worth(b); x != y {
		return x > y
	}
	return len(a) < len(b)
}

// worth is the length of the shortest, where more than 12 bytes say no more.
func worth(lits []string) int {
	n := 12
	for _, l := range lits {
		n = min(n, len(l))
	}
	return n
}
