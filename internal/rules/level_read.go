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
		addLevels("bucket", "a leaky bucket: how many points it holds, and how fast one drains", b, b.shape),
		addLevels("buckets", "several buckets, each with its own answer", b, list(b).shape),
		addLevels("window", "an exact count within a time, or a count of distinct values", w, w.shape),
		addLevels("windows", "several windows, each with its own answer", w, list(w).shape),
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
		key("ttl", "TTL of a first block", duration("ttl", time.Second, maxTTL), func(o *O) *time.Duration { return &of(o).TTL }),
		key("multiply", "factor for the TTL of each further block", factor("multiply", 1000), func(o *O) *float64 { return &of(o).Multiply }),
		key("max", "maximum TTL of a block", duration("max", time.Second, maxTTL), func(o *O) *time.Duration { return &of(o).Max }),
		key("weight", "points of an event in this bucket or window (default: the rule's weight)", optional(weightValue()), func(o *O) **Weight { return &of(o).Weight }),
		key("then", "what to do on a breach of this bucket or window", answersValue(), func(o *O) *[]Answer { return &of(o).Then }),
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
		must(key("capacity", "points it holds; with capacity 5 the sixth is a breach", integer("capacity", 0, maxCount), func(l *Level) *int { return &l.Capacity })),
		must(key("leak", "time in which one point drains", duration("leak", minLeak, maxLeak), func(l *Level) *time.Duration { return &l.Leak })),
		key("per", "connection: count each connection once, however often it fails, and ignore lines without one", word("per", "connection"), func(l *Level) *string { return &l.per }),
	}, answerFields(same)...)
	v := object("a bucket", fs, func() Level { return Level{Kind: Bucket} })
	return value[Level]{v.shape, func(c *checker, n *yaml.Node) (Level, bool) {
		l, ok := v.read(c, n)
		l.Line, l.PerConn = n.Line, l.per != ""
		if ok && time.Duration(l.Capacity+1) > maxDrain/max(l.Leak, 1) {
			c.fail(n, "", "a full bucket would take longer than 700d to drain")
			ok = false
		}
		return l, ok
	}}
}

func windowValue() value[Level] {
	of := func(w *windowEntry) *Level { return &w.Level }
	fs := append([]field[windowEntry]{
		key("count", "this many events are a breach, like maxretry", integer("count", 1, 10_000), func(w *windowEntry) *int { return &w.count }),
		key("over", "more than this many events are a breach", integer("over", 0, 10_000), func(w *windowEntry) *int { return &w.over }),
		must(key("within", "length of the window", duration("within", time.Second, 30*day), func(w *windowEntry) *time.Duration { return &w.Within })),
		key("distinct", "count only different values of this, written as in key", keyValue(), func(w *windowEntry) *Key { return &w.distinct }),
		key("prefix", "with distinct: prefix, count the sources of each network of this length, and block the part that contains most of them; a family without a length is not counted", lensValue("prefix lengths"), func(w *windowEntry) *Lens { return &w.Level.Prefix }),
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
			c.fail(n, "", "a window needs either count (this many are a breach) or over (more than this many are)")
			ok = false
		}
		return l, ok
	}}
}
