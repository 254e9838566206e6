package pack

// As returns the pattern of a rule for lines of these programs only (none:
// any), whose events have this outcome and kind.
func (p *Pack) As(programs []string, outcome, kind uint8) *Pack {
	q := &Pack{name: p.name, origin: p.origin, logs: p.logs, programs: programs, anyTag: len(programs) == 0, nameless: true}
	for _, pt := range p.patterns {
		c := *pt
		c.outcome, c.kind = outcome, kind
		q.patterns = append(q.patterns, &c)
	}
	return q
}
