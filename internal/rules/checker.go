package rules

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	maxFile     = 1 << 20 // bytes of one rules file
	maxNodes    = 200_000 // visited in one load: aliases cannot make more
	maxProblems = 100     // told of one load
	maxText     = 4096    // bytes of one value
)

// checker walks one file's nodes and collects what is wrong with them.
type checker struct {
	file, dir string
	from      files
	nodes     int
	problems  []Problem
}

// add notes a problem. Of too many the others are left out, but never the first
// mistake behind warnings: it is what keeps the rules from use.
func (c *checker) add(p Problem) {
	if len(c.problems) < maxProblems || !p.Warning && !failed(c.problems) {
		c.problems = append(c.problems, p)
	}
}

// fail notes a mistake at n; hint may be empty.
func (c *checker) fail(n *yaml.Node, hint, format string, args ...any) {
	c.add(Problem{File: c.file, Line: n.Line, Column: n.Column, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// warn notes what is allowed but hardly meant.
func (c *checker) warn(line, column int, hint, format string, args ...any) {
	c.add(Problem{File: c.file, Line: line, Column: column, Msg: fmt.Sprintf(format, args...), Hint: hint, Warning: true})
}

// failed reports whether anything that is not a warning was noted.
func failed(ps []Problem) bool {
	for _, p := range ps {
		if !p.Warning {
			return true
		}
	}
	return false
}

// enter resolves an alias and counts the visit. nil: too many.
func (c *checker) enter(n *yaml.Node) *yaml.Node {
	if c.nodes++; c.nodes > maxNodes {
		if c.nodes == maxNodes+1 {
			c.fail(n, "write it without aliases", "the file has more than %d values", maxNodes)
		}
		return nil
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// scalar returns the text of a plain value; want says what was expected.
func (c *checker) scalar(n *yaml.Node, want string) (string, bool) {
	if n = c.enter(n); n == nil {
		return "", false
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		c.fail(n, "", "expected %s, not %s", want, kindName(n))
	case n.Tag == "!!null":
		c.fail(n, "", "expected %s, but found nothing", want)
	case len(n.Value) > maxText:
		c.fail(n, "", "longer than %d bytes", maxText)
	case strings.ContainsRune(n.Value, 0):
		c.fail(n, "", "contains a NUL byte")
	default:
		return n.Value, true
	}
	return "", false
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	}
	return fmt.Sprintf("%q", clip(n.Value))
}

// clip shortens text that is shown in a message.
func clip(s string) string {
	if len(s) > 60 {
		return s[:57] + "…"
	}
	return s
}

// pairs calls f for each key of a mapping; a key written twice is a mistake.
func (c *checker) pairs(n *yaml.Node, want string, f func(key *yaml.Node, val *yaml.Node)) {
	if n = c.enter(n); n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		c.fail(n, "", "expected a mapping for %s, not %s", want, describe(n))
		return
	}
	seen := map[string]int{}
	var merge *yaml.Node // the key, and what comes in by it
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Tag == "!!merge" {
			if merge != nil {
				c.fail(key, "<<: [*one, *other]", "\"<<\" occurs twice, first in line %d", merge.Line)
				continue
			}
			merge, merged = key, c.merged(n.Content[i+1])
			continue
		}
		if key.Kind != yaml.ScalarNode {
			c.fail(key, "", "expected a key before the colon, not %s", kindName(key))
			continue
		}
		if at, twice := seen[key.Value]; twice {
			c.fail(key, "", "%q occurs twice, first in line %d", clip(key.Value), at)
			continue
		}
		seen[key.Value] = key.Line
		f(key, n.Content[i+1])
	}
	for _, m := range merged {
		c.pairs(m, "<<", func(k, v *yaml.Node) {
			if _, has := seen[k.Value]; !has {
				seen[k.Value] = k.Line
				f(k, v)
			}
		})
	}
}

// merged are the mappings that come in by <<: one, or a list of which the
// earlier ones win.
func (c *checker) merged(n *yaml.Node) []*yaml.Node {
	if r := c.resolve(n); r.Kind == yaml.SequenceNode {
		if c.enter(n) == nil {
			return nil
		}
		return r.Content
	}
	return []*yaml.Node{n}
}

func describe(n *yaml.Node) string {
	if n.Tag == "!!null" {
		return "nothing"
	}
	return kindName(n)
}
