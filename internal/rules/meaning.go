package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Meaning tells in one line what the counts of a level are counts of. Two
// levels of the same meaning may go on with each other's counts: room, weight,
// answers and times of blocks may differ, what is counted by what key and how
// fast it drains may not.
func (r *Rule) Meaning(l *Level) string {
	s := fmt.Sprintf("%s %s %s %s %d/%d %s %d %d %s", strconv.Quote(r.Name), r.counted, r.Key, l.Kind,
		r.Prefix.V4, r.Prefix.V6, l.Of, l.Leak, l.Within, r.tierBy())
	if l.PerConn {
		s += " per connection"
	}
	if l.First {
		s += " first"
	}
	if l.Wide() {
		s += fmt.Sprintf(" in %d/%d", l.Prefix.V4, l.Prefix.V6)
	}
	return s
}

func (r *Rule) tierBy() string {
	if r.Tiers == nil {
		return ""
	}
	return r.Tiers.By.String()
}

// countedBy writes what a rule looks at so that the same conditions in
// another order or notation of YAML read the same. said are its keys as they
// were read, those that came by a merge too, and have no mistake: then reading
// has bounded what aliases make of them.
func countedBy(said map[string]*yaml.Node) string {
	out := canonical(said["match"]) + canonical(said["pattern"]) + canonical(said["programs"])
	for _, k := range []string{"outcome", "kind"} {
		if n := said[k]; n != nil {
			out += k + canonical(n)
		}
	}
	return out
}

// child returns the value of a mapping's key, nil when there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func canonical(n *yaml.Node) string {
	if n == nil {
		return "-"
	}
	var parts []string
	switch n.Kind {
	case yaml.AliasNode:
		return canonical(n.Alias)
	case yaml.ScalarNode:
		return strconv.Quote(n.Value)
	case yaml.SequenceNode:
		for _, e := range n.Content {
			parts = append(parts, canonical(e))
		}
		slices.Sort(parts)
		if len(parts) == 1 {
			return parts[0] // one alone needs no brackets
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		parts = append(parts, strconv.Quote(n.Content[i].Value)+":"+canonical(n.Content[i+1]))
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ",") + "}"
}
