package detect

import (
	"time"

	"stoplog/internal/bucket"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// Step is the result of one rule for an event.
type Step struct {
	Rule string
	// Why is the reason why the rule does not count it, "" if it does.
	Why string
	// Near says that the event meets all conditions of the match but one.
	Near   bool
	Key    string // the value of the rule's key
	Levels []StepLevel
}

// StepLevel is the effect that the event would have on one level.
type StepLevel struct {
	Kind     string
	Weight   int // points of the event
	Held     int // before it
	Capacity int // more points are a breach
	Breaches bool
	TTL      time.Duration // of the block; 0: the configured one
	Drains   time.Duration // from now until empty, before it; 0 for windows
}

// Explain evaluates an event against every rule, in order, and changes nothing.
func (e *Engine) Explain(ev *parse.Event, origin *source.Origin, g Gate) []Step {
	var out []Step
	for _, c := range e.counters {
		m := evaluation{ev: ev, origin: origin, gate: g, at: ev.Time}
		s := Step{Rule: c.rule.Name}
		s.Why, s.Near = e.whyNot(c, &m)
		if k, ok := e.keyOf(c, c.rule.Key, &m); ok && s.Why == "" {
			s.Key = e.printKey(c, &m)
			for i := range c.levels {
				s.Levels = append(s.Levels, e.explain(c, &c.levels[i], &m, k))
			}
		}
		out = append(out, s)
	}
	return out
}

// whyNot returns the reason why the rule does not count the event, and whether one
// condition alone is the reason.
func (e *Engine) whyNot(c *counter, m *evaluation) (why string, near bool) {
	verdict := Stranger
	if m.ev.Addr.IsValid() {
		verdict = m.judge()
	}
	if reasons := c.rule.Match.Why(m.ev, m.origin, verdict == KnownGood); len(reasons) > 0 {
		return reasons[0], c.rule.Nearly(m.ev, reasons)
	}
	switch {
	case verdict == Allowed:
		return "the address is allowed", false
	case verdict == Blocked:
		return "the address is already blocked", false
	case verdict == KnownGood && c.byUser && m.ev.Outcome != parse.Success:
		return "this user is known-good at this address", false
	case m.ev.Count == 0:
		return "an earlier line reported the same attempt", false
	}
	if _, ok := e.keyOf(c, c.rule.Key, m); !ok {
		return "the line has no value for the rule's key: " + c.rule.Key.String(), false
	}
	return "", false
}

func (e *Engine) explain(c *counter, l *level, m *evaluation, k bucket.Key) StepLevel {
	n := min(m.ev.Count, maxCount) * l.WeightIn(c.rule).Of(m.ev, m.origin)
	s := StepLevel{Kind: l.Kind.String(), Weight: n, TTL: l.TTL, Breaches: n > 0}
	switch l.Kind {
	case rules.Bucket:
		if m.ev.Kind == parse.Probe && l.Leak >= rules.SlowLeak {
			n, s.Weight = 0, 0
		}
		p := e.hashedFor(c, m, e.places.Hash(k))
		k = p.Key
		lim := e.limit(c, l, m, p, 1<<30)
		if l.PerConn {
			if n = 0; m.ev.First {
				n = l.WeightIn(c.rule).Of(m.ev, m.origin)
			}
			s.Weight = n
		}
		depth := l.table.Level(k, m.at, drop)
		s.Held, s.Capacity, s.Drains = l.table.Level(k, m.at, lim), lim.Capacity, time.Duration(depth)
		s.Breaches = n > 0 && time.Duration(depth)+time.Duration(n)*lim.Leak > time.Duration(lim.Capacity)*lim.Leak
	case rules.Window:
		if l.First {
			s.Held = l.window.Count(k, m.at, l.rolling(0))
			s.Breaches = n > 0 && s.Held == 0
			break
		}
		k, over := e.roomFor(c, l, m, k)
		r := l.rolling(over)
		s.Held, s.Capacity = l.window.Count(k, m.at, r), r.Count
		s.Breaches = n > 0 && s.Held+n > r.Count
	case rules.Distinct:
		e.explainDistinct(c, l, m, k, &s)
	}
	return s
}

func (e *Engine) explainDistinct(c *counter, l *level, m *evaluation, k bucket.Key, s *StepLevel) {
	v, ok := e.keyOf(c, l.Of, m)
	var over int
	if l.Wide() {
		network, source, counted := e.widePlace(c, l, m)
		if k, v, ok, over = bucket.KeyOf(network), bucket.KeyOf(source), counted && m.stranger(), l.Over; m.ev.Addr.IsValid() {
			over = e.networkAt(m.ev.Addr).Holds(l.Over)
		}
	} else {
		k, over = e.roomFor(c, l, m, k)
	}
	r := l.spread(over)
	s.Capacity = r.Over
	more := 1
	for _, x := range l.distinct.List(k, m.at, r, 0) {
		s.Held++
		if x.Key == v {
			more = 0
		}
	}
	s.Breaches = ok && s.Weight > 0 && s.Held+more > r.Over
}
