package pipeline

import (
	"slices"
	"strconv"
	"time"

	"stoplog/internal/f2b"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// filterKey is one filter of fail2ban in one origin.
type filterKey struct{ origin, rule string }

// filter adds the events of fail2ban's filters to those of the batch that r read
// last, behind those of the same line. Filters remember connections, so that
// batches are filtered in order.
func (m *Machine) filter(r *Reader) {
	if len(r.filters) == 0 {
		return
	}
	b := r.batch
	out := make([]item, 0, len(r.events)+4)
	next := 0
	for i := range b.Lines {
		from := len(out)
		for next < len(r.events) && r.events[next].line <= i {
			out = append(out, r.events[next])
			next++
		}
		known := len(out) > from
		for k := range r.filters {
			if ev, ok := m.byFilter(r, &r.filters[k], &b.Lines[i], b.Arrival); ok {
				out = append(out, item{Event: ev, line: i})
			}
		}
		if !known && len(out) > from {
			r.known++
		}
	}
	r.events = append(out, r.events[next:]...)
}

func (m *Machine) byFilter(r *Reader, f *rules.Filter, line *source.Line, arrival time.Time) (parse.Event, bool) {
	origin := r.batch.Origin.Whole()
	key := filterKey{origin, f.Rule}
	s := m.filters[key]
	if s == nil {
		if len(m.filters) >= maxFilterSessions {
			clear(m.filters)
		}
		s = f.Session(r.zone)
		m.filters[key] = s
	}
	text, at := line.Text, int64(0)
	if e := line.Entry; e != nil {
		if !f.Admits(e) {
			return parse.Event{}, false
		}
		text, at = entryText(e, text), e.Time
	}
	read := s.Line
	if line.Cut {
		read = s.CutLine
	}
	fail, v := read(text, at, arrival)
	switch v {
	case f2b.Counted:
		return parse.Event{Service: f.Rule, Outcome: parse.Outcome(f.Outcome), Kind: parse.Kind(f.Kind), Addr: fail.Addr, User: fail.User,
			Time: fail.Time, Message: slices.Clone(line.Text), Count: 1}, true
	case f2b.Ambiguous:
		m.origins(r.batch.Origin.Name).Doubted++
	case f2b.OverLimit:
		o := m.origins(r.batch.Origin.Name)
		o.OverLimit++
		o.OverLimitOf = f.Rule
	}
	return parse.Event{}, false
}

// maxFilterSessions bounds the filters in origins that are remembered.
const maxFilterSessions = 10_000

// entryText is an entry of the journal as fail2ban shows it to a filter
// (server/filtersystemd.py): HOST IDENTIFIER[PID]: MESSAGE.
func entryText(e *source.Entry, msg []byte) []byte {
	b := append(make([]byte, 0, len(msg)+64), "localhost "...)
	if e.Transport == source.KernelTransport {
		return append(append(b, "kernel: [    0.000000] "...), msg...)
	}
	if len(e.Ident) > 0 {
		b = append(b, e.Ident...)
		if e.PID != 0 {
			b = append(strconv.AppendUint(append(b, '['), uint64(e.PID), 10), ']')
		}
		b = append(b, ": "...)
	}
	return append(b, msg...)
}
