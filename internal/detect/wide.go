package detect

import (
	"net/netip"

	"stoplog/internal/addr"
	"stoplog/internal/bucket"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

// Who has a whole IPv6 network has as many prefixes as they like, and need not
// fail twice from one. So a level may count the prefixes of a network from
// which somebody failed, each once. A prefix from which somebody logged in
// lately is not counted, and one is forgotten when the only account that it
// failed as logs in from it. What is blocked is not the network but the
// smallest prefix that most of those counted lie in.

// Of those counted, wideShare tenths must lie in what is blocked: one honest
// source elsewhere in the network must not widen a block to all of it.
const wideShare = 8

// newWide makes what counts the sources of networks. Strangers choose both, so
// there is room for a sixteenth of the networks and an eighth of the sources
// that a level of buckets has, and for the sources of one network no more than
// a block needs; those with the fewest sources go first.
func newWide(set *rules.Set, l *rules.Level) *bucket.Distinct {
	most := max(set.Limits.Buckets, 1024)
	return bucket.NewDistinct(mostOver(set, l.Over)+16, most/16, most/8)
}

// network cuts the network that a level counts the sources of; false when it
// counts none for such an address. Neighbours behind a translator have nothing
// in common.
func (l *level) network(from netip.Addr) (netip.Prefix, bool) {
	a := addr.Of(from)
	if !a.IsValid() || addr.Shared(a) {
		return netip.Prefix{}, false
	}
	p, err := a.Prefix(l.Prefix.Of(a))
	return p, err == nil && p.Bits() > 0
}

// widePlace is where the event counts in a wide level: its network and its
// source.
func (e *Engine) widePlace(c *counter, l *level, m *evaluation) (network, source netip.Prefix, ok bool) {
	network, ok = l.network(m.ev.Addr)
	if !ok {
		return network, source, false
	}
	source, _ = e.prefixOf(c.rule, rules.ByPrefix, m)
	return network, source, source.Bits() > network.Bits()
}

// account marks the account that an event named; 0 when it can never log in.
func account(ev *parse.Event) uint32 {
	if len(ev.User) == 0 || ev.Kind == parse.UnknownUser {
		return 0
	}
	k := bucket.KeyOfText(0, ev.User)
	return k.Mark() | 1
}

// pourWide counts the event's source in its network.
func (e *Engine) pourWide(c *counter, i int, m *evaluation) {
	l := &c.levels[i]
	network, source, ok := e.widePlace(c, l, m)
	if !ok || !m.stranger() {
		return
	}
	k, over := bucket.KeyOf(network), l.Over
	if n := e.network(m); n != nil {
		over = n.Holds(over)
	}
	if n, breached := l.distinct.PourMarked(k, bucket.KeyOf(source), account(m.ev), m.at, 1, l.spread(over)); breached {
		e.breachWide(c, i, m, k, source.Bits(), n, l.spread(over))
	}
}

// breachWide blocks where the sources of a network lie, and forgets those.
func (e *Engine) breachWide(c *counter, i int, m *evaluation, k bucket.Key, narrow, n int, s bucket.Spread) {
	l := &c.levels[i]
	if l.hush > 0 && !e.quiet.start(quietKey(l, k), m.at, l.hush) {
		return
	}
	within, _ := k.Prefix()
	values := l.distinct.List(k, m.at, s, 0)
	p, inside := covering(values, within)
	b := e.newBreach(c, i, m, amount{len(inside), len(inside)})
	b.Prefix, b.Key, b.Narrow, b.Partial = p, p.String(), narrow, true
	for _, v := range inside[max(len(inside)-maxEvidence, 0):] {
		if !e.set.Privacy.Lines {
			break
		}
		lines, _ := e.evidence.Lines(v, c.scope, 1, 1)
		for _, line := range lines {
			b.Evidence = append(b.Evidence, line.Text)
		}
	}
	l.distinct.DeleteValuesWithin(k, p)
	c.breached++
	e.out = append(e.out, b)
}

// covering returns the smallest prefix inside within that holds the share of
// values that a block needs, and those it holds.
func covering(values []bucket.Value, within netip.Prefix) (netip.Prefix, []bucket.Key) {
	need := (len(values)*wideShare + 9) / 10
	for bits := within.Addr().BitLen(); bits > within.Bits(); bits-- {
		in := map[netip.Prefix]int{}
		for _, v := range values {
			if p, ok := v.Key.Prefix(); ok && p.Bits() > bits {
				p = netip.PrefixFrom(p.Addr(), bits).Masked()
				if in[p]++; in[p] >= need {
					return p, inside(values, p)
				}
			}
		}
	}
	return within, inside(values, within)
}

func inside(values []bucket.Value, p netip.Prefix) (out []bucket.Key) {
	for _, v := range values {
		if q, ok := v.Key.Prefix(); ok && p.Contains(q.Addr()) {
			out = append(out, v.Key)
		}
	}
	return out
}

// clearWide forgets the event's source in its networks, if nobody but the
// event's account failed from it.
func (e *Engine) clearWide(c *counter, m *evaluation) {
	for i := range c.levels {
		if l := &c.levels[i]; l.Wide() {
			if network, source, ok := e.widePlace(c, l, m); ok {
				l.distinct.DeleteMarked(bucket.KeyOf(network), bucket.KeyOf(source), account(m.ev))
			}
		}
	}
}
