package rules

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"stoplog/internal/parse"
)

var (
	outcomeWords = []string{"other", "failure", "success"}
	kindWords    = []string{"plain", "probe", "unknown_user", "limited", "forbidden"}
)

// matchValue reads `match`.
func matchValue() value[Match] {
	return object("conditions", matchFields(), nil)
}

func matchFields() []field[Match] {
	fs := []field[Match]{
		serviceField(),
		key("outcome", "result of the attempt", mask("an outcome", outcomeWords), func(m *Match) *uint8 { return &m.Outcomes }),
		key("kind", "kind of the event", mask("a kind", kindWords), func(m *Match) *uint8 { return &m.Kinds }),
		knownField(),
	}
	for _, f := range eventFields() {
		fs = append(fs, condField(f))
	}
	return append(fs,
		condsField("fields", "other fields, by name", readCaptured),
		condsField("params", "query parameters, by name", readParam))
}

// serviceField reads one service, several, or {not: …}.
func serviceField() field[Match] {
	some := list(text("the name of a service"))
	not := []field[Match]{must(key("not", "any except these", some, func(m *Match) *[]string { return &m.Services }))}
	s := &shape{what: some.shape.what, oneOf: append(slices.Clone(some.shape.oneOf), object("services", not, nil).shape)}
	return field[Match]{fieldDoc{name: "service", about: "service that wrote the line: sshd, postfix, nginx…", shape: s},
		func(c *checker, n *yaml.Node, m *Match) {
			if c.resolve(n).Kind == yaml.MappingNode {
				m.Except = true
				readObject(c, n, "services", not, m)
				return
			}
			m.Services, _ = some.read(c, n)
		}}
}

func knownField() field[Match] {
	v := boolean()
	return field[Match]{fieldDoc{name: "known_good", about: "whether the source is known-good: somebody logged in from it lately", shape: v.shape},
		func(c *checker, n *yaml.Node, m *Match) {
			if b, ok := v.read(c, n); ok {
				m.Known = &b
			}
		}}
}

// mask reads one or more words, or {not: …}, as bits.
func mask(what string, words []string) value[uint8] {
	some := list(word(what, words...))
	s := &shape{what: some.shape.what, oneOf: append(some.shape.oneOf, &shape{kind: "object", fields: []fieldDoc{{name: "not", about: "any except these", shape: some.shape}}})}
	return value[uint8]{s, func(c *checker, n *yaml.Node) (uint8, bool) {
		var not uint8
		if r := c.resolve(n); r.Kind == yaml.MappingNode {
			fs := []field[uint8]{must(key("not", "any except these", bits(some, words), func(m *uint8) *uint8 { return m }))}
			readObject(c, n, what, fs, &not)
			return ^not & (1<<len(words) - 1), not != 0
		}
		return bits(some, words).read(c, n)
	}}
}

func bits(some value[[]string], words []string) value[uint8] {
	return value[uint8]{some.shape, func(c *checker, n *yaml.Node) (m uint8, ok bool) {
		got, ok := some.read(c, n)
		for _, g := range got {
			for i, w := range words {
				if g == w {
					m |= 1 << i
				}
			}
		}
		return m, ok && m != 0
	}}
}

// condField is one named field of an event as a key of `match`.
func condField(f eventField) field[Match] {
	v := testValue(f.typ, f.about)
	return field[Match]{fieldDoc{name: f.name, about: f.about, shape: v.shape}, func(c *checker, n *yaml.Node, m *Match) {
		if t, ok := v.read(c, n); ok {
			m.Conds = append(m.Conds, Cond{Field: f.name, read: f.read, test: t})
		}
	}}
}

// condsField is a mapping of names that are the reader's own to conditions.
func condsField(name, about string, read func(string) reader) field[Match] {
	v := tableOf(about, testValue(textField, "text"), nil)
	return field[Match]{fieldDoc{name: name, about: about, shape: v.shape}, func(c *checker, n *yaml.Node, m *Match) {
		ts, ok := v.read(c, n)
		for _, k := range sortedKeys(ts) {
			if ok {
				m.Conds = append(m.Conds, Cond{Field: name + " " + k, read: read(k), test: ts[k]})
			}
		}
	}}
}

// testValue reads what a field must be: one value, a list of which any will
// do, or a mapping of which all must hold.
func testValue(typ fieldType, what string) value[test] {
	one := scalarTest(typ, what)
	some := list(one)
	asAny := value[test]{some.shape, func(c *checker, n *yaml.Node) (test, bool) {
		ts, ok := some.read(c, n)
		if len(ts) == 1 {
			return ts[0], ok
		}
		if len(ts) == 0 && ok {
			c.fail(n, "", "an empty list matches nothing")
		}
		return test{op: opAny, sub: ts}, ok && len(ts) > 0
	}}
	fields := testFields(typ, asAny)
	s := &shape{what: what, oneOf: append(append([]*shape{}, some.shape.oneOf...), object(what, fields, nil).shape)}
	return value[test]{s, func(c *checker, n *yaml.Node) (test, bool) {
		if c.resolve(n).Kind != yaml.MappingNode {
			return asAny.read(c, n)
		}
		all := test{op: opAll}
		before := len(c.problems)
		readObject(c, n, what, fields, &all)
		if len(all.sub) == 0 && len(c.problems) == before {
			c.fail(n, "", "expected a condition in the braces")
		}
		return all, len(all.sub) > 0
	}}
}

// testFields are the words that say how to compare.
func testFields(typ fieldType, plain value[test]) []field[test] {
	fs := []field[test]{sub("not", "anything except this", plain, func(t test) test { return test{op: opNot, sub: []test{t}} })}
	if typ != textField {
		return fs
	}
	for _, w := range []struct {
		name, about string
		op          op
	}{
		{"is", "exactly this text; * and ? have no special meaning", opIs},
		{"glob", "this text; * matches any text and ? any character", opGlob},
		{"starts", "starts with this text", opStarts},
		{"ends", "ends with this text", opEnds},
		{"contains", "contains this text", opContains},
		{"regex", "contains a match of this regular expression (RE2)", opRegex},
	} {
		same := func(t test) test { return t }
		fs = append(fs, sub(w.name, w.about, anyOf(textTest(w.op)), same))
	}
	return fs
}

func anyOf(v value[test]) value[test] {
	some := list(v)
	return value[test]{some.shape, func(c *checker, n *yaml.Node) (test, bool) {
		ts, ok := some.read(c, n)
		return test{op: opAny, sub: ts}, ok && len(ts) > 0
	}}
}

// sub is a field that adds what it reads to a test of which all must hold.
func sub(name, about string, v value[test], wrap func(test) test) field[test] {
	return field[test]{fieldDoc{name: name, about: about, shape: v.shape}, func(c *checker, n *yaml.Node, all *test) {
		if t, ok := v.read(c, n); ok {
			all.sub = append(all.sub, wrap(t))
		}
	}}
}

// globTest is the cheapest test that does what the glob says.
func globTest(s string) test {
	inner := strings.Trim(s, "*")
	first, last := strings.HasPrefix(s, "*"), strings.HasSuffix(s, "*")
	switch {
	case strings.ContainsAny(inner, "*?") || inner == "" && s != "":
		return test{op: opGlob, text: []byte(s)}
	case first && last:
		return test{op: opContains, text: []byte(inner)}
	case first:
		return test{op: opEnds, text: []byte(inner)}
	case last:
		return test{op: opStarts, text: []byte(inner)}
	}
	return test{op: opIs, text: []byte(s)}
}

func textTest(o op) value[test] {
	v := text("text")
	return value[test]{v.shape, func(c *checker, n *yaml.Node) (test, bool) {
		s, ok := v.read(c, n)
		t := test{op: o, text: []byte(s)}
		if o == opGlob {
			t = globTest(s)
		}
		if ok && o == opRegex {
			re, err := regexp.Compile(s)
			if err != nil {
				c.fail(n, "RE2 has no look-around and no back-references", "invalid regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
				return t, false
			}
			t.re = re
		}
		return t, ok
	}}
}

func scalarTest(typ fieldType, what string) value[test] {
	switch typ {
	case numberField:
		return value[test]{&shape{kind: "string", what: "a number, 401-403 or 4xx"}, readRange}
	case addrField:
		p := prefix("an address or prefix")
		return value[test]{p.shape, func(c *checker, n *yaml.Node) (test, bool) {
			x, ok := p.read(c, n)
			return test{op: opPrefix, prefix: x}, ok
		}}
	}
	v := text("text")
	return value[test]{&shape{kind: "string", what: what}, func(c *checker, n *yaml.Node) (test, bool) {
		s, ok := v.read(c, n)
		return globTest(s), ok
	}}
}

// readRange reads 401, 401-403, 4xx, >=500, <400.
func readRange(c *checker, n *yaml.Node) (test, bool) {
	s, ok := c.scalar(n, "a number or a range")
	if !ok {
		return test{}, false
	}
	lo, hi, ok := parseRange(s)
	if !ok {
		c.fail(n, "401, 401-403, 4xx or >=500", "expected a number or a range, not %q", clip(s))
	} else if lo > hi {
		c.fail(n, "", "the range %s is empty", clip(s))
		ok = false
	}
	return test{op: opRange, lo: lo, hi: hi}, ok
}

func parseRange(s string) (lo, hi int64, ok bool) {
	num := func(t string) int64 {
		v, err := strconv.ParseInt(strings.TrimSpace(t), 10, 32)
		ok = ok && err == nil && v >= 0
		return v
	}
	ok = true
	switch {
	case len(s) == 3 && s[1:] == "xx":
		d := num(s[:1])
		return d * 100, d*100 + 99, ok
	case strings.HasPrefix(s, ">="):
		return num(s[2:]), math.MaxInt64, ok
	case strings.HasPrefix(s, ">"):
		return num(s[1:]) + 1, math.MaxInt64, ok
	case strings.HasPrefix(s, "<="):
		return 0, num(s[2:]), ok
	case strings.HasPrefix(s, "<"):
		return 0, num(s[1:]) - 1, ok
	}
	if a, b, found := strings.Cut(s, "-"); found {
		return num(a), num(b), ok
	}
	v := num(s)
	return v, v, ok
}

// weightValue reads `weight`: a number, or weights by kind of event and by
// the value of a field.
func weightValue() value[Weight] {
	n := integer("a weight", 0, 1000)
	fields := weightFields(n)
	obj := object("weights", fields, func() Weight { return Weight{Base: 1} })
	s := &shape{what: "a weight, or weights by kind and field", oneOf: []*shape{n.shape, obj.shape}}
	return value[Weight]{s, func(c *checker, y *yaml.Node) (Weight, bool) {
		if c.resolve(y).Kind == yaml.MappingNode {
			return obj.read(c, y)
		}
		b, ok := n.read(c, y)
		return Weight{Base: b}, ok
	}}
}

func weightFields(n value[int]) []field[Weight] {
	fs := []field[Weight]{key("base", "if no other weight applies", n, func(w *Weight) *int { return &w.Base })}
	for i, k := range kindWords {
		if k != "plain" {
			fs = append(fs, key(k, "points of this kind of event", n, func(w *Weight) *int { return &w.Kinds[parse.Kind(i)] }))
		}
	}
	for _, f := range eventFields() {
		fs = append(fs, weighField(f, n))
	}
	return fs
}

// weighField is weights by the value of one field: {root: 2}. Its keys are
// read as `match` reads values.
func weighField(f eventField, n value[int]) field[Weight] {
	v := tableOf("weights by value of "+f.name, n, nil)
	one := scalarTest(f.typ, f.about)
	return field[Weight]{fieldDoc{name: f.name, about: "points by value: " + f.about, shape: v.shape}, func(c *checker, y *yaml.Node, w *Weight) {
		exact := map[string]int{}
		c.pairs(y, v.shape.what, func(k, val *yaml.Node) {
			t, ok := one.read(c, k)
			x, isNum := n.read(c, val)
			switch {
			case !ok || !isNum:
			case t.op == opIs:
				exact[string(t.text)] = x
			default:
				w.conds = append(w.conds, weighing{Cond{Field: f.name, read: f.read, test: t}, x})
			}
		})
		if len(exact) > 0 {
			w.exact = append(w.exact, newLookup(f.read, exact))
		}
	}}
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
