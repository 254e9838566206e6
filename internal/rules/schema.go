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
	root := object("a stoplog rules file", bookFields(), nil).shape.schema(&d)
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
		p := d.of(f.shape)
		if f.about != "" {
			p["description"] = f.about
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

// Reference returns the list of all keys as Markdown, from the same table.
// Keys that are the same in several places are listed once.
func Reference() string {
	var b strings.Builder
	object("a stoplog rules file", bookFields(), nil).shape.reference(&b, "", map[string]string{})
	return b.String()
}

// reference writes the fields of s, except where a place in seen has the same.
func (s *shape) reference(b *strings.Builder, path string, seen map[string]string) {
	for _, f := range s.fields {
		name := f.name
		if path != "" {
			name = path + "." + name
		}
		b.WriteString("- `" + name + "`")
		if f.required {
			b.WriteString(" (required)")
		}
		b.WriteString(": " + f.about + f.shape.choices())
		var fresh []*shape
		for _, o := range f.shape.objects() {
			if at := seen[o.keys()]; at != "" {
				b.WriteString("; keys as in `" + at + "`")
				continue
			}
			seen[o.keys()] = name
			fresh = append(fresh, o)
		}
		b.WriteString("\n")
		for _, o := range fresh {
			o.reference(b, name, seen)
		}
	}
}

// keys are the names and texts of the fields, to tell objects apart.
func (s *shape) keys() string {
	var b strings.Builder
	for _, f := range s.fields {
		b.WriteString(f.name + ": " + f.about + f.shape.choices() + "\n")
	}
	return b.String()
}

// objects are the objects that a value may be or hold, each once.
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
			if !seen[x.what] {
				seen[x.what] = true
				out = append(out, x)
			}
		}
	}
	return out
}

// choices lists the words that a value can be.
func (s *shape) choices() string {
	words := s.allWords()
	if len(words) == 0 {
		return ""
	}
	return ": `" + strings.Join(words, "`, `") + "`"
}

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
