package detect

import (
	"stoplog/internal/bucket"
	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// Ahead is an event that was looked at ahead of time. The zero Ahead is ready
// for Prepare.
type Ahead struct{ m moment }

// Prepare names the buckets that ev would be poured into, for Fetch, after
// which ObserveAhead finds them in the processor's cache: each done for some
// events at once, the waits for memory overlap. None but ObserveAhead changes
// a count, and what is costly to name is left out. The arguments are those of
// Observe and must stay as they are until ObserveAhead.
func (e *Engine) Prepare(a *Ahead, ev *parse.Event, line *source.Line, origin *source.Origin, g Gate) {
	a.m = moment{ev: ev, line: line, origin: origin, gate: g, at: ev.Time}
	if !ev.Addr.IsValid() || ev.Count == 0 {
		return
	}
	cs := e.listsOf(ev.Service).by[ev.Outcome%outcomes][ev.Kind%kinds]
	if len(cs) == 0 || !mayCount(a.m.judge()) {
		return
	}
	for _, c := range cs {
		if c.plain {
			e.look(c, &a.m)
		}
	}
}

// look names the buckets of one counter.
func (e *Engine) look(c *counter, m *moment) {
	_, p := e.prefixOf(c.rule, c.by, m)
	e.looks = append(e.looks, e.evidence.Look(p.Key, c.scope))
	part := c.parts && m.ev.Kind != parse.UnknownUser
	if part {
		_, part = e.partSpot(c, m)
	}
	for i := range c.levels {
		l := &c.levels[i]
		if l.table != nil {
			e.looks = append(e.looks, l.table.Look(p))
		}
		if part && l.parts != nil {
			e.looks = append(e.looks, l.parts.Look(m.part))
		}
	}
}

// Fetch looks at the buckets of the events prepared since it was called last.
func (e *Engine) Fetch() {
	e.warmth |= bucket.Fetch(e.looks)
	e.looks = e.looks[:0]
}

func mayCount(v Verdict) bool { return v != Allowed && v != Blocked }

// ObserveAhead is Observe of a prepared event, once. stale tells that the gate
// may judge otherwise by now.
func (e *Engine) ObserveAhead(a *Ahead, stale bool) []Breach {
	if stale {
		a.m.asked = false
	}
	return e.run(&a.m)
}
