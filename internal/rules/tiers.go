package rules

import (
	"os"
	"slices"
	"time"

	"gopkg.in/yaml.v3"
)

// tiersValue reads {by: field customer, file: customers.yaml, default: free,
// free: {capacity: 10, leak: 6s}, pro: {…}}: what is not by, file or default
// is a tier.
func tiersValue() value[*Tiers] {
	by, file, word := keyValue(), path("a file"), name("the name of a tier")
	tier := object("a tier", []field[Tier]{
		must(key("capacity", "points its bucket holds", integer("capacity", 0, maxCount), func(t *Tier) *int { return &t.Capacity })),
		must(key("leak", "time in which one point drains", duration("leak", minLeak, maxLeak), func(t *Tier) *time.Duration { return &t.Leak })),
	}, nil)
	s := &shape{kind: "object", what: "tiers", values: tier.shape, fields: []fieldDoc{
		{name: "by", about: "the field with the customer, written as in key", shape: by.shape, required: true},
		{name: "file", about: "a YAML file with lines customer: tier", shape: file.shape, required: true},
		{name: "default", about: "tier of customers that are not in the file", shape: word.shape, required: true},
	}}
	return value[*Tiers]{s, func(c *checker, n *yaml.Node) (*Tiers, bool) {
		t := &Tiers{Tiers: map[string]Tier{}}
		before := len(c.problems)
		c.pairs(n, "tiers", func(k, v *yaml.Node) {
			switch k.Value {
			case "by":
				if parts, ok := by.read(c, v); ok && len(parts) == 1 {
					t.By = parts[0]
				} else if ok {
					c.fail(v, "", "expected only one key in by")
				}
			case "file":
				t.File, _ = file.read(c, v)
			case "default":
				t.Default, _ = word.read(c, v)
			default:
				x, _ := tier.read(c, v)
				t.Tiers[k.Value] = x
			}
		})
		return t, len(c.problems) == before && c.tiersWhole(n, t)
	}}
}

// tiersWhole checks what only shows when all of it is read.
func (c *checker) tiersWhole(n *yaml.Node, t *Tiers) bool {
	switch {
	case t.By.By == ByAll || t.By.By == ByPrefix || t.By.By == ByAddr:
		c.fail(n, "by: field customer", "tiers need by: the field with the customer")
	case t.File == "":
		c.fail(n, "", "tiers need file: the tier of each customer")
	case len(t.Tiers) == 0:
		c.fail(n, "free: {capacity: 10, leak: 6s}", "tiers need at least one tier")
	case t.Default == "":
		c.fail(n, "default: "+sortedKeys(t.Tiers)[0], "tiers need default: the tier of all other customers")
	default:
		if _, ok := t.Tiers[t.Default]; !ok {
			c.fail(n, didYouMean(t.Default, sortedKeys(t.Tiers)), "there is no tier %q", clip(t.Default))
			return false
		}
		return true
	}
	return false
}

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
		m, _ := tableOf("customer: tier", word("a tier", names...), nil).read(in, root)
		t.Members = m
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
