package detect

import (
	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// Ahead is an event that was looked at ahead of time. The zero Ahead is ready
// for Prepare.
type Ahead struct{ m moment }

// Prepare looks at where the buckets are that ev would be poured into, so that
// ObserveAhead finds them in the processor's cache: prepared some events at a
// time, the waits for memory overlap. It changes no count, and leaves out what
// is costly to name. The arguments are those of Observe and must stay as they
// are until ObserveAhead.
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
			e.touch(c, &a.m)
		}
	}
}

// touch looks at the buckets of one counter.
func (e *Engine) touch(c *counter, m *moment) {
	_, p := e.prefixOf(c.rule, c.by, m)
	e.warmth ^= e.evidence.Touch(p.Key, c.scope)
	var part bool
	if c.parts && m.ev.Kind != parse.UnknownUser {
		_, part = e.partSpot(c, m)
	}
	for i := range c.levels {
		l := &c.levels[i]
		if l.table != nil {
			e.warmth ^= l.table.Touch(p)
		}
		if part && l.parts != nil {
			e.warmth ^= l.parts.Touch(m.part)
		}
	}
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
