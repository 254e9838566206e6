package notify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"stoplog/internal/rules"
)

// Bounds of one message. What is over is counted, not listed.
const (
	maxShown    = 50  // breaches with their details
	maxPrefixes = 20  // blocked prefixes that the short text names
	maxBlocks   = 50  // blocked prefixes of one breach
	maxRules    = 100 // counted by name
	maxEvidence = 10  // lines of one breach
	maxText     = 512 // characters of one text from a log
)

// group is what happened since the last message. Its size is bounded.
type group struct {
	first, last time.Time     // when it was reported
	limited     time.Duration // how long the limit holds it back
	count       int
	blocks      int
	rules       map[string]RuleCount
	shown       []Message
	prefixes    []string
}

// add counts m and reports whether there was room for its details.
func (g *group) add(m Message, now time.Time) bool {
	if g.count == 0 {
		g.first = now
		g.rules = map[string]RuleCount{}
	}
	g.last = now
	g.count++
	g.blocks += len(m.Blocks)
	name := m.Rule
	if _, known := g.rules[name]; !known && len(g.rules) >= maxRules {
		name = "other rules"
	}
	c := g.rules[name]
	g.rules[name] = RuleCount{name, c.Count + 1, c.Blocks + len(m.Blocks)}
	for _, p := range m.Blocks[:min(len(m.Blocks), maxPrefixes)] {
		if len(g.prefixes) < maxPrefixes {
			g.prefixes = append(g.prefixes, p.String())
		}
	}
	if len(g.shown) >= maxShown {
		return false
	}
	g.shown = append(g.shown, m)
	return true
}

// digest is the group as messages show it, every text made safe.
func (g *group) digest(notes []string) Digest {
	d := Digest{First: g.first.UTC(), Last: g.last.UTC(), Count: g.count, Blocks: g.blocks, Prefixes: g.prefixes, More: g.count - len(g.shown), Notes: notes}
	for _, r := range g.rules {
		r.Rule = text(r.Rule)
		d.Rules = append(d.Rules, r)
	}
	slices.SortFunc(d.Rules, func(a, b RuleCount) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.Rule, b.Rule))
	})
	for _, m := range g.shown {
		d.Events = append(d.Events, event(m))
	}
	return d
}

// event is a message made safe and bounded.
func event(m Message) Event {
	e := Event{
		Time: m.Time.UTC(), Rule: text(m.Rule), Key: text(m.Key), Prefix: text(m.Prefix), Addr: text(m.Addr),
		Service: text(m.Service), User: text(m.User), Count: m.Count, Points: m.Points, Counted: m.Counted, Source: text(m.Source), Line: m.Line,
	}
	if m.TTL > 0 {
		e.TTL = rules.FormatDuration(m.TTL)
	}
	for _, p := range m.Blocks[:min(len(m.Blocks), maxBlocks)] {
		e.Blocks = append(e.Blocks, p.String())
	}
	// The newest lines say most.
	for _, l := range m.Evidence[max(0, len(m.Evidence)-maxEvidence):] {
		e.Evidence = append(e.Evidence, text(l))
	}
	return e
}
