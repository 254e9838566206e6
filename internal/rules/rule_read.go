package rules

import (
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// draft is a rule as it is written, before its parts are put together.
type draft struct {
	Rule
	node     *yaml.Node
	levels   []Level
	ttl, max time.Duration
	multiply float64
	then     []Answer
	mode     string
	pattern  Pattern
	key      Key
	keyed    bool
	said     map[string]*yaml.Node // what countedBy asks for
	plain    []string              // keys written that need a pattern
}

const (
	minLeak  = time.Microsecond
	maxLeak  = 365 * day
	maxTTL   = 366 * day
	maxDrain = 700 * day // of a full bucket
	maxCount = 1_000_000
)

func ruleValue() value[*draft] {
	v := object("a rule", ruleFields(), func() draft { return draft{Rule: Rule{Weight: Weight{Base: 1}}} })
	return value[*draft]{v.shape, func(c *checker, n *yaml.Node) (*draft, bool) {
		d, ok := v.read(c, n)
		d.node, d.Line, d.File = n, n.Line, c.file
		return &d, ok
	}}
}

func ruleFields() []field[draft] {
	fs := []field[draft]{
		must(key("name", "what it is called in every list and message", name("a rule's name"), func(d *draft) *string { return &d.Name })),
		key("about", "what it is for, for people", text("a sentence"), func(d *draft) *string { return &d.About }),
		counted(key("match", "which events it looks at: all of these must hold", matchValue(), func(d *draft) *Match { return &d.Match })),
		key("weight", "how many events one event counts for", weightValue(), func(d *draft) *Weight { return &d.Weight }),
		keyField("key", "what is counted by: prefix (default), address, user, service, path, host, method, agent, field NAME, param NAME, all; or several"),
		key("prefix", "lengths of its prefixes", lensValue("prefix lengths"), func(d *draft) *Lens { return &d.Prefix }),
		key("floor", "no prefix wider than this is ever blocked", lensValue("prefix lengths"), func(d *draft) *Lens { return &d.Floor }),
		key("ttl", "how long its blocks hold at first", duration("ttl", time.Second, maxTTL), func(d *draft) *time.Duration { return &d.ttl }),
		key("multiply", "by what each repeat multiplies the ttl", factor("multiply", 1000), func(d *draft) *float64 { return &d.multiply }),
		key("max", "the longest its blocks may hold", duration("max", time.Second, maxTTL), func(d *draft) *time.Duration { return &d.max }),
		key("then", "what happens on a breach, a list; block when left out", answersValue(), func(d *draft) *[]Answer { return &d.then }),
		key("clears", "success: a login empties what its own source and account poured", word("clears", "success"), func(d *draft) *string { return new(string) }),
		key("when", "room of strangers while a flag is raised", list(whenValue()), func(d *draft) *[]When { return &d.When }),
		key("tiers", "room by customer", tiersValue(), func(d *draft) **Tiers { return &d.Tiers }),
		key("ports", "what its blocks close; all when left out", list(ports()), func(d *draft) *[]Ports { return &d.Ports }),
		key("mode", "observe: tells, does not block", word("a mode", "observe", "block"), func(d *draft) *string { return &d.mode }),
	}
	for i := range fs {
		if fs[i].name == "clears" {
			set := fs[i].set
			fs[i].set = func(c *checker, n *yaml.Node, d *draft) { set(c, n, d); d.Clears = true }
		}
	}
	return append(append(fs, levelFields()...), patternFields()...)
}

func patternFields() []field[draft] {
	return []field[draft]{
		counted(field[draft]{fieldDoc{name: "pattern", about: "an expression (RE2) on the message, with (?P<ip>…) and other named groups", shape: text("a pattern").shape},
			func(c *checker, n *yaml.Node, d *draft) {
				d.pattern.Line, d.pattern.Column = n.Line, n.Column
				d.pattern.Text, _ = text("a pattern").read(c, n)
			}}),
		needsPattern(counted(key("programs", "of the pattern: who writes such lines; anybody when left out", list(text("a program's name")), func(d *draft) *[]string { return &d.pattern.Programs }))),
		needsPattern(counted(key("outcome", "of the pattern's lines; failure when left out", word("an outcome", outcomeWords...), func(d *draft) *string { return &d.pattern.Outcome }))),
		needsPattern(counted(key("kind", "of the pattern's lines", word("a kind", kindWords[1:]...), func(d *draft) *string { return &d.pattern.Kind }))),
		needsPattern(linesField("matches", "lines that the pattern must match", func(d *draft) (*[]string, *[]int) { return &d.pattern.Matches, &d.pattern.MatchesAt })),
		needsPattern(linesField("ignores", "lines that it must not match", func(d *draft) (*[]string, *[]int) { return &d.pattern.Ignores, &d.pattern.IgnoresAt })),
	}
}

func needsPattern(f field[draft]) field[draft] {
	set := f.set
	f.set = func(c *checker, n *yaml.Node, d *draft) {
		d.plain = append(d.plain, f.name)
		set(c, n, d)
	}
	return f
}

// linesField reads test lines and remembers where each stands.
func linesField(name, about string, ref func(*draft) (*[]string, *[]int)) field[draft] {
	v := list(text("a log line"))
	return field[draft]{fieldDoc{name: name, about: about, shape: v.shape}, func(c *checker, n *yaml.Node, d *draft) {
		lines, at := ref(d)
		*lines, _ = v.read(c, n)
		if r := c.resolve(n); r.Kind == yaml.SequenceNode {
			for _, e := range r.Content {
				*at = append(*at, e.Line)
			}
			return
		}
		*at = []int{n.Line}
	}}
}

var keyParts = map[string]KeyPart{
	"all": ByAll, "prefix": ByPrefix, "address": ByAddr, "user": ByUser, "service": ByService,
	"path": ByPath, "host": ByHost, "method": ByMethod, "agent": ByAgent,
}

var keyNames = []string{"prefix", "address", "user", "service", "path", "host", "method", "agent", "all", "field NAME", "param NAME"}

// keyValue reads prefix, [user, prefix], "field customer", "param id".
func keyValue() value[Key] {
	v := list(text("what to count by"))
	return value[Key]{v.shape, func(c *checker, n *yaml.Node) (Key, bool) {
		words, ok := v.read(c, n)
		var k Key
		for _, w := range words {
			p, known := readPart(w)
			switch {
			case !known && w != "":
				c.fail(n, didYouMean(w, keyNames), "nothing counts by %q", clip(w))
				return nil, false
			case k.Has(p.By) && p.Name == "":
				c.fail(n, "", "%s is named twice", clip(w))
				return nil, false
			}
			k = append(k, p)
		}
		if len(k) > 1 && k.Has(ByAll) || len(k) > 4 {
			c.fail(n, "", "all stands alone, and at most four parts together")
			return nil, false
		}
		return k, ok && len(k) > 0
	}}
}

func readPart(w string) (Part, bool) {
	kind, arg, named := strings.Cut(w, " ")
	if named && nameRE.MatchString(arg) {
		switch kind {
		case "field":
			return Part{ByField, arg}, true
		case "param":
			return Part{ByParam, arg}, true
		}
	}
	by, ok := keyParts[w]
	return Part{By: by}, ok
}

func keyField(name, about string) field[draft] {
	v := keyValue()
	return field[draft]{fieldDoc{name: name, about: about, shape: v.shape}, func(c *checker, n *yaml.Node, d *draft) {
		d.key, d.keyed = v.read(c, n)
	}}
}

func lensValue(what string) value[Lens] {
	return object(what, []field[Lens]{
		key("ipv4", "8 to 32", integer("an IPv4 prefix length", 8, 32), func(l *Lens) *int { return &l.V4 }),
		key("ipv6", "16 to 128", integer("an IPv6 prefix length", 16, 128), func(l *Lens) *int { return &l.V6 }),
	}, nil)
}

func whenValue() value[When] {
	return object("a condition", []field[When]{
		must(key("flag", "while this flag is raised", flagName(), func(w *When) *string { return &w.Flag })),
		must(key("capacity", "strangers have this room", integer("capacity", 0, maxCount), func(w *When) *int { return &w.Capacity })),
	}, nil)
}
