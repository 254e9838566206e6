package web

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// maxTries bounds how many ends are tried for a loose field, so that a line of
// nothing but separators costs no more than a few times its length.
const maxTries = 32

// match reads a line by the format. The address is sure: before it stand only
// what the server makes and what it quotes, or else behind it.
func (f *format) match(w *Reader, env *event.Message, line []byte, ev *event.Event) bool {
	if f.whole != nil {
		return f.whole(w, env, line, ev)
	}
	m := matcher{w: w, env: env, ev: ev}
	if f.back {
		if !f.backward(&m, line) {
			return false
		}
	} else if !f.forward(&m, line) {
		return false
	}
	if f.exact && ev.Status == 0 {
		return false
	}
	ev.Service, ev.Count = w.service(env), 1
	m.target()
	judgeStatus(ev)
	w.client.set(ev, m.header)
	return true
}

// matcher collects the fields of one line.
type matcher struct {
	w      *Reader
	env    *event.Message
	ev     *event.Event
	uri    []byte
	query  []byte
	header []byte
}

// forward matches from the line's start. Once it has the address, what it does
// not find is left empty: the line is the server's all the same.
func (f *format) forward(m *matcher, b []byte) bool {
	for i := range f.pieces {
		pc := &f.pieces[i]
		sure := i > f.addr && !f.exact
		rest, ok := scan.After(b, pc.lit)
		if !ok {
			return sure
		}
		if pc.kind == fieldEnd {
			return sure || f.open || len(rest) == 0
		}
		n := f.fieldEnd(m, i, rest)
		if n < 0 || !m.take(pc, rest[:n]) {
			return sure
		}
		b = rest[n:]
	}
	return true
}

// fieldEnd returns the length of the field of piece i at b's start, -1 when it
// does not end.
func (f *format) fieldEnd(m *matcher, i int, b []byte) int {
	pc := &f.pieces[i]
	next := ""
	if i+1 < len(f.pieces) {
		next = f.pieces[i+1].lit
	}
	if pc.kind == fieldTime {
		return m.timeEnd(b)
	}
	if next == "" {
		if pc.grip == tight {
			word, _ := scan.Word(b)
			return len(word)
		}
		return len(b)
	}
	for from, tries := 0, 0; tries < maxTries; tries++ {
		j := scan.Index(b[from:], next)
		if j < 0 {
			return -1
		}
		end := from + j
		switch {
		case pc.grip == inQuotes && escaped(b, end):
		case pc.grip == tight, f.follows(m, i+1, b[end+len(next):]):
			if pc.grip == tight && next[0] != ' ' && bytes.IndexByte(b[:end], ' ') >= 0 {
				return -1
			}
			return end
		}
		from = end + 1
	}
	return -1
}

// follows reports whether the field of piece i can stand at b's start. Only
// fields with a shape of their own say no.
func (f *format) follows(m *matcher, i int, b []byte) bool {
	switch f.pieces[i].kind {
	case fieldTime:
		return m.timeEnd(b) > 0
	case fieldStatus:
		return statusOf(b) > 0 || len(b) > 0 && b[0] == '-'
	}
	return true
}

// backward matches from the line's end to the address. What stands before it
// is read as far as it can be.
func (f *format) backward(m *matcher, b []byte) bool {
	whole := b
	last := len(f.pieces) - 1
	b, ok := scan.Before(b, f.pieces[last].lit)
	if !ok {
		return false
	}
	for i := last - 1; i >= f.addr; i-- {
		pc := &f.pieces[i]
		start := fieldStart(pc, b)
		if start < 0 || !m.take(pc, b[start:]) {
			return false
		}
		b = b[:start-len(pc.lit)]
	}
	f.before(m, whole[:len(b)])
	return m.ev.Addr.IsValid()
}

// fieldStart finds where the field that ends b begins: behind the last literal
// of its own; in quotes, behind the last quote that is not escaped.
func fieldStart(pc *piece, b []byte) int {
	if pc.grip != inQuotes {
		head, _, ok := scan.Last(b, pc.lit)
		if !ok {
			return -1
		}
		return len(head) + len(pc.lit)
	}
	q := bytes.LastIndexByte(b, '"')
	for q > 0 && escaped(b, q) {
		q = bytes.LastIndexByte(b[:q], '"')
	}
	if _, ok := scan.Before(b[:q+1], pc.lit); !ok {
		return -1
	}
	return q + 1
}

// before reads the fields in front of the address from the left, as far as
// they match.
func (f *format) before(m *matcher, b []byte) {
	for i := range f.pieces[:f.addr] {
		rest, ok := scan.After(b, f.pieces[i].lit)
		if !ok {
			return
		}
		n := len(rest)
		if i+1 < f.addr {
			n = f.fieldEnd(m, i, rest)
		}
		if n < 0 || !m.take(&f.pieces[i], rest[:n]) {
			return
		}
		b = rest[n:]
	}
}

// timeEnd returns the length of the stamp at b's start, -1 when there is none.
func (m *matcher) timeEnd(b []byte) int {
	if _, n := m.stamp(b); n > 0 {
		return n
	}
	if len(b) > 0 && b[0] == '-' {
		return 1
	}
	return -1
}

// stamp reads the stamp at b's start and tells its length. CloudFront writes a
// tab inside it.
func (m *matcher) stamp(b []byte) (ns int64, n int) {
	if ns, rest, ok := clfStamp(b, m.env.Loc); ok {
		return ns, len(b) - len(rest)
	}
	if len(b) >= 19 && b[10] == '\t' {
		var day [19]byte
		copy(day[:], b)
		day[10] = ' '
		if ns, rest, ok := scan.Stamp(day[:], m.env.Ref, m.env.Loc); ok && len(rest) == 0 {
			return ns, 19
		}
	}
	if ns, rest, ok := scan.Stamp(b, m.env.Ref, m.env.Loc); ok {
		return ns, len(b) - len(rest)
	}
	return 0, 0
}

// take keeps a field's value; false when it cannot be one.
func (m *matcher) take(pc *piece, v []byte) bool {
	ev := m.ev
	switch pc.kind {
	case fieldAddr:
		ev.Addr = addrOf(v)
		return ev.Addr.IsValid() || vhostName(v)
	case fieldUser:
		ev.User = orNone(v)
	case fieldTime:
		ev.Time, _ = m.stamp(v)
	case fieldRequest:
		setRequest(ev, v)
	case fieldMethod:
		ev.Method = orNone(v)
	case fieldURI:
		m.uri = orNone(v)
	case fieldQuery:
		m.query = orNone(v)
	case fieldStatus:
		ev.Status = statusOf(v)
	case fieldAgent:
		ev.Agent = orNone(v)
	case fieldReferrer:
		ev.Referrer = orNone(v)
	case fieldHost:
		ev.Host = orNone(v)
	case fieldHeader:
		if m.header == nil && headerKey([]byte(pc.name), m.w.header) {
			m.header = v
		}
	}
	return true
}

// target puts method, URI and query together, when no request line did.
func (m *matcher) target() {
	if m.uri == nil || m.ev.Path != nil {
		return
	}
	host := m.ev.Host
	setTarget(m.ev, m.uri)
	if host != nil {
		m.ev.Host = host
	}
	if m.ev.Query == nil {
		m.ev.Query = bytes.TrimPrefix(m.query, []byte{'?'})
	}
}
