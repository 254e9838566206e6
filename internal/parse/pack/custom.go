package pack

// As returns the pattern of a rule for lines of these programs only (none:
// any), whose events have this outcome and kind.
func (p *Pack) As(programs []string, outcome, kind uint8) *Pack {
	q := *p
	q.programs, q.anyTag = programs, len(programs) == 0
	q.patterns = make([]*pattern, len(p.patterns))
	for i, pt := range p.patterns {
		c := *pt
		c.outcome, c.kind = outcome, kind
		q.patterns[i] = &c
	}
	return &q
}
