package rules

import (
	"os"
	"reflect"
	"slices"

	"gopkg.in/yaml.v3"
)

// loadTiers reads the file of customers. One that is missing is a warning:
// everybody has the default tier then.
func (c *checker) loadTiers(at *yaml.Node, t *Tiers) {
	data, err := c.from.read(t.File)
	if os.IsNotExist(err) {
		c.warn(at.Line, at.Column, "", "%s does not exist: all customers have tier %s", t.File, t.Default)
		return
	}
	if err != nil {
		c.fail(at, "", "%v", err)
		return
	}
	in := &checker{file: t.File}
	if root := in.document(data); root != nil {
		names := sortedKeys(t.Tiers)
		m := table(reflect.TypeFor[map[string]string](), tags{name: "customer: tier", what: "a tier", words: names})
		t.Members, _ = readAs[map[string]string](m, in, root)
	}
	for _, p := range in.problems {
		c.add(p)
	}
}

// WithTiers is s with the files of customers as they are now; nil when one of
// them has a mistake. s stays as it is.
func (s *Set) WithTiers() (*Set, []Problem) {
	c, out := &checker{from: disk{}}, *s
	out.Rules = slices.Clone(s.Rules)
	for i, old := range s.Rules {
		if old.Tiers == nil {
			continue
		}
		r, tiers := *old, *old.Tiers
		tiers.Members = nil
		r.Tiers, out.Rules[i] = &tiers, &r
		c.file = r.File
		c.loadTiers(&yaml.Node{Line: r.Line, Column: 1}, &tiers)
	}
	if failed(c.problems) {
		return nil, c.problems
	}
	return &out, c.problems
}

// readFile is os.ReadFile with a bound, and errors that name the place once.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, name)
}
