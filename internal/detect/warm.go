package detect

import (
	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// Ahead is an event that was looked at ahead of time. The zero Ahead is ready
// for Prepare.
type Ahead struct{ m moment }

// Prepare begins to look for the buckets that ev would be poured into, Touch
// looks at them, and ObserveAhead then finds them in the processor's cache:
// each done for some events at once, the waits for memory overlap. None but
// ObserveAhead changes a count, and what is costly to name is left out. The
// arguments are those of Observe and must stay as they are until ObserveAhead.
func (e *Engine) Prepare(a *Ahead, ev *parse.Event, line *source.Line, origin *source.Origin, g Gate) {
	a.m = moment{ev: ev, line: line, origin: origin, gate: g, at: ev.Time}
	if !ev.Addr.IsValid() || ev.Count == 0 {
		return
	}
	cs := e.listsOf(ev.Service).by[ev.Outcome%outcomes][ev.Kind%kinds]
	if len(cs) == 0 || !mayCount(a.m.judge()) {
		return
	}
	a.m.ahead = cs
	for _, c := range cs {
		if c.plain {
			e.look(c, &a.m)
		}
	}
}

// look names the buckets of one counter and begins to look for them.
func (e *Engine) look(c *counter, m *moment) {
	_, p := e.prefixOf(c.rule, c.by, m)
	x := e.evidence.Touch(p.Key, c.scope)
	part := c.parts && m.ev.Kind != parse.UnknownUser
	if part {
		_, part = e.partSpot(c, m)
	}
	for i := range c.levels {
		l := &c.levels[i]
		if l.table != nil {
			x |= l.table.Look(p)
		}
		if part && l.parts != nil {
			x |= l.parts.Look(m.part)
		}
	}
	e.warmth |= x
}

// Touch looks at the buckets of a prepared event, if it is to be counted.
func (e *Engine) Touch(a *Ahead) {
	m, x := &a.m, uint64(0)
	for _, c := range m.ahead {
		if !c.plain {
			continue
		}
		_, p := e.prefixOf(c.rule, c.by, m)
		part := m.partOf == c && m.hasPart
		for i := range c.levels {
			l := &c.levels[i]
			if l.table != nil {
				x |= l.table.Touch(p)
			}
			if part && l.parts != nil {
				x |= l.parts.Touch(m.part)
			}
		}
	}
	if len(m.ahead) > 0 && m.line != nil && len(m.line.Text) > 0 {
		x |= uint64(m.line.Text[0])
	}
	e.warmth |= x
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
