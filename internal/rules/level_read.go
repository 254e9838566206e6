package rules

import (
	"time"

	"gopkg.in/yaml.v3"
)

// windowEntry is a window as it is written.
type windowEntry struct {
	Level
	count, over int
	distinct    Key
}

// levelFields are bucket, buckets, window and windows: all of them add levels.
func levelFields() []field[draft] {
	b, w := bucketValue(), windowValue()
	return []field[draft]{
		addLevels("bucket", "a leaky bucket: how many events it holds, and how fast one drains", b, b.shape),
		addLevels("buckets", "several, each with its own answer", b, list(b).shape),
		addLevels("window", "an exact count within a time, or a count of distinct values", w, w.shape),
		addLevels("windows", "several, each with its own answer", w, list(w).shape),
	}
}

func addLevels(name, about string, v value[Level], s *shape) field[draft] {
	all := list(v)
	return field[draft]{fieldDoc{name: name, about: about, shape: s}, func(c *checker, n *yaml.Node, d *draft) {
		ls, ok := all.read(c, n)
		if ok && len(ls) == 0 {
			c.fail(n, "", "an empty list counts nothing")
		}
		d.levels = append(d.levels, ls...)
	}}
}

// answerFields are what a level may have of its own.
func answerFields[O any](of func(*O) *Level) []field[O] {
	return []field[O]{
		key("ttl", "how long its blocks hold at first", duration("ttl", time.Second, maxTTL), func(o *O) *time.Duration { return &of(o).TTL }),
		key("multiply", "by what each repeat multiplies the ttl", factor("multiply", 1000), func(o *O) *float64 { return &of(o).Multiply }),
		key("max", "the longest its blocks may hold", duration("max", time.Second, maxTTL), func(o *O) *time.Duration { return &of(o).Max }),
		key("weight", "what an event counts for in this one; as the rule says when left out", optional(weightValue()), func(o *O) **Weight { return &of(o).Weight }),
		key("then", "what happens on a breach of this one", answersValue(), func(o *O) *[]Answer { return &of(o).Then }),
	}
}

// optional makes a value that can be told from none.
func optional[T any](v value[T]) value[*T] {
	return value[*T]{v.shape, func(c *checker, n *yaml.Node) (*T, bool) {
		x, ok := v.read(c, n)
		return &x, ok
	}}
}

func bucketValue() value[Level] {
	same := func(l *Level) *Level { return l }
	fs := append([]field[Level]{
		must(key("capacity", "events it holds: capacity 5 breaches at the sixth", integer("capacity", 0, maxCount), func(l *Level) *int { return &l.Capacity })),
		must(key("leak", "time for one event to drain", duration("leak", minLeak, maxLeak), func(l *Level) *time.Duration { return &l.Leak })),
	}, answerFields(same)...)
	v := object("a bucket", fs, func() Level { return Level{Kind: Bucket} })
	return value[Level]{v.shape, func(c *checker, n *yaml.Node) (Level, bool) {
		l, ok := v.read(c, n)
		l.Line = n.Line
		if ok && time.Duration(l.Capacity+1) > maxDrain/max(l.Leak, 1) {
			c.fail(n, "", "it would take longer than 700d to drain")
			ok = false
		}
		return l, ok
	}}
}

func windowValue() value[Level] {
	of := func(w *windowEntry) *Level { return &w.Level }
	fs := append([]field[windowEntry]{
		key("count", "breaches at so many, as maxretry", integer("count", 1, 10_000), func(w *windowEntry) *int { return &w.count }),
		key("over", "breaches at more than so many", integer("over", 0, 10_000), func(w *windowEntry) *int { return &w.over }),
		must(key("within", "the time that is looked back", duration("within", time.Second, 30*day), func(w *windowEntry) *time.Duration { return &w.Within })),
		key("distinct", "count only different values of this, as in key", keyValue(), func(w *windowEntry) *Key { return &w.distinct }),
	}, answerFields(of)...)
	v := object("a window", fs, func() windowEntry { return windowEntry{over: -1} })
	return value[Level]{v.shape, func(c *checker, n *yaml.Node) (Level, bool) {
		w, ok := v.read(c, n)
		l := w.Level
		l.Kind, l.Line, l.Of, l.Over = Window, n.Line, w.distinct, w.over
		if w.distinct != nil {
			l.Kind = Distinct
		}
		if w.count > 0 {
			l.Over = w.count - 1
		}
		if ok && (w.count > 0) == (w.over >= 0) {
			c.fail(n, "", "a window needs one of count (breaches at so many) and over (at more)")
			ok = false
		}
		return l, ok
	}}
}
