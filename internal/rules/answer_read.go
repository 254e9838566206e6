package rules

import (
	"time"

	"gopkg.in/yaml.v3"
)

// thenEntry is one element of `then` as it is written.
type thenEntry struct {
	block, flag, notify string
	each                int
	span                time.Duration
	ports               []Ports
	cut                 bool
	lockdown            *lockdownEntry
	exec                []string
}

type lockdownEntry struct {
	ports []Ports
	span  time.Duration
}

// answersValue reads a list of answers. Where one of them is a mistake, the whole
// is one that asks nothing of the rule: it is not as if then had been left out.
func answersValue() value[[]Answer] {
	v := list(answerValue())
	return value[[]Answer]{v.shape, func(c *checker, n *yaml.Node) ([]Answer, bool) {
		if as, ok := v.read(c, n); ok {
			return as, true
		}
		return []Answer{{Kind: Observe}}, true
	}}
}

// answerValue reads `block`, `observe`, {flag: x, for: 1h}, {block: reject},
// {lockdown: {ports: [22], for: 5m}}, {notify: ops}, {exec: [program, …]}.
func answerValue() value[Answer] {
	plain := word("an answer", "block", "observe")
	obj := object("an answer", thenFields(), nil)
	s := &shape{what: "an answer", oneOf: []*shape{plain.shape, obj.shape}}
	return value[Answer]{s, func(c *checker, n *yaml.Node) (Answer, bool) {
		if c.resolve(n).Kind != yaml.MappingNode {
			w, ok := plain.read(c, n)
			if w == "observe" {
				return Answer{Kind: Observe}, ok
			}
			return Answer{Kind: Block}, ok
		}
		t, ok := obj.read(c, n)
		if !ok {
			return Answer{}, false
		}
		return c.answer(n, t)
	}}
}

func thenFields() []field[thenEntry] {
	span := duration("a time", time.Second, 30*day)
	down := object("lockdown", []field[lockdownEntry]{
		key("ports", "ports to close (default: all)", list(ports()), func(l *lockdownEntry) *[]Ports { return &l.ports }),
		must(key("for", "how long it lasts", duration("a time", time.Second, day), func(l *lockdownEntry) *time.Duration { return &l.span })),
	}, nil)
	return []field[thenEntry]{
		key("block", "block the prefix with drop, reject or slow; or block the contributors", word("a way to block", "drop", "reject", "slow", "contributors"), func(t *thenEntry) *string { return &t.block }),
		key("each", "for contributors: only those with at least this many attempts", integer("each", 1, 1000), func(t *thenEntry) *int { return &t.each }),
		key("ports", "ports that the block covers (default: all)", list(ports()), func(t *thenEntry) *[]Ports { return &t.ports }),
		key("cut", "also cut established connections", boolean(), func(t *thenEntry) *bool { return &t.cut }),
		key("flag", "raise this flag", flagName(), func(t *thenEntry) *string { return &t.flag }),
		key("for", "how long the flag stays raised", span, func(t *thenEntry) *time.Duration { return &t.span }),
		key("notify", "send a message to this target of `notify`", name("the name of a target"), func(t *thenEntry) *string { return &t.notify }),
		key("exec", "run this program with these arguments, without a shell. Its environment has STOPLOG_RULE, _KEY, _PREFIX, _ADDR, _SERVICE, _USER, _COUNT (failures), _POINTS (their weight), _TTL, _TIME and _SOURCE. It is killed after 30s", argv(), func(t *thenEntry) *[]string { return &t.exec }),
		key("lockdown", "refuse new connections from all sources that are not allowed or known-good", value[*lockdownEntry]{down.shape, func(c *checker, n *yaml.Node) (*lockdownEntry, bool) {
			l, ok := down.read(c, n)
			return &l, ok
		}}, func(t *thenEntry) **lockdownEntry { return &t.lockdown }),
	}
}

// argv is a program with its arguments; the program's path is absolute, for
// there is no shell and no PATH to trust.
func argv() value[[]string] {
	v := list(text("an argument"))
	return value[[]string]{v.shape, func(c *checker, n *yaml.Node) ([]string, bool) {
		out, ok := v.read(c, n)
		if ok && (len(out) == 0 || out[0][0] != '/') {
			c.fail(n, "[/usr/local/bin/notify-ops, --now]", "expected the absolute path of a program first")
			return nil, false
		}
		return out, ok
	}}
}

// answer checks that exactly one thing is asked for, with what belongs to it.
func (c *checker) answer(n *yaml.Node, t thenEntry) (Answer, bool) {
	var as []Answer
	if t.block == "contributors" {
		as = append(as, Answer{Kind: BlockContributors, Each: max(t.each, 1), Ports: t.ports, Cut: t.cut})
	} else if t.block != "" {
		as = append(as, Answer{Kind: Block, Action: t.block, Ports: t.ports, Cut: t.cut})
	}
	if t.flag != "" {
		as = append(as, Answer{Kind: RaiseFlag, Flag: t.flag, For: t.span})
	}
	if t.notify != "" {
		as = append(as, Answer{Kind: Tell, Target: t.notify})
	}
	if t.exec != nil {
		as = append(as, Answer{Kind: Exec, Argv: t.exec})
	}
	if t.lockdown != nil {
		as = append(as, Answer{Kind: Lockdown, Ports: t.lockdown.ports, For: t.lockdown.span})
	}
	if len(as) != 1 {
		c.fail(n, "", "expected one of block, flag, lockdown, notify and exec in each element of then")
		return Answer{}, false
	}
	return as[0], c.answerExtras(n, t)
}

func (c *checker) answerExtras(n *yaml.Node, t thenEntry) bool {
	switch {
	case t.flag != "" && t.span == 0:
		c.fail(n, "{flag: "+t.flag+", for: 1h}", "a flag needs for: how long it stays raised")
	case t.flag == "" && t.span != 0:
		c.fail(n, "", "for belongs to flag; a block lasts as long as the rule's ttl")
	case t.each != 0 && t.block != "contributors":
		c.fail(n, "", "each belongs to block: contributors")
	case t.block == "" && (t.cut || t.ports != nil):
		c.fail(n, "", "cut and ports belong to block")
	default:
		return true
	}
	return false
}
