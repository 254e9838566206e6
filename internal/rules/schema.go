package rules

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Schema is the JSON Schema (draft 2020-12) of a rules file, made from the
// same table that checks it. Editors complete and check with it; what it
// cannot say (that a notify target exists, that a pattern compiles) only
// Load checks.
func Schema() []byte {
	d := defs{names: map[string]string{}, schemas: map[string]any{}}
	root := objectFor[book]().shape.schema(&d)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "stoplog rules"
	root["$defs"] = d.schemas
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil // strings, numbers and maps of them always marshal
	}
	return append(out, '\n')
}

// defs are the parts that stand once and are referred to.
type defs struct {
	names   map[string]string // by their JSON
	schemas map[string]any
}

// smallSchema is the size up to which a part is written out where it is used.
const smallSchema = 100

// of is the schema of s, or a reference to it.
func (d *defs) of(s *shape) map[string]any {
	m := s.schema(d)
	text, err := json.Marshal(m)
	if err != nil || len(text) <= smallSchema {
		return m
	}
	name := d.names[string(text)]
	if name == "" {
		name = slug(s.what) + "-" + strconv.Itoa(len(d.names)+1)
		d.names[string(text)] = name
		d.schemas[name] = m
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// slug makes a name of words: "a port" becomes "a-port".
func slug(words string) string {
	words = words[:min(len(words), 32)]
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, words), "-")
}

func (s *shape) schema(d *defs) map[string]any {
	out := map[string]any{}
	if s.what != "" {
		out["description"] = s.what
	}
	if len(s.oneOf) > 0 {
		var alternatives []any
		for _, o := range s.oneOf {
			alternatives = append(alternatives, d.of(o))
		}
		out["anyOf"] = alternatives
		return out
	}
	switch s.kind {
	case "object":
		s.objectSchema(d, out)
	case "array":
		out["type"], out["items"] = "array", d.of(s.items)
	case "string":
		s.stringSchema(out)
	case "integer", "number":
		out["type"], out["minimum"], out["maximum"] = s.kind, s.min, s.max
	case "boolean":
		out["type"] = s.kind
	}
	return out
}

// stringSchema takes numbers where they are written without quotes: 401.
func (s *shape) stringSchema(out map[string]any) {
	switch {
	case s.words != nil:
		out["enum"] = s.words
	case s.pattern != "":
		out["type"], out["pattern"] = []string{"string", "integer"}, s.pattern
	default:
		out["type"] = []string{"string", "number", "boolean"}
	}
}

func (s *shape) objectSchema(d *defs, out map[string]any) {
	out["type"], out["additionalProperties"] = "object", false
	if s.values != nil {
		out["additionalProperties"] = d.of(s.values)
	}
	properties, required := map[string]any{}, []string(nil)
	for _, f := range s.fields {
		p := d.of(f.kind.shape)
		p["description"] = f.doc
		if f.start != nil && f.def != "{}" {
			var v any
			if f.start.Decode(&v) == nil {
				p["default"] = v
			}
		}
		if f.old {
			p["deprecated"] = true
		}
		properties[f.name] = p
		if f.required {
			required = append(required, f.name)
		}
	}
	if len(properties) > 0 {
		out["properties"] = properties
	}
	if required != nil {
		out["required"] = required
	}
}

// Reference returns the list of all keys as Markdown, from the same tags. Each
// mapping is described once; other places refer to it.
func Reference() string {
	var b strings.Builder
	r := reference{out: &b, at: map[string]string{}}
	r.object("Top level", "", objectFor[book]().shape)
	return b.String()
}

type reference struct {
	out *strings.Builder
	at  map[string]string // headings, by the keys below them
}

// object writes the section of one mapping, then those of the mappings in it.
func (r *reference) object(title, path string, s *shape) {
	r.out.WriteString("### " + title + "\n\n")
	type section struct {
		title, path string
		shape       *shape
	}
	var below []section
	for _, f := range s.fields {
		if f.old {
			continue
		}
		at := strings.TrimPrefix(path+"."+f.name, ".")
		var links []string
		for _, o := range f.kind.shape.objects() {
			id := o.id()
			if r.at[id] == "" {
				r.at[id] = at
				if o.title != "" {
					r.at[id] = o.title
				}
				below = append(below, section{r.at[id], at, o})
			}
			links = append(links, "["+r.at[id]+"](#"+anchor(r.at[id])+")")
		}
		r.key(f, links)
	}
	if s.values != nil {
		r.out.WriteString("- any other key: the name of " + s.values.what + "\n")
		for _, o := range s.values.objects() {
			below = append(below, section{path + ".NAME", path + ".NAME", o})
		}
	}
	r.out.WriteString("\n")
	for _, x := range below {
		r.object(x.title, x.path, x.shape)
	}
}

func (r *reference) key(f field, links []string) {
	b := r.out
	b.WriteString("- `" + f.name + "`")
	if f.required {
		b.WriteString(" (required)")
	}
	b.WriteString(": " + f.doc + "\n  - " + f.value())
	if len(links) > 0 {
		b.WriteString("; keys: " + strings.Join(links, ", "))
	}
	if f.def != "" && f.def != "{}" {
		b.WriteString(". Default: `" + f.def + "`")
	}
	b.WriteString(". Example: `" + f.name + ": " + f.example() + "`\n")
}

// example is a value for the key, as YAML: that of its tag, or one that differs
// from the default.
func (f *field) example() string {
	if f.eg != "" {
		return f.eg
	}
	if f.kind.shape.kind == "boolean" {
		return strconv.FormatBool(f.def != "true")
	}
	for _, w := range f.kind.shape.allWords() {
		if w != f.def {
			return w
		}
	}
	return f.def
}

// value says what the key's value looks like.
func (f *field) value() string {
	if f.set != nil && f.what != "" {
		return f.what
	}
	between := ""
	if f.lo != "" {
		between = " from " + f.lo + " to " + f.hi
	}
	return f.kind.shape.inWords(between)
}

func (s *shape) inWords(between string) string {
	switch {
	case len(s.oneOf) > 0:
		return s.eitherInWords(between)
	case s.words != nil:
		return "`" + strings.Join(s.words, "`, `") + "`"
	case s.pattern == durationText:
		return "a duration" + between
	case s.pattern == sizeRE.String():
		return "a size" + between
	case s.kind == "integer" || s.kind == "number":
		return "a number" + between
	case s.kind == "object" && s.values != nil && len(s.fields) == 0:
		return "a mapping of names to values: " + s.values.what
	case s.kind == "object":
		return "a mapping"
	case s.kind == "boolean":
		return "`true` or `false`"
	}
	return s.what
}

func (s *shape) eitherInWords(between string) string {
	var parts []string
	for _, o := range s.oneOf {
		switch {
		case o.kind == "array":
			parts = append(parts, "a list of them")
		case o.what == "" && o.words == nil: // notations of the same
			return s.what
		default:
			parts = append(parts, o.inWords(between))
		}
	}
	if n := len(parts) - 1; n > 0 {
		return strings.Join(parts[:n], ", ") + " or " + parts[n]
	}
	return strings.Join(parts, "")
}

// anchor is what Markdown makes of a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-':
			return r
		}
		return -1
	}, title)
}

// id tells mappings apart: their names and texts of keys.
func (s *shape) id() string {
	var b strings.Builder
	for _, f := range s.fields {
		b.WriteString(f.name + ": " + f.doc + f.lo + "\n")
	}
	return b.String()
}

// objects are the mappings with keys of their own that a value may be or hold.
func (s *shape) objects() []*shape {
	switch {
	case s.kind == "object" && s.values != nil && len(s.fields) == 0:
		return s.values.objects()
	case s.kind == "object":
		return []*shape{s}
	case s.kind == "array":
		return s.items.objects()
	}
	seen := map[string]bool{}
	var out []*shape
	for _, o := range s.oneOf {
		for _, x := range o.objects() {
			if id := x.id(); !seen[id] {
				seen[id] = true
				out = append(out, x)
			}
		}
	}
	return out
}

// allWords are the words that a value can be.
func (s *shape) allWords() []string {
	if s.words != nil {
		return s.words
	}
	for _, o := range s.oneOf {
		if w := o.allWords(); w != nil {
			return w
		}
	}
	return nil
}
