package detect

import (
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/bucket"
	"stoplog/internal/rules"
)

// SharedLevel describes a level whose counts other machines may be told of: a
// bucket or a distinct window of a rule that counts by prefix or address alone.
// Rolling windows have no state that is short enough to share, and the keys of
// other rules no prefix that every machine can judge.
type SharedLevel struct {
	Rule         string
	Index        int
	Meaning      string // two levels with the same meaning count the same, by the same limit
	Capacity     int
	Leak         time.Duration // 0 of a distinct window
	Bits4, Bits6 int
	TTL          time.Duration // of a block; 0: the configured one
}

// Change is the state of one bucket after it changed.
type Change struct {
	Rule   string
	Index  int
	Prefix netip.Prefix
	At     int64 // the latest event that changed it, Unix nanoseconds
	Empty  int64 // when the bucket will have drained, or the newest value has left the window
	Line   uint32
	// Values are hashes of what a distinct window holds, the same on every machine;
	// nil of a bucket.
	Values []uint64
}

// sharing notes what changed in the levels that are shared.
type sharing struct {
	levels  map[*counter][]int
	changed map[sharedKey]mark
}

type sharedKey struct {
	c *counter
	k bucket.Key
}

type mark struct {
	at   int64
	line uint32
}

// maxChanged bounds the buckets noted between two calls of Changes.
const maxChanged = 100_000

// Share makes the engine note what changes in the levels of the rules that want
// accepts, until the next Swap, and lists these levels.
func (e *Engine) Share(want func(rule string) bool) (out []SharedLevel) {
	s := &sharing{levels: map[*counter][]int{}, changed: map[sharedKey]mark{}}
	for _, c := range e.counters {
		if !c.plain || c.rule.Tiers != nil || !want(c.rule.Name) {
			continue
		}
		for i := range c.levels {
			l := &c.levels[i]
			if !l.blocks || l.Wide() || l.Kind != rules.Bucket && l.Kind != rules.Distinct {
				continue
			}
			s.levels[c] = append(s.levels[c], i)
			out = append(out, c.shared(i))
		}
	}
	e.sharing = s
	if len(out) == 0 {
		e.sharing = nil
	}
	return out
}

// Unshare ends what Share began.
func (e *Engine) Unshare() { e.sharing = nil }

func (c *counter) shared(i int) SharedLevel {
	l := &c.levels[i]
	s := SharedLevel{Rule: c.rule.Name, Index: i, Capacity: l.Capacity, Leak: l.Leak, Bits4: c.rule.Prefix.V4, Bits6: c.rule.Prefix.V6, TTL: l.TTL}
	if c.by == rules.ByAddr {
		s.Bits4, s.Bits6 = wholeAddr.V4, wholeAddr.V6
	}
	if l.Kind == rules.Distinct {
		s.Capacity, s.Leak = l.Over, 0
	}
	// Levels of a rule that differ in their room only are told apart by it.
	s.Meaning = fmt.Sprintf("%s holds %d", c.rule.Meaning(&l.Level), s.Capacity)
	return s
}

// note remembers that the buckets of k changed. Of sources from which somebody
// logged in nothing is told: they are counted apart.
func (s *sharing) note(c *counter, m *evaluation, k bucket.Key) {
	if s.levels[c] == nil || !m.ev.Addr.IsValid() || !m.stranger() {
		return
	}
	x := sharedKey{c, k}
	old, ok := s.changed[x]
	if !ok && len(s.changed) >= maxChanged {
		return
	}
	now := mark{at: max(m.at, old.at), line: old.line}
	if m.line != nil {
		now.line = crc32.ChecksumIEEE(m.line.Text)
	}
	s.changed[x] = now
}

// Changes calls f for each bucket that changed since the last call, in no order.
func (e *Engine) Changes(f func(Change)) {
	if e.sharing == nil {
		return
	}
	for x, m := range e.sharing.changed {
		for _, i := range e.sharing.levels[x.c] {
			x.c.tell(i, x.k, m, true, f)
		}
	}
	clear(e.sharing.changed)
}

// AllShared calls f for each bucket of the shared levels that holds something at
// the instant at.
func (e *Engine) AllShared(at int64, f func(Change)) {
	if e.sharing == nil {
		return
	}
	for c, levels := range e.sharing.levels {
		for _, i := range levels {
			l := &c.levels[i]
			if l.table == nil {
				continue
			}
			l.table.Range(func(b bucket.Bucket) bool {
				if b.Empty > at {
					c.tell(i, b.Key, mark{at: at}, false, f)
				}
				return true
			})
		}
	}
}

// tell calls f with level i of the bucket of k. Empty ones are told of when they
// changed: a success may have cleared them.
func (c *counter) tell(i int, k bucket.Key, m mark, empty bool, f func(Change)) {
	p, ok := k.Prefix()
	if !ok {
		return
	}
	l := &c.levels[i]
	ch := Change{Rule: c.rule.Name, Index: i, Prefix: p, At: m.at, Line: m.line}
	if l.Kind == rules.Distinct {
		for _, v := range l.distinct.List(k, m.at, l.spread(l.Over), 1) {
			ch.Values = append(ch.Values, uint64(v.Key.Mark()))
		}
		if ch.Empty = m.at + int64(l.Within); len(ch.Values) == 0 {
			return
		}
		slices.Sort(ch.Values)
		f(ch)
		return
	}
	if ch.Empty, ok = l.table.Empty(k); !ok {
		if !empty {
			return
		}
		ch.Empty = m.at
	}
	f(ch)
}

// Together returns the breach of a bucket that several machines filled; false
// when the rule is gone, or a bigger room in that network still holds the points.
func (e *Engine) Together(rule string, index int, p netip.Prefix, at int64, points int, evidence []string) (Breach, bool) {
	for _, c := range e.counters {
		if c.rule.Name != rule || index >= len(c.levels) {
			continue
		}
		l := &c.levels[index]
		room := l.limit.Capacity
		if n := e.networkAt(p.Addr()); n != nil {
			if room = limitIn(n, l.limit).Capacity; l.Kind == rules.Distinct {
				room = n.Holds(l.Over)
			}
		} else if l.Kind == rules.Distinct {
			room = l.Over
		}
		if points <= room {
			return Breach{}, false
		}
		b := Breach{At: at, Rule: rule, Level: index, Key: p.String(), Prefix: p, Addr: p.Addr(), Count: points, Points: points,
			TTL: l.TTL, Multiply: l.Multiply, Max: l.Max, Answers: l.answers, Observe: c.rule.Observe, Source: "fleet", Evidence: evidence}
		if l.Kind == rules.Distinct {
			b.Unit = l.Of.String()
		}
		if !c.rule.Match.Except {
			b.Services = c.rule.Match.Services
		}
		// Who logged in here goes on, whatever other machines saw.
		b.Narrow = min(p.Addr().BitLen(), 64)
		return b, true
	}
	return Breach{}, false
}
