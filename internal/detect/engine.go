package detect

import (
	"net/netip"
	"time"

	"stoplog/internal/bucket"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// Options are what an engine needs beside its rules.
type Options struct {
	// Seed places keys in tables; draw it at random, for attackers choose keys.
	// No answer depends on it.
	Seed uint64
}

// Engine counts events by the rules of a Set. It is not safe for concurrent
// use. It starts no goroutine and looks at no clock.
type Engine struct {
	set      *rules.Set
	seed     uint64
	places   bucket.Seed // of all tables
	counters []*counter
	index    map[string]*lists // by service
	last     string            // the service asked for last, and its lists
	lastOf   *lists
	evidence *bucket.Evidence
	quiet    quiet
	out      []Breach
	scratch  []byte
	touched  uint32 // keeps the reads of touch from being left out
	oldest   int64  // of the events since the last sweep
	stats    struct{ events, stragglers, allowed uint64 }
	sharing  *sharing // nil: nothing is shared
}

// New makes an engine with empty buckets. The set stays the caller's and must
// not change.
func New(set *rules.Set, o Options) *Engine {
	e := &Engine{set: set, seed: o.Seed, places: bucket.NewSeed(o.Seed), quiet: newQuiet(), oldest: never,
		evidence: bucket.NewEvidence(set.Limits.Evidence, o.Seed)}
	e.counters = newCounters(set, o.Seed)
	e.reindex()
	return e
}

func (e *Engine) reindex() {
	e.index, e.last, e.lastOf = map[string]*lists{}, "", nil
}

// evaluation is one event on its way through the rules, with what is asked of it
// at most once.
type evaluation struct {
	ev      *parse.Event
	line    *source.Line
	origin  *source.Origin
	gate    Gate
	at      int64
	asked   bool
	verdict Verdict
	known   int8 // somebody logged in from the address: 0 not asked, 1 yes, -1 no
	struck  struck
	part    part
	net     *rules.Network
	cut     rules.Lens // of prefix and hashed, when prefix is valid
	prefix  netip.Prefix
	hashed  bucket.HashedKey
}

// struck is what the gate said of the strikes of a prefix.
type struck struct {
	prefix netip.Prefix // invalid: not asked
	ended  int64
	ok     bool
}

// Observe pours ev into the buckets of the rules that match it, and returns
// what ran over: a slice that the next call uses again, whose elements own
// their memory. ev.Time is the instant. line and origin are those of the event
// and may be nil. An event of an allowed source counts nowhere, nor does one
// of a blocked source. It does not allocate unless something breaches, a
// bucket is new, or a key is longer than a few words.
func (e *Engine) Observe(ev *parse.Event, line *source.Line, origin *source.Origin, g Gate) []Breach {
	m := &evaluation{ev: ev, line: line, origin: origin, gate: g, at: ev.Time}
	e.stats.events++
	e.oldest = min(e.oldest, m.at)
	l := e.listsOf(ev.Service)
	cs := l.by[ev.Outcome%outcomes][ev.Kind%kinds]
	clears := ev.Outcome == parse.Success && len(l.clears)+len(l.wide) > 0
	if len(cs) == 0 && !clears {
		return nil
	}
	e.out = e.out[:0]
	if ev.Count > 0 && e.counts(m) {
		for _, c := range cs {
			e.observe(c, m)
		}
	}
	if clears {
		for _, c := range l.clears {
			e.clear(c, m)
		}
		for _, c := range l.wide {
			e.clearWide(c, m)
		}
	}
	return e.out
}

// counts reports whether the event's source may be counted at all.
func (e *Engine) counts(m *evaluation) bool {
	if !m.ev.Addr.IsValid() {
		return true
	}
	switch m.judge() {
	case Allowed:
		e.stats.allowed++
		return false
	case Blocked:
		e.stats.stragglers++
		return false
	}
	return true
}

func (m *evaluation) judge() Verdict {
	if !m.asked {
		m.asked = true
		m.verdict = m.gate.Verdict(m.ev.Addr, m.ev.Service, m.ev.User, m.at)
	}
	return m.verdict
}

// stranger reports whether nobody logged in from the source lately.
func (m *evaluation) stranger() bool {
	if m.known == 0 {
		m.known = -1
		if m.ev.Addr.IsValid() && m.gate.KnownAddr(m.ev.Addr, m.ev.Service, m.at) {
			m.known = 1
		}
	}
	return m.known < 0
}

// observe takes the event through one rule.
func (e *Engine) observe(c *counter, m *evaluation) {
	r := c.rule
	if !r.Match.Event(m.ev, m.origin) || r.Match.Known != nil && *r.Match.Known != (m.judge() == KnownGood) {
		return
	}
	c.matched++
	if m.ev.Informs && c.acts {
		return
	}
	if c.byUser && m.ev.Outcome != parse.Success && m.judge() == KnownGood {
		return // nobody locks an owner out by failing in their name
	}
	k, ok := e.hashedOf(c, m)
	if !ok {
		return
	}
	e.pour(c, m, k)
}

// Forget empties the buckets that p covers, whatever rule they are of: what an
// unblock by hand asks for. Buckets that are keyed without a source stay.
func (e *Engine) Forget(p netip.Prefix) {
	p = p.Masked()
	for _, c := range e.counters {
		c.forget(p)
	}
	e.quiet.forget(p)
}

// lateness is by how much an event may come late and still find what it would
// have found without a sweep.
const lateness = int64(15 * time.Minute)

// never is later than any event.
const never = int64(1 << 62)

// Sweep drops what had drained a quarter of an hour before the instant at, or
// before the oldest of the events since the last Sweep: while old lines are
// read, it is still their time. Nothing but memory depends on it, unless an
// event is later than that.
func (e *Engine) Sweep(at int64) {
	at = min(at, e.oldest) - lateness
	e.oldest = never
	for _, c := range e.counters {
		for i := range c.levels {
			c.levels[i].sweep(at)
		}
	}
	e.quiet.sweep(at)
}
