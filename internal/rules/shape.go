package rules

import "gopkg.in/yaml.v3"

// shape describes what a value may look like. It is what the JSON Schema and
// the reference are made from.
type shape struct {
	kind    string   // string, integer, number, boolean, array, object, any
	what    string   // in words: "a duration"
	pattern string   // of a string
	words   []string // of a string: the only ones
	min     int64
	max     int64
	items   *shape     // of an array
	fields  []fieldDoc // of an object
	values  *shape     // of an object whose keys are the reader's own
	oneOf   []*shape
}

type fieldDoc struct {
	name, about string
	shape       *shape
	required    bool
}

// value is how a YAML node becomes a T. read reports false after it has noted
// why it could not.
type value[T any] struct {
	shape *shape
	read  func(c *checker, n *yaml.Node) (T, bool)
}

// field is one key of an object that fills an O.
type field[O any] struct {
	fieldDoc
	set func(c *checker, n *yaml.Node, o *O)
}

// key makes a field that reads v into what ref points at.
func key[O, T any](name, about string, v value[T], ref func(*O) *T) field[O] {
	return field[O]{fieldDoc{name: name, about: about, shape: v.shape}, func(c *checker, n *yaml.Node, o *O) {
		if x, ok := v.read(c, n); ok {
			*ref(o) = x
		}
	}}
}

// must makes a field required.
func must[O any](f field[O]) field[O] {
	f.required = true
	return f
}

// readObject fills o from a mapping by its fields.
func readObject[O any](c *checker, n *yaml.Node, what string, fields []field[O], o *O) {
	byName := make(map[string]field[O], len(fields))
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		byName[f.name] = f
		names = append(names, f.name)
	}
	seen := map[string]bool{}
	isMap := true
	c.pairs(n, what, func(k, v *yaml.Node) {
		f, ok := byName[k.Value]
		if !ok {
			c.unknown(k, names, homeOf(k.Value, fields))
			seen[nearest(k.Value, names)] = true
			return
		}
		seen[k.Value] = true
		f.set(c, v, o)
	})
	if r := c.resolve(n); r == nil || r.Kind != yaml.MappingNode {
		isMap = false
	}
	for _, f := range fields {
		if isMap && f.required && !seen[f.name] {
			c.fail(n, "", "%s needs %s: %s", what, f.name, f.about)
		}
	}
}

func (c *checker) resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// unknown notes a key that nobody knows, with the nearest that is known, or
// the key within home that it seems to be.
func (c *checker) unknown(k *yaml.Node, words []string, home string) {
	hint := didYouMean(k.Value, words)
	if home != "" {
		hint = "it belongs in " + home
	}
	c.fail(k, hint, "unknown key %q", clip(k.Value))
}

// homeOf finds the field that is an object with a key of that name; of a name
// that is misspelt and like none of the fields', the nearest.
func homeOf[O any](name string, fields []field[O]) string {
	var own, inner []string
	homes := map[string]string{}
	for _, f := range fields {
		own = append(own, f.name)
		if f.shape.kind != "object" {
			continue
		}
		for _, in := range f.shape.fields {
			if homes[in.name] == "" {
				homes[in.name] = f.name + ": {" + in.name + ": …}"
				inner = append(inner, in.name)
			}
		}
	}
	if home := homes[name]; home != "" {
		return home
	}
	if nearest(name, own) != "" {
		return ""
	}
	return homes[nearest(name, inner)]
}

func didYouMean(got string, words []string) string {
	if w := nearest(got, words); w != "" {
		return "did you mean " + w + "?"
	}
	return "known: " + join(words)
}

func join(words []string) string {
	out := ""
	for i, w := range words {
		if i > 0 {
			out += ", "
		}
		if len(out) > 200 {
			return out + "…"
		}
		out += w
	}
	return out
}

// object is a value made of fields; start gives the O before any is set.
func object[O any](what string, fields []field[O], start func() O) value[O] {
	s := &shape{kind: "object", what: what}
	for _, f := range fields {
		s.fields = append(s.fields, f.fieldDoc)
	}
	return value[O]{s, func(c *checker, n *yaml.Node) (O, bool) {
		var o O
		if start != nil {
			o = start()
		}
		before := len(c.problems)
		readObject(c, n, what, fields, &o)
		return o, !failed(c.problems[min(before, len(c.problems)):])
	}}
}

// list is a value of several; one alone needs no brackets.
func list[T any](v value[T]) value[[]T] {
	s := &shape{oneOf: []*shape{v.shape, {kind: "array", items: v.shape}}, what: "a list, each item " + v.shape.what}
	return value[[]T]{s, func(c *checker, n *yaml.Node) ([]T, bool) {
		r := c.enter(n)
		if r == nil {
			return nil, false
		}
		if r.Kind != yaml.SequenceNode {
			x, ok := v.read(c, r)
			return []T{x}, ok
		}
		out, all := make([]T, 0, len(r.Content)), true
		for _, e := range r.Content {
			x, ok := v.read(c, e)
			out, all = append(out, x), all && ok
		}
		return out, all
	}}
}

// tableOf is a mapping whose keys are the reader's own words.
func tableOf[T any](what string, v value[T], checkKey func(c *checker, k *yaml.Node) bool) value[map[string]T] {
	s := &shape{kind: "object", what: what, values: v.shape}
	return value[map[string]T]{s, func(c *checker, n *yaml.Node) (map[string]T, bool) {
		out, all := map[string]T{}, true
		before := len(c.problems)
		c.pairs(n, what, func(k, e *yaml.Node) {
			if checkKey != nil && !checkKey(c, k) {
				all = false
				return
			}
			x, ok := v.read(c, e)
			out[k.Value], all = x, all && ok
		})
		return out, all && len(c.problems) == before
	}}
}
