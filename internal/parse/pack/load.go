package pack

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Load reads a pack's file. Every mistake is told at once, with its place; the
// pack is nil when one is more than a warning. The samples are not run: see
// Check.
func Load(name string, data []byte) (*Pack, []Problem) {
	l := &loader{file: name}
	p := l.pack(data)
	for _, pt := range l.compiled {
		if pt != nil && pt.text != nil {
			pt.text.compiled()
		}
	}
	if Broken(l.problems) {
		return nil, l.problems
	}
	return p, l.problems
}

// loader collects the mistakes of one file.
type loader struct {
	file     string
	problems []Problem
	compiled []*pattern
	informs  bool // the pack's events have no address
}

func (l *loader) add(n *yaml.Node, msg string) {
	l.problems = append(l.problems, Problem{File: l.file, Line: n.Line, Col: n.Column, Msg: msg})
}

func (l *loader) addf(n *yaml.Node, format string, args ...any) {
	l.add(n, fmt.Sprintf(format, args...))
}

var packKeys = []string{"name", "origin", "programs", "logs", "syslog_only", "informs", "one_line", "raw", "patterns", "samples", "ignores", "hostile"}

// pack reads the whole file.
func (l *loader) pack(data []byte) *Pack {
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		l.problems = append(l.problems, Problem{File: l.file, Msg: err.Error()})
		return nil
	}
	p := &Pack{}
	root := doc.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		// Patterns are checked as they are read, wherever the key stands.
		l.informs = l.informs || root.Content[i].Value == "informs"
	}
	l.each(root, packKeys, func(key string, v *yaml.Node) { l.packKey(p, key, v) })
	if p.name == "" {
		l.add(root, "name is missing: the service that events will carry")
	}
	if len(p.patterns) == 0 {
		l.add(root, "patterns are missing")
	}
	return p
}

func (l *loader) packKey(p *Pack, key string, v *yaml.Node) {
	switch key {
	case "name":
		p.name = l.str(v)
	case "origin":
		p.origin = l.str(v)
	case "programs":
		p.programs = l.strs(v)
		p.anyTag = slices.Contains(p.programs, "*")
	case "logs":
		p.logs = l.strs(v)
	case "syslog_only":
		if p.tagOnly = l.str(v) == "true"; !p.tagOnly {
			l.add(v, "syslog_only is true or left out")
		}
	case "informs":
		if p.informs = l.str(v) == "true"; !p.informs {
			l.add(v, "informs is true or left out")
		}
	case "one_line":
		if p.oneLine = l.str(v); len(p.oneLine) < 8 {
			l.add(v, "one_line says why no record holds a line break that a client sent")
		}
	case "raw":
		if p.raw = l.str(v); len(p.raw) < 8 {
			l.add(v, "raw says which text of clients the log file holds with its line breaks")
		}
	case "patterns":
		l.items(v, func(n *yaml.Node) { p.patterns = append(p.patterns, l.pattern(n)) })
		l.compiled = p.patterns
	case "ignores":
		p.ignores = l.strs(v)
	case "samples":
		l.items(v, func(n *yaml.Node) { p.samples = append(p.samples, l.sample(n)) })
	case "hostile":
		l.items(v, func(n *yaml.Node) { p.hostile = append(p.hostile, l.sample(n)) })
	}
}

// each calls f for the pairs of a mapping. Unknown and repeated keys are
// mistakes.
func (l *loader) each(n *yaml.Node, keys []string, f func(key string, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		l.add(n, "expected key: value pairs")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case keys != nil && !slices.Contains(keys, k.Value):
			l.add(k, unknown("key", k.Value, keys))
			continue
		case seen[k.Value]:
			l.addf(k, "key %q stands here twice", k.Value)
			continue
		}
		seen[k.Value] = true
		f(k.Value, n.Content[i+1])
	}
}

func (l *loader) items(n *yaml.Node, f func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		l.add(n, "expected a list")
		return
	}
	for _, c := range n.Content {
		f(c)
	}
}

// str reads one scalar; a number or boolean is taken as it is written.
func (l *loader) str(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		l.add(n, "expected one value")
		return ""
	}
	return n.Value
}

// strs reads a list of scalars, or one.
func (l *loader) strs(n *yaml.Node) []string {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	var out []string
	l.items(n, func(c *yaml.Node) { out = append(out, l.str(c)) })
	return out
}

// choice reads one of words.
func (l *loader) choice(n *yaml.Node, what string, words map[string]uint8) uint8 {
	v := l.str(n)
	c, ok := words[v]
	if !ok {
		names := make([]string, 0, len(words))
		for w := range words {
			names = append(names, w)
		}
		slices.Sort(names)
		l.add(n, unknown(what, v, names))
	}
	return c
}

var sampleKeys = []string{"line", "ip", "user", "outcome", "kind", "tag"}

func (l *loader) sample(n *yaml.Node) (s sample) {
	l.each(n, sampleKeys, func(key string, v *yaml.Node) {
		*map[string]*string{
			"line": &s.Line, "ip": &s.IP, "user": &s.User,
			"outcome": &s.Outcome, "kind": &s.Kind, "tag": &s.Tag,
		}[key] = l.str(v)
	})
	if s.Line == "" {
		l.add(n, "line is missing")
	}
	return s
}
