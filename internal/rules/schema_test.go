package rules

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// defined are the parts of the schema under test that others refer to.
type defined map[string]any

// fits is the part of JSON Schema that Schema uses.
func (d defined) fits(s map[string]any, v any) bool {
	if ref, ok := s["$ref"].(string); ok {
		return d.fits(d[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), v)
	}
	if alternatives, ok := s["anyOf"].([]any); ok {
		for _, a := range alternatives {
			if d.fits(a.(map[string]any), v) {
				return true
			}
		}
		return false
	}
	if enum, ok := s["enum"].([]any); ok {
		for _, e := range enum {
			if e == v {
				return true
			}
		}
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		if s["type"] != "object" {
			return false
		}
		props, _ := s["properties"].(map[string]any)
		for _, r := range list2(s["required"]) {
			if _, ok := v[r.(string)]; !ok {
				return false
			}
		}
		for k, x := range v {
			p, ok := props[k].(map[string]any)
			if !ok {
				if p, ok = s["additionalProperties"].(map[string]any); !ok {
					return false
				}
			}
			if !d.fits(p, x) {
				return false
			}
		}
		return true
	case []any:
		if s["type"] != "array" {
			return false
		}
		for _, x := range v {
			if !d.fits(s["items"].(map[string]any), x) {
				return false
			}
		}
		return true
	}
	return s["type"] != "object" && s["type"] != "array"
}

func list2(v any) []any {
	l, _ := v.([]any)
	return l
}

func TestSchemaFitsWhatLoads(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	d := defined(schema["$defs"].(map[string]any))
	if n := len(Schema()); n > 200_000 {
		t.Errorf("the schema has %d bytes: its parts are written more than once", n)
	}
	for name, text := range goodFiles(t) {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if v == nil {
			continue // an empty file is all defaults
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		if !d.fits(schema, v) {
			t.Errorf("%s loads, and the schema refuses it", name)
		}
	}
	for _, bad := range []string{`{"rulez": []}`, `{"rules": [{"match": {}}]}`, `{"firewall": {"action": "burn"}}`, `{"rules": [{"name": "a", "bucket": {"capacity": 5}}]}`} {
		var v any
		if err := json.Unmarshal([]byte(bad), &v); err != nil {
			t.Fatal(err)
		}
		if d.fits(schema, v) {
			t.Errorf("the schema takes %s", bad)
		}
	}
}

// Each key of each mapping has a text, and an example that can be read.
func TestEveryKeyIsDocumented(t *testing.T) {
	ref, seen := Reference(), map[string]bool{}
	var walk func(path string, s *shape)
	walk = func(path string, s *shape) {
		if seen[s.id()] {
			return
		}
		seen[s.id()] = true
		for _, f := range s.fields {
			if f.old {
				continue
			}
			line := "- `" + f.name + "`"
			if f.required {
				line += " (required)"
			}
			if f.doc == "" || !strings.Contains(ref, line+": "+f.doc) {
				t.Errorf("%s.%s is not in the reference", path, f.name)
			}
			c := &checker{file: path + "." + f.name}
			n := inline(f.name + ": " + f.example())
			switch value := n.Content[1]; {
			case f.set == nil:
				f.kind.read(c, value, reflect.New(f.typ).Elem())
			case path == "rules.match":
				objectFor[Match]().into(c, n, new(Match))
			case path == "rules.weight":
				objectFor[Weight]().into(c, n, new(Weight))
			case path == "rules.match.user":
				objectFor[Match]().into(c, inline("user: {"+f.name+": "+f.example()+"}"), new(Match))
			default:
				f.kind.read(c, value, reflect.New(reflect.TypeFor[uint8]()).Elem())
			}
			for _, p := range c.problems {
				t.Errorf("%s: %v", f.example(), p)
			}
			for _, o := range f.kind.shape.objects() {
				walk(strings.TrimPrefix(path+"."+f.name, "."), o)
			}
		}
	}
	walk("", objectFor[book]().shape)
	if len(seen) < 25 {
		t.Errorf("got %d mappings", len(seen))
	}
	for _, gone := range []string{"starts", "ends", "contains"} {
		if strings.Contains(ref, "- `"+gone+"`") {
			t.Errorf("%s is deprecated, but documented", gone)
		}
	}
}
