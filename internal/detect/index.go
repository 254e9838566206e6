package detect

import "stoplog/internal/parse"

const (
	outcomes = parse.Success + 1
	kinds    = parse.Forbidden + 1
	// maxServices bounds the index: services are few, but a pattern may
	// capture one.
	maxServices = 1024
)

// lists are the rules that one service's events may match, in the order of
// the file, and those that its successes clear.
type lists struct {
	by     [outcomes][kinds][]*counter
	clears []*counter
	wide   []*counter // likewise, of networks
}

// listsOf finds the rules for a service. Lines come in runs of one service,
// so the last is tried first.
func (e *Engine) listsOf(service string) *lists {
	if e.lastOf != nil && service == e.last {
		return e.lastOf
	}
	l := e.index[service]
	if l == nil {
		l = e.build(service)
		if len(e.index) >= maxServices {
			clear(e.index)
		}
		e.index[service] = l
	}
	e.last, e.lastOf = service, l
	return l
}

func (e *Engine) build(service string) *lists {
	l := &lists{}
	for _, c := range e.counters {
		m := &c.rule.Match
		for o := range outcomes {
			for k := range kinds {
				if m.Takes(service, o, k) {
					l.by[o][k] = append(l.by[o][k], c)
				}
			}
		}
		if c.wide && m.Serves(service) {
			l.wide = append(l.wide, c)
		}
		if c.rule.Clears && m.Serves(service) {
			l.clears = append(l.clears, c)
		}
	}
	return l
}
