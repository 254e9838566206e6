package detect

import (
	"net/netip"
	"time"

	"stoplog/internal/bucket"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

const (
	// knownRoom is how many times the room a known-good source has, and namesRoom
	// one from which others than the event's user logged in.
	knownRoom, namesRoom = 20, 4
	// maxEvidence is how many lines a breach carries.
	maxEvidence = 10
	// maxCount bounds for how many events one line can count.
	maxCount = 1000
)

// pour adds the event to the rule's levels for key k, as often as it weighs.
func (e *Engine) pour(c *counter, m *evaluation, p bucket.HashedKey) {
	k := p.Key
	attempts := min(m.ev.Count, maxCount)
	usual := c.rule.Weight.Of(m.ev, m.origin)
	c.poured++
	if m.line != nil && c.levels[0].Kind != rules.Trigger && e.set.Privacy.Lines {
		e.evidence.Add(k, c.scope, m.at, m.line.Text)
	}
	e.touch(c, m, p)
	first := len(e.out)
	for i := range c.levels {
		l := &c.levels[i]
		if l.hush > 0 && c.rule.Observe && e.quiet.on(quietKey(l, k), m.at) {
			continue // as if a block stood
		}
		weight := usual
		if l.Weight != nil {
			weight = l.Weight.Of(m.ev, m.origin)
		}
		if weight == 0 {
			continue
		}
		if l.Wide() {
			e.pourWide(c, i, m)
			continue
		}
		if a, breached := e.add(c, l, m, p, attempts, weight); breached {
			e.breach(c, i, m, k, a)
		}
	}
	if e.sharing != nil {
		e.sharing.note(c, m, k)
	}
	if len(e.out) > first+1 {
		e.out = severest(e.out, first, e.set.Block.TTL)
	}
}

// touch begins to read where the key's buckets and parts are found, in all tables
// at once: most lines are of sources that the caches do not hold.
func (e *Engine) touch(c *counter, m *evaluation, p bucket.HashedKey) {
	if len(c.levels) < 2 {
		return
	}
	part := m.ev.Kind != parse.UnknownUser && c.rule.Clears && e.findPart(c, m)
	for i := range c.levels {
		l := &c.levels[i]
		if l.table != nil {
			e.touched += l.table.Touch(p)
		}
		if part && l.parts != nil {
			e.touched += l.parts.Touch(m.part.hashed)
		}
	}
	for i := range c.levels {
		l := &c.levels[i]
		if l.table != nil {
			e.touched += l.table.TouchSlot(p)
		}
		if part && l.parts != nil {
			e.touched += l.parts.TouchSlot(m.part.hashed)
		}
	}
}

// amount is what a level holds: events, and the points they weighed that have
// not drained.
type amount struct{ events, points int }

// add pours n events of that weight into one level. The amount is of a breach.
func (e *Engine) add(c *counter, l *level, m *evaluation, p bucket.HashedKey, n, weight int) (a amount, breached bool) {
	k := p.Key
	switch l.Kind {
	case rules.Bucket:
		if m.ev.Kind == parse.Probe && l.Leak >= rules.SlowLeak {
			return a, false // monitors probe all day: they never fill a slow bucket
		}
		if l.PerConn {
			if !m.ev.First {
				return a, false
			}
			n = 1
		}
		p = e.hashedFor(c, m, p)
		k = p.Key
		lim := e.limit(c, l, m, p, n*weight)
		a.points, breached = l.table.PourHashed(p, m.at, n, weight, lim)
		if breached {
			// What an earlier version saved has no number of events.
			a.events = max(l.table.Poured(k), a.points/l.WeightIn(c.rule).Most())
		}
		if l.parts != nil && breached {
			l.mark(k, m.at)
		} else if l.parts != nil {
			e.addPart(c, l, m, n*weight, lim)
		}
		return a, breached
	case rules.Window:
		if l.First {
			a.points, _ = l.window.Pour(k, m.at, 1, 1, l.rolling(0))
			a.events = a.points
			return a, a.points == 1
		}
		k, over := e.roomFor(c, l, m, k)
		a.points, breached = l.window.Pour(k, m.at, n, weight, l.rolling(over))
		if breached {
			a.events = l.window.Events(k, m.at, l.rolling(over))
		}
		return a, breached
	case rules.Distinct:
		v, ok := e.keyOf(c, l.Of, m)
		if !ok {
			return a, false
		}
		k, over := e.roomFor(c, l, m, k)
		a.points, breached = l.distinct.Pour(k, v, m.at, n*weight, l.spread(over))
		a.events = a.points
		return a, breached
	}
	return amount{n, n * weight}, true
}

// limit is the room of the key's bucket for this event: by tier, by network
// where sources are counted apart, by raised flags and earlier blocks, and many
// times of it for a source from which somebody logged in. That last is done by
// letting its events weigh a fraction: capacity ×20 and leak ÷20 are the same
// depth in time, so that events of different rooms can share a bucket. Whether a
// condition of `when` holds is asked only if add points more would not fit then.
func (e *Engine) limit(c *counter, l *level, m *evaluation, p bucket.HashedKey, add int) bucket.Limit {
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
		if w.Capacity < lim.Capacity && m.stranger() && l.table.LevelHashed(p, m.at, lim)+add > w.Capacity && e.holds(c, &w, m) {
			lim.Capacity = w.Capacity
		}
	}
	if c.source && !m.stranger() {
		room := namesRoom
		if m.judge() == KnownGood {
			room = knownRoom
		}
		lim.Capacity *= room
		lim.Leak = max(lim.Leak/time.Duration(room), 1)
	}
	return lim
}

// holds reports whether a condition of `when` does for this event.
func (e *Engine) holds(c *counter, w *rules.When, m *evaluation) bool {
	if w.Flag != "" {
		return m.gate.Flag(w.Flag, m.at)
	}
	p := e.blocked(c, m)
	if !p.IsValid() {
		return false
	}
	if m.struck.prefix != p { // the levels of all rules mostly ask for one prefix
		m.struck.prefix = p
		m.struck.ended, m.struck.ok = m.gate.Struck(p, m.at)
	}
	return m.struck.ok && m.at-m.struck.ended < int64(w.Blocked)
}

// hashedFor is the bucket that the event counts in: sources from which somebody
// logged in are counted apart from the strangers of their prefix, so that
// neither takes the other's room.
func (e *Engine) hashedFor(c *counter, m *evaluation, p bucket.HashedKey) bucket.HashedKey {
	if !m.ev.Addr.IsValid() || !c.source || m.stranger() {
		return p
	}
	prefix, ok := p.Key.Prefix()
	if !ok {
		return p
	}
	return e.places.Hash(bucket.KeyOfPair(prefix, knownKind, nil))
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
// a source from which somebody logged in is counted apart, as in buckets.
func (e *Engine) roomFor(c *counter, l *level, m *evaluation, k bucket.Key) (bucket.Key, int) {
	if !m.ev.Addr.IsValid() || !c.source {
		return k, l.Over
	}
	over := e.network(m).Holds(l.Over)
	p, ok := k.Prefix()
	if !ok || m.stranger() {
		return k, over
	}
	return bucket.KeyOfPair(p, knownKind, nil), over * namesRoom
}

// knownKind is the kind of key under which sources from which somebody logged
// in are counted apart.
const knownKind = 1

// breach adds what level i of c has to say to e.out, unless it said so lately.
func (e *Engine) breach(c *counter, i int, m *evaluation, k bucket.Key, a amount) {
	l := &c.levels[i]
	contributors := e.contributors(l, m, k)
	if len(contributors) == 0 && l.onlyContributors {
		return
	}
	if l.hush > 0 && !e.quiet.start(quietKey(l, k), m.at, l.hush) {
		return
	}
	b := e.newBreach(c, i, m, a)
	b.Prefix = e.blocked(c, m)
	b.Key = e.printKey(c, m)
	b.Contributors = contributors
	if m.line != nil && e.set.Privacy.Lines {
		e.show(c, m, k, &b)
	}
	c.breached++
	e.out = append(e.out, b)
}

// newBreach fills in what any breach of a level has.
func (e *Engine) newBreach(c *counter, i int, m *evaluation, a amount) Breach {
	l := &c.levels[i]
	b := Breach{
		At: m.at, Rule: c.rule.Name, Level: i, Addr: m.ev.Addr,
		Service: m.ev.Service, User: printable(m.ev.User), Count: a.events, Points: a.points, Unit: l.unit(m.ev),
		TTL: l.TTL, Multiply: l.Multiply, Max: l.Max, Answers: l.answers, Observe: c.rule.Observe,
	}
	if !c.rule.Match.Except {
		b.Services = c.rule.Match.Services
	}
	if m.origin != nil {
		b.Source = m.origin.Name
	}
	if m.line != nil {
		b.Line = m.line.Number
	}
	if !e.set.Privacy.Lines {
		b.User = ""
	}
	return b
}

// blocked is the prefix that a block answer of this event is about; invalid
// when the rule counts by no source.
func (e *Engine) blocked(c *counter, m *evaluation) netip.Prefix {
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
func (e *Engine) show(c *counter, m *evaluation, k bucket.Key, b *Breach) {
	if c.levels[b.Level].Kind == rules.Trigger {
		b.Evidence = []string{string(m.line.Text[:min(len(m.line.Text), bucket.MaxLine)])}
		return
	}
	lines, partial := e.evidence.Lines(k, c.scope, maxEvidence, b.Count)
	for _, l := range lines {
		b.Evidence = append(b.Evidence, l.Text)
	}
	b.Partial = partial && (len(lines) == maxEvidence || len(lines) < b.Count)
}

// contributors lists who filled a distinct window, the busiest first, for a
// block of each; those that were blocked or allowed by now are left out.
func (e *Engine) contributors(l *level, m *evaluation, k bucket.Key) []netip.Prefix {
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
