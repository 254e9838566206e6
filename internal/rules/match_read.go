package rules

import (
	"bytes"
	"maps"
	"math"
	"reflect"
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

// more are the keys of `match` that no field of Match stands for.
func (*Match) more() []field {
	services := list(textual(tags{what: "the name of a service"}))
	not := &object{what: "services", title: "Conditions", fields: []field{{tags: tags{name: "not", doc: "any except these", what: "a value or a list of them", eg: "[sshd, postfix]"}, kind: services,
		set: func(c *checker, n *yaml.Node, o any) { o.(*Match).Services, _ = readAs[[]string](services, c, n) }}}}
	not.index()
	fs := []field{{tags: tags{name: "service", doc: "service that wrote the line: sshd, postfix, nginx…", eg: "[sshd, dropbear]"},
		kind: kind{shape: &shape{oneOf: append(slices.Clone(services.shape.oneOf), not.shape)}},
		set: func(c *checker, n *yaml.Node, o any) {
			m := o.(*Match)
			if m.Except = c.resolve(n).Kind == yaml.MappingNode; m.Except {
				not.read(c, n, reflect.ValueOf(m).Elem())
				if m.Services == nil {
					c.fail(n, "", "services needs not: any except these")
				}
				return
			}
			m.Services, _ = readAs[[]string](services, c, n)
		}}}
	for _, f := range eventFields() {
		k := testKind(f.typ)
		fs = append(fs, field{tags: tags{name: f.name, doc: f.about, eg: f.eg}, kind: k, set: func(c *checker, n *yaml.Node, o any) {
			if t, ok := readAs[test](k, c, n); ok {
				m := o.(*Match)
				m.Conds = append(m.Conds, Cond{Field: f.name, read: f.read, test: t})
			}
		}})
	}
	return append(fs, condsField("fields", "other fields, by name", "{tenant: acme}", readCaptured),
		condsField("params", "query parameters, by name", "{id: \"7*\"}", readParam))
}

// condsField is a mapping of names that are the reader's own to conditions.
func condsField(name, about, eg string, read func(string) reader) field {
	one := testKind(textField)
	return field{tags: tags{name: name, doc: about, eg: eg}, kind: kind{shape: &shape{kind: "object", what: about, values: one.shape}},
		set: func(c *checker, n *yaml.Node, o any) {
			m := o.(*Match)
			from := len(m.Conds)
			c.pairs(n, about, func(k, v *yaml.Node) {
				if t, ok := readAs[test](one, c, v); ok {
					m.Conds = append(m.Conds, Cond{Field: name + " " + k.Value, read: read(k.Value), test: t})
				}
			})
			slices.SortStableFunc(m.Conds[from:], func(a, b Cond) int { return strings.Compare(a.Field, b.Field) })
		}}
}

// mask reads one or more words, or {not: …}, as bits.
func mask(g tags, words []string) kind {
	some := list(word(g.what, words...))
	bits := read1(some.shape, func(c *checker, n *yaml.Node) (m uint8, ok bool) {
		got, ok := readAs[[]string](some, c, n)
		for _, w := range got {
			if i := slices.Index(words, w); i >= 0 {
				m |= 1 << i
			}
		}
		return m, ok && m != 0
	})
	not := &object{what: g.what, title: "Conditions", fields: []field{{tags: tags{name: "not", doc: "any except these", what: "a value or a list of them", eg: words[0]}, kind: bits, set: func(c *checker, n *yaml.Node, o any) {
		*o.(*uint8), _ = readAs[uint8](bits, c, n)
	}}}}
	not.index()
	s := &shape{what: some.shape.what, oneOf: append(slices.Clone(some.shape.oneOf), not.shape)}
	return read1(s, func(c *checker, n *yaml.Node) (m uint8, ok bool) {
		if c.resolve(n).Kind != yaml.MappingNode {
			return readAs[uint8](bits, c, n)
		}
		not.read(c, n, reflect.ValueOf(&m).Elem())
		return ^m & (1<<len(words) - 1), m != 0
	})
}

// operators say how text is compared. Those that are old are of the first version:
// a glob says the same, open at the front or at the back.
var operators = []struct {
	name, about, eg  string
	op               op
	old, front, back bool
}{
	{name: "is", about: "exactly this text; * and ? have no special meaning", eg: "/wp-login.php", op: opIs},
	{name: "glob", about: "this text; * matches any text and ? any character. A plain value means the same", eg: "/wp-*", op: opGlob},
	{name: "regex", about: "contains a match of this regular expression (RE2)", eg: "'(?i)\\.php$'", op: opRegex},
	{name: "starts", op: opStarts, old: true, back: true},
	{name: "ends", op: opEnds, old: true, front: true},
	{name: "contains", op: opContains, old: true, front: true, back: true},
}

var egNot = [...]string{textField: "[root, admin]", numberField: "404", addrField: "192.0.2.0/24"}

// testKind reads what a field must be: one value, a list of which any will
// do, or a mapping of which all must hold.
func testKind(typ fieldType) kind {
	one := scalarTest(typ)
	some, what := list(one), one.shape.what
	asAny := read1(some.shape, func(c *checker, n *yaml.Node) (test, bool) {
		ts, ok := readAs[[]test](some, c, n)
		if len(ts) == 1 {
			return ts[0], ok
		}
		if len(ts) == 0 && ok {
			c.fail(n, "", "an empty list matches nothing")
		}
		return test{op: opAny, sub: ts}, ok && len(ts) > 0
	})
	o := &object{what: what, title: "Conditions", fields: []field{{tags: tags{name: "not", doc: "any except these", what: "a value or a list of them", eg: egNot[typ]}, kind: asAny, set: func(c *checker, n *yaml.Node, o any) {
		if t, ok := readAs[test](asAny, c, n); ok {
			all := o.(*test)
			all.sub = append(all.sub, test{op: opNot, sub: []test{t}})
		}
	}}}}
	for _, w := range operators {
		if typ == textField {
			o.title = "Conditions on text"
			o.fields = append(o.fields, operator(w.name, w.about, w.eg, w.op, w.old))
		}
	}
	o.index()
	s := &shape{what: what, oneOf: append(slices.Clone(some.shape.oneOf), o.shape)}
	return read1(s, func(c *checker, n *yaml.Node) (test, bool) {
		if c.resolve(n).Kind != yaml.MappingNode {
			return readAs[test](asAny, c, n)
		}
		all := test{op: opAll}
		before := len(c.problems)
		o.read(c, n, reflect.ValueOf(&all).Elem())
		if len(all.sub) == 0 && len(c.problems) == before {
			c.fail(n, "", "expected a condition in the braces")
		}
		return all, len(all.sub) > 0
	})
}

// operator is a key that compares text: with one of several when it has a list.
func operator(name, about, eg string, o op, old bool) field {
	some := list(textTest(o))
	return field{tags: tags{name: name, doc: about, eg: eg, old: old}, kind: some, set: func(c *checker, n *yaml.Node, x any) {
		if ts, ok := readAs[[]test](some, c, n); ok && len(ts) > 0 {
			all := x.(*test)
			all.sub = append(all.sub, test{op: opAny, sub: ts})
		}
	}}
}

// placed warns of operators of the first version. Of several together no single
// glob says the same.
func (t *test) placed(p place) {
	globs := 0
	for _, w := range operators {
		if p.has(w.name) && (w.op == opGlob || w.old) {
			globs++
		}
	}
	for _, w := range operators {
		if n := p.keys[w.name]; n != nil && w.old {
			hint := "one glob or regex for all of it"
			if ts, ok := readAs[[]test](list(textTest(w.op)), &checker{}, n); ok && globs == 1 && !p.has("regex") {
				hint = insteadOf(ts, w.front, w.back)
			}
			p.c.warn(n.Line, n.Column, hint, "%s is deprecated: use glob or regex", w.name)
		}
	}
}

// insteadOf is what to write for an operator of the first version: a glob, or a
// regular expression where the text has characters that a glob takes as its own.
func insteadOf(ts []test, front, back bool) string {
	key, begin, end, any, quote := "glob", "", "", "*", func(s string) string { return s }
	if slices.ContainsFunc(ts, func(t test) bool { return bytes.ContainsAny(t.text, "*?") }) {
		key, begin, end, any, quote = "regex", `\A`, `\z`, "", regexp.QuoteMeta
	}
	if front {
		begin = any
	}
	if back {
		end = any
	}
	var texts []string
	for _, t := range ts {
		texts = append(texts, "'"+strings.ReplaceAll(begin+quote(string(t.text))+end, "'", "''")+"'")
	}
	if len(texts) == 1 {
		return key + ": " + texts[0]
	}
	return key + ": [" + strings.Join(texts, ", ") + "]"
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

func textTest(o op) kind {
	v := textual(tags{what: "text"})
	return read1(v.shape, func(c *checker, n *yaml.Node) (test, bool) {
		s, ok := readAs[string](v, c, n)
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
	})
}

func scalarTest(typ fieldType) kind {
	switch typ {
	case numberField:
		return read1(&shape{kind: "string", what: "a number, 401-403 or 4xx"}, readRange)
	case addrField:
		return read1(&shape{kind: "string", what: "an address or prefix"}, func(c *checker, n *yaml.Node) (test, bool) {
			x, ok := c.prefix(n, "an address or prefix")
			return test{op: opPrefix, prefix: x}, ok
		})
	}
	glob := textTest(opGlob)
	return kind{shape: &shape{kind: "string", what: "text"}, read: glob.read}
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

// weightKind reads `weight`: a number, or weights by kind of event and by the
// value of a field.
func weightKind() kind {
	obj := objectFor[Weight]()
	n := points()
	s := &shape{what: "a weight, or weights by kind and field", oneOf: []*shape{n.shape, obj.shape}}
	return read1(s, func(c *checker, y *yaml.Node) (Weight, bool) {
		if c.resolve(y).Kind == yaml.MappingNode {
			return readAs[Weight](obj.asKind(), c, y)
		}
		b, ok := readAs[int](n, c, y)
		return Weight{Base: b}, ok
	})
}

func points() kind { return integer(tags{what: "a weight", lo: "0", hi: "1000"}) }

// more are the weights by kind of event, and those by the value of a field:
// {root: 2}, with values as in `match`.
func (*Weight) more() []field {
	n := points()
	var fs []field
	for i, k := range kindWords[1:] {
		fs = append(fs, field{tags: tags{name: k, doc: "points of this kind of event", eg: "2"}, kind: n, set: func(c *checker, y *yaml.Node, o any) {
			o.(*Weight).Kinds[parse.Kind(i+1)], _ = readAs[int](n, c, y)
		}})
	}
	for _, f := range eventFields() {
		one := scalarTest(f.typ)
		eg := "{" + strings.Trim(strings.Split(f.eg, ",")[0], "[") + ": 3}"
		s := &shape{kind: "object", what: "weights by value of " + f.name, values: n.shape}
		fs = append(fs, field{tags: tags{name: f.name, doc: "points by value: " + f.about, eg: eg}, kind: kind{shape: s}, set: func(c *checker, y *yaml.Node, o any) {
			w, exact := o.(*Weight), map[string]int{}
			c.pairs(y, s.what, func(k, val *yaml.Node) {
				t, ok := readAs[test](one, c, k)
				x, isNum := readAs[int](n, c, val)
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
		}})
	}
	return fs
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
