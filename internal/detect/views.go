package detect

import (
	"net/netip"
	"slices"
	"sort"

	"stoplog/internal/addr"
	"stoplog/internal/bucket"
	"stoplog/internal/rules"
)

// Level is how full one bucket is.
type Level struct {
	Rule     string
	Index    int // of the rule's level
	Kind     string
	Key      string
	Prefix   netip.Prefix // of the key; invalid when it has none
	Level    int          // events it holds, begun ones counting whole
	Capacity int          // more points are a breach
	// Empty is when it will have drained, Unix ns, as seen from the instant
	// asked about; 0 for windows.
	Empty int64
}

// Levels returns how full the buckets of a are at the instant at: those of
// rules that count by prefix or address alone, the empty ones too.
func (e *Engine) Levels(a netip.Addr, at int64) []Level {
	var out []Level
	for _, c := range e.counters {
		if c.texts || !c.rule.Key.HasSource() || !a.IsValid() {
			continue
		}
		p := e.prefixAt(c.rule, a)
		k := bucket.KeyOf(p)
		for i := range c.levels {
			l := &c.levels[i]
			v := Level{Rule: c.rule.Name, Index: i, Kind: l.Kind.String(), Key: p.String(), Prefix: p}
			over := e.networkAt(a).Holds(l.Over)
			switch l.Kind {
			case rules.Bucket:
				v.Level, v.Capacity = l.table.Level(k, at, l.limit), limitIn(e.networkAt(a), l.limit).Capacity
				v.Empty = at + int64(l.table.Level(k, at, drop))
			case rules.Window:
				if l.First {
					continue
				}
				v.Level, v.Capacity = l.window.Count(k, at, l.rolling(over)), l.rolling(over).Count
			case rules.Distinct:
				if l.Wide() {
					network, ok := l.network(a)
					if !ok {
						continue
					}
					v.Key, v.Prefix = network.String(), network
					v.Level, v.Capacity = l.distinct.Count(bucket.KeyOf(network), at, l.spread(over)), l.spread(over).Over
					break
				}
				v.Level, v.Capacity = l.distinct.Count(k, at, l.spread(l.Over)), l.spread(over).Over
			default:
				continue
			}
			out = append(out, v)
		}
	}
	return out
}

func (e *Engine) prefixAt(r *rules.Rule, a netip.Addr) netip.Prefix {
	lens := r.Prefix
	if r.Key.Has(rules.ByAddr) {
		return wholeAddr.Cut(a)
	}
	if n := e.networkAt(a); n != nil && n.Len != 0 {
		return rules.Lens{V4: n.Len, V6: n.Len}.CutExactly(a)
	}
	return lens.Cut(a)
}

// networkAt finds the network with rules of its own that the client at a lies
// in; nil when there is none.
func (e *Engine) networkAt(a netip.Addr) *rules.Network {
	a = addr.Of(a)
	for i := range e.set.Networks {
		if n := &e.set.Networks[i]; n.Prefix.Contains(a) {
			return n
		}
	}
	return nil
}

// Fullest lists the n buckets of all rules that are fullest for their
// capacity at the instant at, the fullest first.
func (e *Engine) Fullest(n int, at int64) []Level {
	var out []Level
	for _, c := range e.counters {
		for i := range c.levels {
			l := &c.levels[i]
			if l.table == nil {
				continue
			}
			for _, b := range l.table.Fullest(n, at) {
				p, _ := b.Key.Prefix()
				v := Level{Rule: c.rule.Name, Index: i, Kind: l.Kind.String(), Key: keyName(b.Key), Prefix: p, Empty: b.Empty,
					Level: l.table.Level(b.Key, at, l.limit), Capacity: l.Capacity}
				if p.IsValid() {
					v.Capacity = limitIn(e.networkAt(p.Addr()), l.limit).Capacity
				}
				out = append(out, v)
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return a.Level*(b.Capacity+1) > b.Level*(a.Capacity+1)
	})
	return out[:min(n, len(out))]
}

func keyName(k bucket.Key) string {
	if k == keyAll {
		return "all"
	}
	return k.String()
}

// Stopped is how many events came from sources that were blocked already.
func (e *Engine) Stopped() uint64 { return e.stats.stragglers }

// Stats are an engine's totals since it began.
type Stats struct {
	Events     uint64 // that Observe was asked about
	Stragglers uint64 // of sources that were blocked already
	Allowed    uint64 // of allowed sources
	Rules      []RuleStats
}

// RuleStats are one rule's totals, and how much it holds now.
type RuleStats struct {
	Name                      string
	Matched, Poured, Breached uint64
	Keys                      int    // live buckets and windows, the drained not yet swept included
	Max                       int    // most buckets that its tables hold
	Evicted                   uint64 // had to go before they had drained
	Bytes                     int
}

// Stats returns the totals; the slice is the caller's.
func (e *Engine) Stats() Stats {
	s := Stats{Events: e.stats.events, Stragglers: e.stats.stragglers, Allowed: e.stats.allowed}
	for _, c := range e.counters {
		r := RuleStats{Name: c.rule.Name, Matched: c.matched, Poured: c.poured, Breached: c.breached}
		for i := range c.levels {
			c.levels[i].addTo(&r)
		}
		s.Rules = append(s.Rules, r)
	}
	return s
}

func (l *level) addTo(r *RuleStats) {
	for _, t := range [...]*bucket.Table{l.table, l.parts} {
		if t != nil {
			r.Bytes += t.Bytes()
			r.Evicted += t.Evicted()
		}
	}
	if l.table != nil {
		r.Keys += l.table.Len()
		r.Max += l.table.Max()
	}
	if l.window != nil {
		r.Keys += l.window.Len()
		r.Bytes += l.window.Bytes()
		r.Evicted += l.window.Evicted()
	}
	if l.distinct != nil {
		r.Keys += l.distinct.Len()
		r.Evicted += l.distinct.Evicted()
	}
}

// Rules lists the names of the rules in order.
func (e *Engine) Rules() []string {
	out := make([]string, 0, len(e.counters))
	for _, c := range e.counters {
		out = append(out, c.rule.Name)
	}
	return slices.Clip(out)
}
