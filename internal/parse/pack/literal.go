package pack

import "regexp/syntax"

// required returns texts of which at least one occurs in everything that re
// matches, nil when no such text of minLiteral bytes is known. Longer is
// better: it prefers the set whose shortest member is longest.
func required(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re)
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

func literal(re *syntax.Regexp) []string {
	s := string(re.Rune)
	if re.Flags&syntax.FoldCase != 0 || len(s) < minLiteral {
		return nil
	}
	return []string{s}
}

// eachOf unites what each alternative requires; one that requires nothing
// spoils them all.
func eachOf(subs []*syntax.Regexp) []string {
	var all []string
	for _, s := range subs {
		r := required(s)
		if r == nil || len(all)+len(r) > 16 {
			return nil
		}
		all = append(all, r...)
	}
	return all
}

func bestOf(subs []*syntax.Regexp) []string {
	var best []string
	for _, s := range subs {
		if r := required(s); better(r, best) {
			best = r
		}
	}
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
