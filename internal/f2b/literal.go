package f2b

// requiredText is the longest run of bytes that every match has, nil when none
// is known.
func requiredText(n *node) []byte {
	var best, run []byte
	end := func() {
		if len(run) > len(best) {
			best = append([]byte(nil), run...)
		}
		run = run[:0]
	}
	var visit func(n *node)
	visit = func(n *node) {
		switch n.op {
		case opSet:
			if b, ok := only(n.set); ok {
				run = append(run, b)
				return
			}
			end()
		case opCat, opGroup:
			for _, s := range n.subs {
				visit(s)
			}
		case opRepeat:
			end()
			if n.min > 0 {
				visit(n.subs[0])
				end()
			}
		case opAssert, opLook, opEmpty:
		default:
			end()
		}
	}
	visit(n)
	end()
	if len(best) < 2 {
		return nil
	}
	return best
}

// only is the byte of a set of one.
func only(s *set) (byte, bool) {
	found := -1
	for b := range 256 {
		if s.has(byte(b)) {
			if found >= 0 {
				return 0, false
			}
			found = b
		}
	}
	return byte(max(found, 0)), found >= 0
}

// firstBytes is what a text that matches begins with, nil when any may.
func firstBytes(n *node) *set {
	var s set
	if anchored, done := first(n, false, &s); anchored && done {
		return &s
	}
	return nil
}

// first adds the bytes that n may begin with. anchored: n begins at the begin
// of the text, so far; done: n does not match nothing.
func first(n *node, anchored bool, s *set) (bool, bool) {
	switch n.op {
	case opSet:
		s.or(n.set)
		return anchored, true
	case opAssert:
		return anchored || n.at == atBegin, false
	case opGroup:
		return first(n.subs[0], anchored, s)
	case opCat:
		for _, x := range n.subs {
			var done bool
			if anchored, done = first(x, anchored, s); done {
				return anchored, true
			}
		}
		return anchored, false
	case opAlt:
		all, done := true, true
		for _, x := range n.subs {
			a, d := first(x, anchored, s)
			all, done = all && a, done && d
		}
		return all, done
	case opRepeat:
		a, d := first(n.subs[0], anchored, s)
		if n.min == 0 {
			return anchored, false
		}
		return a, d
	case opLook, opEmpty:
		return anchored, false
	}
	*s = set{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	return anchored, true
}
