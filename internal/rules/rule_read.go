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
		must(key("name", "name in lists and messages", name("the name of a rule"), func(d *draft) *string { return &d.Name })),
		key("about", "description", text("a sentence"), func(d *draft) *string { return &d.About }),
		counted(key("match", "events that the rule counts: all conditions must match", matchValue(), func(d *draft) *Match { return &d.Match })),
		key("weight", "points of an event", weightValue(), func(d *draft) *Weight { return &d.Weight }),
		keyField("key", "what to count by: prefix (default), address, user, service, path, host, method, agent, field NAME, param NAME, all; or several"),
		key("prefix", "prefix lengths of this rule", lensValue("prefix lengths"), func(d *draft) *Lens { return &d.Prefix }),
		key("floor", "no prefix wider than this is ever blocked", lensValue("prefix lengths"), func(d *draft) *Lens { return &d.Floor }),
		key("ttl", "TTL of a first block", duration("ttl", time.Second, maxTTL), func(d *draft) *time.Duration { return &d.ttl }),
		key("multiply", "factor for the TTL of each further block", factor("multiply", 1000), func(d *draft) *float64 { return &d.multiply }),
		key("max", "maximum TTL of a block", duration("max", time.Second, maxTTL), func(d *draft) *time.Duration { return &d.max }),
		key("then", "what to do on a breach, a list (default: block)", answersValue(), func(d *draft) *[]Answer { return &d.then }),
		key("clears", "success: a login removes the points of its own source and account", word("clears", "success"), func(d *draft) *string { return new(string) }),
		key("when", "another capacity for sources that are not known-good, while a flag is raised or after a block of their prefix", list(whenValue()), func(d *draft) *[]When { return &d.When }),
		key("tiers", "capacity by customer", tiersValue(), func(d *draft) **Tiers { return &d.Tiers }),
		key("ports", "ports that its blocks cover (default: all)", list(ports()), func(d *draft) *[]Ports { return &d.Ports }),
		key("mode", "observe: report, but do not block", word("a mode", "observe", "block"), func(d *draft) *string { return &d.mode }),
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
		counted(field[draft]{fieldDoc{name: "pattern", about: "regular expression (RE2) for the message, with (?P<ip>…) and other named groups. It matches anywhere unless it contains ^ or $, and not if different addresses could match. It reads sources that match.source or match.service names, otherwise sources listed without a service", shape: text("a pattern").shape},
			func(c *checker, n *yaml.Node, d *draft) {
				d.pattern.Line, d.pattern.Column = n.Line, n.Column
				d.pattern.Text, _ = text("a pattern").read(c, n)
			}}),
		needsPattern(counted(key("programs", "for pattern: syslog tags of the programs that write these lines (default: all programs without a built-in parser)", list(text("a program name")), func(d *draft) *[]string { return &d.pattern.Programs }))),
		needsPattern(counted(key("outcome", "for pattern: outcome of these lines (default: failure)", word("an outcome", outcomeWords...), func(d *draft) *string { return &d.pattern.Outcome }))),
		needsPattern(counted(key("kind", "for pattern: kind of these lines", word("a kind", kindWords[1:]...), func(d *draft) *string { return &d.pattern.Kind }))),
		needsPattern(linesField("matches", "lines that the pattern must match", func(d *draft) (*[]string, *[]int) { return &d.pattern.Matches, &d.pattern.MatchesAt })),
		needsPattern(linesField("ignores", "lines that the pattern must not match", func(d *draft) (*[]string, *[]int) { return &d.pattern.Ignores, &d.pattern.IgnoresAt })),
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
				c.fail(n, didYouMean(w, keyNames), "cannot count by %q", clip(w))
				return nil, false
			case k.Has(p.By) && p.Name == "":
				c.fail(n, "", "%s is listed twice", clip(w))
				return nil, false
			}
			k = append(k, p)
		}
		if len(k) > 1 && k.Has(ByAll) || len(k) > 4 {
			c.fail(n, "", "all cannot be combined, and a key has at most four parts")
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
	v := object("a condition", []field[When]{
		key("flag", "while this flag is raised", flagName(), func(w *When) *string { return &w.Flag }),
		key("blocked", "this long after the end of a block of the prefix", duration("blocked", time.Second, maxTTL), func(w *When) *time.Duration { return &w.Blocked }),
		must(key("capacity", "capacity for sources that are not known-good", integer("capacity", 0, maxCount), func(w *When) *int { return &w.Capacity })),
	}, nil)
	return value[When]{v.shape, func(c *checker, n *yaml.Node) (When, bool) {
		w, ok := v.read(c, n)
		if ok && (w.Flag == "") == (w.Blocked == 0) {
			c.fail(n, "", "a condition needs one of flag and blocked")
			ok = false
		}
		return w, ok
	}}
}
