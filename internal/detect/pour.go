package detect

import (
	"net/netip"

	"stoplog/internal/bucket"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

const (
	// knownRoom is how many times the room a known-good source has.
	knownRoom = 4
	// maxEvidence is how many lines a breach carries.
	maxEvidence = 10
	// maxCount bounds for how many events one line can count.
	maxCount = 1000
)

// pour adds the event to the rule's levels for key k, as often as it weighs.
func (e *Engine) pour(c *counter, m *moment, p bucket.Spot) {
	k := p.Key
	attempts := min(m.ev.Count, maxCount)
	usual := attempts * c.rule.Weight.Of(m.ev, m.origin)
	c.poured++
	if m.line != nil && c.levels[0].Kind != rules.Trigger {
		e.evidence.Add(k, c.scope, m.at, m.line.Text)
	}
	first := len(e.out)
	for i := range c.levels {
		l := &c.levels[i]
		if l.hush > 0 && c.rule.Observe && e.quiet.on(quietKey(l, k), m.at) {
			continue // as if a block stood
		}
		n := usual
		if l.Weight != nil {
			n = attempts * l.Weight.Of(m.ev, m.origin)
		}
		if n == 0 {
			continue
		}
		count, breached := e.add(c, l, m, p, n)
		if breached {
			e.breach(c, i, m, k, count)
		}
	}
	if len(e.out) > first+1 {
		e.out = severest(e.out, first, e.set.Block.TTL)
	}
}

// add pours into one level.
func (e *Engine) add(c *counter, l *level, m *moment, p bucket.Spot, n int) (count int, breached bool) {
	k := p.Key
	switch l.Kind {
	case rules.Bucket:
		if m.ev.Kind == parse.Probe && l.Leak >= rules.SlowLeak {
			return 0, false // monitors probe all day: they never fill a slow bucket
		}
		lim := e.limit(c, l, m)
		count, breached = l.table.PourSpot(p, m.at, n, lim)
		if l.parts != nil && breached {
			l.mark(k, m.at)
		} else if l.parts != nil {
			e.addPart(c, l, m, n, lim)
		}
		return count, breached
	case rules.Window:
		k, over := e.roomFor(c, l, m, k)
		return l.window.Pour(k, m.at, n, l.rolling(over))
	case rules.Distinct:
		v, ok := e.keyOf(c, l.Of, m)
		if !ok {
			return 0, false
		}
		k, over := e.roomFor(c, l, m, k)
		return l.distinct.Pour(k, v, m.at, n, l.spread(over))
	}
	return n, true
}

// limit is the room of the key's bucket for this event: by tier, by network
// where sources are counted apart, by raised flags; and four times of it for a
// known-good source. That last is
// done by letting its events weigh a quarter: capacity ×4 and leak ÷4 are the
// same depth in time, so a stranger of the same prefix finds the bucket a
// quarter as full as if a stranger had failed, and not beyond its brim.
func (e *Engine) limit(c *counter, l *level, m *moment) bucket.Limit {
	lim := l.limit
	if t := c.rule.Tiers; t != nil {
		v, _ := textOf(t.By, m)
		tier := t.Of(string(v))
		lim = bucket.Limit{Capacity: tier.Capacity, Leak: tier.Leak}
	}
	if !m.ev.Addr.IsValid() {
		return lim
	}
	if n := e.network(m); n != nil && c.source {
		lim = limitIn(n, lim)
	}
	for _, w := range c.rule.When {
		if w.Capacity < lim.Capacity && m.gate.Flag(w.Flag, m.at) && m.stranger() {
			lim.Capacity = w.Capacity
		}
	}
	if c.source && m.judge() == KnownGood {
		lim.Capacity *= knownRoom
		lim.Leak /= knownRoom
	}
	return lim
}

// limitIn is a bucket's limit inside a network, where it is lim elsewhere: no
// more than can drain within a bucket's span.
func limitIn(n *rules.Network, lim bucket.Limit) bucket.Limit {
	if n != nil {
		lim.Capacity = min(n.Holds(lim.Capacity), int(int64(bucket.MaxSpan)/max(int64(lim.Leak), 1))-1)
	}
	return lim
}

// roomFor is how much a window holds of this event's source, and by what key:
// a known-good source is counted apart, so that its many failures take nothing
// of the strangers' room.
func (e *Engine) roomFor(c *counter, l *level, m *moment, k bucket.Key) (bucket.Key, int) {
	if !m.ev.Addr.IsValid() || !c.source {
		return k, l.Over
	}
	over := e.network(m).Holds(l.Over)
	if m.judge() != KnownGood {
		return k, over
	}
	p, ok := k.Prefix()
	if !ok {
		return k, over
	}
	return bucket.KeyOfPair(p, knownKind, nil), over * knownRoom
}

// knownKind is the kind of key under which known-good sources are counted
// apart in windows.
const knownKind = 1

// breach adds what level i of c has to say to e.out, unless it said so lately.
func (e *Engine) breach(c *counter, i int, m *moment, k bucket.Key, count int) {
	l := &c.levels[i]
	contributors := e.contributors(l, m, k)
	if len(contributors) == 0 && l.onlyContributors {
		return
	}
	if l.hush > 0 && !e.quiet.start(quietKey(l, k), m.at, l.hush) {
		return
	}
	b := Breach{
		At: m.at, Rule: c.rule.Name, Level: i, Key: e.printKey(c, m), Addr: m.ev.Addr,
		Service: m.ev.Service, User: printable(m.ev.User), Count: count,
		TTL: l.TTL, Multiply: l.Multiply, Max: l.Max, Answers: l.answers, Observe: c.rule.Observe,
	}
	b.Prefix = e.blocked(c, m)
	b.Contributors = contributors
	if m.origin != nil {
		b.Source = m.origin.Name
	}
	if m.line != nil {
		b.Line = m.line.Number
		e.show(c, m, k, &b)
	}
	c.breached++
	e.out = append(e.out, b)
}

// blocked is the prefix that a block answer of this event is about; invalid
// when the rule counts by no source.
func (e *Engine) blocked(c *counter, m *moment) netip.Prefix {
	for _, part := range c.rule.Key {
		if part.By == rules.ByPrefix || part.By == rules.ByAddr {
			p, _ := e.prefixOf(c.rule, part.By, m)
			return p
		}
	}
	return netip.Prefix{}
}

// show puts the lines that filled the bucket into b. Fewer lines than events
// may be all there were, when lines count more than once.
func (e *Engine) show(c *counter, m *moment, k bucket.Key, b *Breach) {
	if c.levels[b.Level].Kind == rules.Trigger {
		b.Evidence = []string{string(m.line.Text[:min(len(m.line.Text), bucket.MaxLine)])}
		return
	}
	lines, partial := e.evidence.Lines(k, c.scope, maxEvidence, b.Count)
	for _, l := range lines {
		b.Evidence = append(b.Evidence, l.Text)
	}
	b.Partial = partial && (len(lines) == maxEvidence || len(lines)*c.levels[b.Level].WeightIn(c.rule).Most() < b.Count)
}

// contributors lists who filled a distinct window, the busiest first, for a
// block of each; those that were blocked or allowed by now are left out.
func (e *Engine) contributors(l *level, m *moment, k bucket.Key) []netip.Prefix {
	if l.each == 0 {
		return nil
	}
	var out []netip.Prefix
	for _, v := range l.distinct.List(k, m.at, l.spread(l.Over), l.each) {
		p, ok := v.Key.Prefix()
		if !ok || len(out) >= maxContributors {
			continue
		}
		if v := m.gate.Verdict(p.Addr(), m.ev.Service, m.ev.User, m.at); v == Blocked || v == Allowed {
			continue
		}
		out = append(out, p)
	}
	return out
}

// maxContributors bounds how many blocks one breach can ask for.
const maxContributors = 256
