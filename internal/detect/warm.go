package detect

import (
	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

// Warm looks at where the buckets are that ev would be poured into, and does
// nothing else: called for some events ahead of Observe, it lets the waits for
// memory overlap. It is a hint, and leaves out what is costly to name.
func (e *Engine) Warm(ev *parse.Event) {
	if !ev.Addr.IsValid() || ev.Count == 0 {
		return
	}
	cs := e.listsOf(ev.Service).by[ev.Outcome%outcomes][ev.Kind%kinds]
	m := moment{ev: ev}
	for _, c := range cs {
		if c.texts || !c.rule.Key.HasSource() {
			continue
		}
		_, k := e.prefixOf(c.rule, sourcePart(c.rule.Key), &m)
		for i := range c.levels {
			if t := c.levels[i].table; t != nil {
				e.warmth ^= t.Touch(t.Spot(k))
			}
		}
	}
}

// sourcePart is the part of a key that names the source.
func sourcePart(k rules.Key) rules.KeyPart {
	if k.Has(rules.ByAddr) {
		return rules.ByAddr
	}
	return rules.ByPrefix
}
