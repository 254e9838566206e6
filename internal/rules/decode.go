package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// tags are what the tags of a struct's field say about a key. They are the only
// place where a key is described: reading, defaults, the JSON Schema, the
// reference and the hints for misspelt keys all come from them.
//
//	key      the name, then ",required" if it must be there; "*" takes all other keys
//	doc      what it does
//	default  the value without the key, as YAML
//	eg       an example of a value, as YAML
//	what     the value in words, for messages: "a file"
//	is       how text is read if the Go type does not say: path, name, url…
//	words    the only values of a text
//	range    bounds of a number, duration or size: "1..600"
//	keys     of a map: how its keys are read
//	omit     of an object: keys of its type that it does not have
//
//	in       what the object is: "a bucket"; on one of its fields
//
// The key ",inline" takes the keys of a struct as the object's own.
type tags struct {
	name, doc, def, eg, what, is, keys string
	words, omit                        []string
	lo, hi                             string
	required                           bool
	old                                bool // deprecated: read, but not documented
}

func tagsOf(f reflect.StructField) tags {
	get := f.Tag.Get
	g := tags{doc: get("doc"), def: get("default"), eg: get("eg"), what: get("what"), is: get("is"), keys: get("keys"),
		words: strings.Fields(get("words")), omit: strings.Fields(get("omit"))}
	g.name, _, g.required = strings.Cut(get("key"), ",") // after the comma: required, or inline
	g.lo, g.hi, _ = strings.Cut(get("range"), "..")
	return g
}

// noun is the value in words, otherwise the key's own name.
func (g tags) noun() string {
	if g.what != "" {
		return g.what
	}
	return g.name
}

// shape is what a value may look like: what the JSON Schema and the reference
// are made of.
type shape struct {
	kind    string   // string, integer, number, boolean, array, object
	what    string   // in words: "a duration"
	title   string   // of an object's section in the reference (default: its place)
	pattern string   // of a string
	words   []string // of a string: the only ones
	min     int64
	max     int64
	items   *shape  // of an array
	fields  []field // of an object
	values  *shape  // of an object whose keys are the reader's own
	oneOf   []*shape
}

// kind is how a YAML node becomes a value. read sets v, or notes why it cannot
// and reports false.
type kind struct {
	shape *shape
	read  func(c *checker, n *yaml.Node, v reflect.Value) bool
	obj   *object // of objects
}

// field is one key of an object. What it reads goes to the struct's field at
// index, or through set.
type field struct {
	tags
	kind  kind
	index []int
	typ   reflect.Type
	set   func(c *checker, n *yaml.Node, o any)
	start *yaml.Node // of the default
}

// place is an object that was read: where it stands, and its keys in the order
// of reading, those that came by a merge too.
type place struct {
	c    *checker
	node *yaml.Node
	keys map[string]*yaml.Node
	list []string
	// broken: a mistake in it was noted.
	broken bool
}

func (p place) has(key string) bool { return p.keys[key] != nil }

func (p place) fail(hint, format string, args ...any) { p.c.fail(p.node, hint, format, args...) }

// Objects may look at themselves after they were read: placed in any case,
// checked if nothing in them is wrong.
type (
	placed  interface{ placed(p place) }
	checked interface{ check(p place) }
	// extended objects have keys that no struct field stands for.
	extended interface{ more() []field }
)

// read1 makes a kind of a function that gives a T.
func read1[T any](s *shape, read func(c *checker, n *yaml.Node) (T, bool)) kind {
	return kind{shape: s, read: func(c *checker, n *yaml.Node, v reflect.Value) bool {
		x, ok := read(c, n)
		if ok {
			v.Set(reflect.ValueOf(&x).Elem().Convert(v.Type()))
		}
		return ok
	}}
}

// readAs reads n as k into a T.
func readAs[T any](k kind, c *checker, n *yaml.Node) (x T, ok bool) {
	ok = k.read(c, n, reflect.ValueOf(&x).Elem())
	return x, ok
}

// kindOf is how values of t are read.
func kindOf(t reflect.Type, g tags) kind {
	if k, ok := own(t, g); ok {
		return k
	}
	switch t.Kind() {
	case reflect.Slice:
		one := kindOf(t.Elem(), g)
		switch k := list(one); g.is {
		case "argv":
			return argv()
		case "single": // a list may stand there too, but is not documented
			return kind{shape: one.shape, read: k.read}
		default:
			return k
		}
	case reflect.Pointer:
		return optional(t, kindOf(t.Elem(), g))
	case reflect.Map:
		return table(t, g)
	case reflect.Struct:
		return objectOf(t, g.omit...).asKind()
	case reflect.Bool:
		return boolean()
	case reflect.Int:
		return integer(g)
	case reflect.Float64:
		return factor(g)
	}
	return textual(g)
}

// optional makes a value that can be told from none.
func optional(t reflect.Type, k kind) kind {
	return kind{shape: k.shape, read: func(c *checker, n *yaml.Node, v reflect.Value) bool {
		p := reflect.New(t.Elem())
		ok := k.read(c, n, p.Elem())
		if ok {
			v.Set(p)
		}
		return ok
	}}
}

// list is a value of several; one alone needs no brackets.
func list(k kind) kind {
	s := &shape{oneOf: []*shape{k.shape, {kind: "array", items: k.shape}}, what: "a list, each item " + k.shape.what}
	return kind{shape: s, read: func(c *checker, n *yaml.Node, v reflect.Value) bool {
		r := c.enter(n)
		if r == nil {
			return false
		}
		items, all := []*yaml.Node{r}, true
		if r.Kind == yaml.SequenceNode {
			items = r.Content
		}
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
		for i, e := range items {
			all = k.read(c, e, v.Index(i)) && all
		}
		return all
	}}
}

// table is a mapping whose keys are the reader's own words.
func table(t reflect.Type, g tags) kind {
	k := kindOf(t.Elem(), tags{what: g.what, is: g.is, words: g.words})
	what := g.doc
	s := &shape{kind: "object", what: what, values: k.shape}
	return kind{shape: s, read: func(c *checker, n *yaml.Node, v reflect.Value) bool {
		before := len(c.problems)
		v.Set(reflect.MakeMap(t))
		c.pairs(n, g.name, func(key, e *yaml.Node) {
			if g.keys != "" {
				if _, ok := readAs[string](textual(tags{is: g.keys, what: g.what}), c, key); !ok {
					return
				}
			}
			x := reflect.New(t.Elem()).Elem()
			k.read(c, e, x)
			v.SetMapIndex(reflect.ValueOf(key.Value), x)
		})
		return !failed(c.problems[min(before, len(c.problems)):])
	}}
}

// object is the keys of a struct type.
type object struct {
	what   string
	title  string // see shape
	fields []field
	byName map[string]*field
	names  []string
	rest   *field // takes keys of the reader's own
	shape  *shape
}

var objects sync.Map // by type and omitted keys

func objectFor[T any](omit ...string) *object { return objectOf(reflect.TypeFor[T](), omit...) }

// objectOf makes the object of a struct type, once.
func objectOf(t reflect.Type, omit ...string) *object {
	type id struct {
		t    reflect.Type
		omit string
	}
	key := id{t, strings.Join(omit, " ")}
	if o, ok := objects.Load(key); ok {
		return o.(*object)
	}
	o := &object{}
	o.collect(t, nil)
	if x, ok := reflect.New(t).Interface().(extended); ok {
		o.fields = append(o.fields, x.more()...)
	}
	o.fields = slices.DeleteFunc(o.fields, func(f field) bool { return slices.Contains(omit, f.name) })
	o.index()
	objects.Store(key, o)
	return o
}

// index makes the object of its fields ready to read.
func (o *object) index() {
	o.byName, o.shape = map[string]*field{}, &shape{kind: "object", what: o.what, title: o.title}
	if i := slices.IndexFunc(o.fields, func(f field) bool { return f.name == "*" }); i >= 0 {
		rest := o.fields[i]
		o.rest, o.shape.values = &rest, rest.kind.shape.values
		o.fields = slices.Delete(o.fields, i, i+1)
	}
	for i := range o.fields {
		f := &o.fields[i]
		o.byName[f.name] = f
		if !f.old {
			o.names = append(o.names, f.name)
		}
		if f.def != "" {
			f.start = inline(f.def)
		}
	}
	o.shape.fields = o.fields
}

// inline parses YAML of a tag, which has no mistakes.
func inline(text string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 {
		panic(fmt.Sprintf("tag %q: %v", text, err))
	}
	return doc.Content[0]
}

// collect adds the tagged fields of t, and those of the structs that it embeds.
func (o *object) collect(t reflect.Type, index []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(index), i)
		g := tagsOf(f)
		switch {
		case f.Anonymous && f.Tag == "" || g.required && g.name == "":
			from := len(o.fields)
			o.collect(f.Type, at)
			o.defaults(o.fields[from:], g.def)
		case g.name != "":
			o.fields = append(o.fields, field{tags: g, kind: kindOf(f.Type, g), index: at, typ: f.Type})
		}
		if in := f.Tag.Get("in"); in != "" {
			o.what = in
		}
	}
}

func (o *object) asKind() kind {
	return kind{shape: o.shape, obj: o, read: func(c *checker, n *yaml.Node, v reflect.Value) bool {
		v.SetZero()
		o.fill(v)
		return o.read(c, n, v)
	}}
}

// defaults gives the fields of an inline struct the defaults of its tag.
func (o *object) defaults(fs []field, def string) {
	if def == "" {
		return
	}
	for i := range fs {
		if n := child(inline(def), fs[i].name); n != nil {
			fs[i].def = n.Value
		}
	}
}

// fill sets the defaults of v's fields.
func (o *object) fill(v reflect.Value) {
	for i := range o.fields {
		f := &o.fields[i]
		switch {
		case f.start == nil:
		case f.def == "{}":
			f.kind.obj.fill(v.FieldByIndex(f.index))
		default:
			f.kind.read(&checker{}, f.start, v.FieldByIndex(f.index))
		}
	}
}

// into reads the mapping n into x, a pointer to the object's struct.
func (o *object) into(c *checker, n *yaml.Node, x any) bool {
	v := reflect.ValueOf(x).Elem()
	o.fill(v)
	return o.read(c, n, v)
}

// read reads the mapping n over what v has.
func (o *object) read(c *checker, n *yaml.Node, v reflect.Value) bool {
	before := len(c.problems)
	p := place{c: c, node: n, keys: map[string]*yaml.Node{}}
	seen := map[string]bool{}
	c.pairs(n, o.what, func(k, val *yaml.Node) {
		f := o.byName[k.Value]
		switch {
		case f != nil:
			p.keys[k.Value], seen[k.Value] = val, true
			p.list = append(p.list, k.Value)
			f.read(c, val, v)
		case o.rest != nil:
			o.readRest(c, k, val, v.FieldByIndex(o.rest.index))
		default:
			c.unknown(k, o.names, o.homeOf(k.Value))
			seen[nearest(k.Value, o.names)] = true
		}
	})
	if r := c.resolve(n); r != nil && r.Kind == yaml.MappingNode {
		for _, f := range o.fields {
			if f.required && !seen[f.name] {
				p.fail("", "%s needs %s: %s", o.what, f.name, f.doc)
			}
		}
	}
	good := func() bool { return !failed(c.problems[min(before, len(c.problems)):]) }
	if x, ok := v.Addr().Interface().(placed); ok {
		p.broken = !good()
		x.placed(p)
	}
	if x, ok := v.Addr().Interface().(checked); ok && good() {
		x.check(p)
	}
	return good()
}

func (o *object) readRest(c *checker, k, n *yaml.Node, m reflect.Value) {
	if m.IsNil() {
		m.Set(reflect.MakeMap(m.Type()))
	}
	x := reflect.New(m.Type().Elem()).Elem()
	kindOf(m.Type().Elem(), tags{}).read(c, n, x)
	m.SetMapIndex(reflect.ValueOf(k.Value), x)
}

func (f *field) read(c *checker, n *yaml.Node, o reflect.Value) {
	if f.set != nil {
		f.set(c, n, o.Addr().Interface())
		return
	}
	v := o.FieldByIndex(f.index)
	if f.kind.obj != nil && f.start != nil { // what n leaves out keeps its default
		f.kind.obj.read(c, n, v)
		return
	}
	f.kind.read(c, n, v)
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
// that is misspelt and like none of the object's, the nearest.
func (o *object) homeOf(name string) string {
	var inner []string
	homes := map[string]string{}
	for _, f := range o.fields {
		for _, in := range f.kind.shape.fields {
			if homes[in.name] == "" {
				homes[in.name] = f.name + ": {" + in.name + ": …}"
				inner = append(inner, in.name)
			}
		}
	}
	if home := homes[name]; home != "" {
		return home
	}
	if nearest(name, o.names) != "" {
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
	out := strings.Join(words, ", ")
	if i := strings.LastIndex(out[:min(len(out), 200)], ", "); len(out) > 200 {
		return out[:i] + "…"
	}
	return out
}
