package detect

import (
	"encoding/binary"
	"errors"
	"slices"

	"stoplog/internal/bucket"
	"stoplog/internal/rules"
)

// errState is of saved state that ends too early or makes no sense. Whoever
// stores it checks its sum; this only keeps a bug from becoming a panic.
var errState = errors.New("saved counts are corrupt")

const stateVersion = 1

// AppendBinary appends all counts to b: each level's with its meaning, so that
// only what still means the same is restored.
func (e *Engine) AppendBinary(b []byte) []byte {
	b = append(slices.Grow(b, e.saved()), stateVersion)
	n := 0
	for _, c := range e.counters {
		n += len(c.levels)
	}
	b = binary.AppendUvarint(b, uint64(n))
	for _, c := range e.counters {
		for i := range c.levels {
			b = appendBlob(b, []byte(c.levels[i].meaning))
			b = inBlob(b, c.levels[i].append)
		}
	}
	b = e.quiet.append(b)
	return inBlob(b, e.evidence.AppendBinary)
}

// saved is about how many bytes AppendBinary appends.
func (e *Engine) saved() int {
	n := e.evidence.Bytes()
	for _, c := range e.counters {
		for i := range c.levels {
			for _, t := range [...]*bucket.Table{c.levels[i].table, c.levels[i].parts} {
				if t != nil {
					n += t.Len()*bucket.SavedBytes + 64
				}
			}
		}
	}
	return n
}

// Restore replaces the counts by what AppendBinary wrote, perhaps under other
// rules: levels whose meaning is gone or new are empty. On an error all are.
func (e *Engine) Restore(b []byte) error {
	old := map[string][]byte{}
	r := reader{b: b}
	if r.byte() != stateVersion {
		r.bad = true
	}
	for range r.count() {
		meaning := string(r.blob())
		old[meaning] = r.blob()
	}
	q := r.quiet()
	evidence := r.blob()
	err := error(nil)
	if r.bad || len(r.b) > 0 {
		err = errState
	}
	for _, c := range e.counters {
		for i := range c.levels {
			l := &c.levels[i]
			if saved, _, ok := before(l, old); ok && err == nil {
				err = l.restore(saved)
			}
		}
	}
	if err == nil {
		e.quiet = q
		if e.set.Privacy.Lines {
			_, err = e.evidence.Restore(evidence)
		}
	}
	if err != nil {
		e.empty()
	}
	return err
}

func (e *Engine) empty() {
	e.counters = newCounters(e.set, e.seed)
	e.quiet = newQuiet()
	e.evidence = bucket.NewEvidence(e.set.Limits.Evidence, e.seed)
	e.reindex()
}

// append writes a level's counts; what it is made of follows from its meaning,
// but for the parts, which are there or not.
func (l *level) append(b []byte) []byte {
	switch l.Kind {
	case rules.Bucket:
		b = l.table.AppendBinary(b)
		if l.parts != nil {
			b = l.parts.AppendBinary(b)
		}
	case rules.Window:
		b = l.window.AppendBinary(b)
	case rules.Distinct:
		b = l.distinct.AppendBinary(b)
	}
	return b
}

func (l *level) restore(b []byte) (err error) {
	switch l.Kind {
	case rules.Bucket:
		b, err = l.table.Restore(b)
		if err == nil && l.parts != nil && len(b) > 0 {
			_, err = l.parts.Restore(b)
		}
	case rules.Window:
		_, err = l.window.Restore(b)
	case rules.Distinct:
		_, err = l.distinct.Restore(b)
	}
	return err
}

// Swap goes on by other rules. Levels whose meaning is unchanged keep their
// counts, whatever became of their room, answers or place in the file. The set
// stays the caller's and must not change.
func (e *Engine) Swap(set *rules.Set) {
	old := map[string]*level{}
	totals := map[string]*counter{}
	for _, c := range e.counters {
		totals[c.rule.Name] = c
		for i := range c.levels {
			old[c.levels[i].meaning] = &c.levels[i]
		}
	}
	if set.Limits.Evidence != e.set.Limits.Evidence || !set.Privacy.Lines {
		e.evidence = bucket.NewEvidence(set.Limits.Evidence, e.seed)
	}
	e.set, e.counters = set, newCounters(set, e.seed)
	e.reindex()
	for _, c := range e.counters {
		if o := totals[c.rule.Name]; o != nil {
			c.matched, c.poured, c.breached = o.matched, o.poured, o.breached
		}
		for i := range c.levels {
			c.levels[i].follow(old)
		}
	}
}

// follow goes on with the counts of the level of the same meaning. One that
// joins others of its meaning begins with a copy of what they have counted.
func (l *level) follow(old map[string]*level) {
	o, own, found := before(l, old)
	switch {
	case own:
		l.inherit(o)
	case found:
		_ = l.restore(o.append(nil)) // what was just written can be read
	}
}

// inherit takes over the counts of a level of the same meaning. A table of
// another size is filled again; what it cannot hold goes as in a flood.
func (l *level) inherit(o *level) {
	switch l.Kind {
	case rules.Bucket:
		l.table = sized(l.table, o.table)
		if l.parts != nil && o.parts != nil {
			l.parts = sized(l.parts, o.parts)
		}
	case rules.Window:
		l.window = o.window
	case rules.Distinct:
		if l.distinct.Cap() == o.distinct.Cap() {
			l.distinct = o.distinct
		} else if _, err := l.distinct.Restore(o.distinct.AppendBinary(nil)); err != nil {
			l.distinct = o.distinct
		}
	}
}

func sized(empty, old *bucket.Table) *bucket.Table {
	if empty.Max() == old.Max() {
		return old
	}
	if _, err := empty.Restore(old.AppendBinary(nil)); err != nil {
		return old
	}
	return empty
}

func appendBlob(b, blob []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(blob))), blob...)
}

// inBlob appends what f appends as a blob, without a copy of it: its length takes
// as many bytes as the longest.
func inBlob(b []byte, f func([]byte) []byte) []byte {
	const room = 5
	at := len(b)
	b = f(append(b, make([]byte, room)...))
	n := len(b) - at - room
	for i := range room - 1 {
		b[at+i] = byte(n>>(7*i)) | 0x80
	}
	b[at+room-1] = byte(n >> (7 * (room - 1)))
	return b
}

// append writes the silences in a set order, with keys as strings of a table.
func (q *quiet) append(b []byte) []byte {
	byMeaning := map[string]*bucket.Table{}
	for id, until := range q.until {
		t := byMeaning[id.meaning]
		if t == nil {
			t = bucket.NewTable(maxQuiet, 0)
			byMeaning[id.meaning] = t
		}
		// A bucket poured at until−1ns for one nanosecond is empty at until.
		t.Pour(id.key, until-1, 1, drop)
	}
	names := make([]string, 0, len(byMeaning))
	for n := range byMeaning {
		names = append(names, n)
	}
	slices.Sort(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, n := range names {
		b = appendBlob(b, []byte(n))
		b = appendBlob(b, byMeaning[n].AppendBinary(nil))
	}
	return b
}

// reader reads what was appended; bad is set by the first thing that is not
// there, and then all it gives is empty.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if r.bad || len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// count reads a number of things that take a byte each at least.
func (r *reader) count() int {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || v > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *reader) blob() []byte {
	n := r.count()
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) quiet() quiet {
	q := newQuiet()
	for range r.count() {
		meaning := string(r.blob())
		t := bucket.NewTable(maxQuiet, 0)
		if _, err := t.Restore(r.blob()); err != nil {
			r.bad = true
			return q
		}
		t.Range(func(b bucket.Bucket) bool {
			q.until[quietID{meaning, b.Key}] = b.Empty
			return len(q.until) < maxQuiet
		})
	}
	return q
}
