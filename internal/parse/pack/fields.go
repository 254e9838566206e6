package pack

import (
	"bytes"
	"strconv"

	"stoplog/internal/parse/record"
	"stoplog/internal/parse/scan"
)

// fieldTest asks one field of a JSON or logfmt line to have a value.
type fieldTest struct {
	path   string
	equal  string
	expr   *expression // instead of equal when set
	broken bool        // the expression could not be read
}

// fieldPaths name the fields that an event is taken from, the first that is
// there and not empty.
type fieldPaths struct{ ip, user, time, conn []string }

// fieldValue is a field of a line: its dotted path and its value, unescaped.
type fieldValue struct {
	path  string
	value []byte
}

// matchFields reports whether the line has fields that p asks for.
func (v *view) matchFields(p *pattern, m *Match) bool {
	if !v.sought {
		v.sought = true
		v.fields = v.readFields(m)
	}
	for i := range p.fields {
		if !v.test(&p.fields[i], m) {
			return false
		}
	}
	return len(p.fields) > 0 && v.take(p, m)
}

// readFields reads the line as JSON or logfmt, nil when it is neither.
func (v *view) readFields(m *Match) []fieldValue {
	for _, text := range [...][]byte{v.plain, v.rest} {
		if len(text) > maxJSON {
			continue
		}
		if len(text) > 1 && text[0] == '{' {
			return readJSON(text, m)
		}
		if f := readLogfmt(text, m); f != nil {
			return f
		}
	}
	return nil
}

// get returns the value at path; ok is false when there is none, or two.
func (v *view) get(path string) (value []byte, ok bool) {
	for _, f := range v.fields {
		if f.path != path {
			continue
		}
		if ok {
			return nil, false
		}
		value, ok = f.value, true
	}
	return value, ok
}

// first returns the first of paths that is there and not empty.
func (v *view) first(paths []string) []byte {
	for _, p := range paths {
		if val, ok := v.get(p); ok && len(val) > 0 {
			return val
		}
	}
	return nil
}

func (v *view) test(t *fieldTest, m *Match) bool {
	val, ok := v.get(t.path)
	if !ok {
		return false
	}
	if t.expr != nil {
		return t.expr.match(unmarked(val), m)
	}
	return string(val) == t.equal
}

// take fills m from the fields that p names.
func (v *view) take(p *pattern, m *Match) bool {
	if p.from.ip != nil {
		a, ok := scan.AddrPort(v.first(p.from.ip))
		if !ok {
			return false
		}
		m.Addr = a
	}
	if u := v.first(p.from.user); u != nil {
		m.User = u
	}
	if c := v.first(p.from.conn); c != nil {
		m.Conn = c
	}
	if t := v.first(p.from.time); t != nil {
		m.Time = m.stamp(t)
		m.Named = m.Time != 0
	}
	return true
}

// stamp reads a time stamp, or seconds, milliseconds or nanoseconds since 1970.
func (m *Match) stamp(t []byte) int64 {
	if ns, _, ok := scan.Stamp(t, m.Ref, m.loc()); ok {
		return ns
	}
	s, err := strconv.ParseFloat(string(t), 64)
	switch {
	case err != nil || s < 0 || s > 9e18:
		return 0
	case s > 1e17:
		return int64(s)
	case s > 1e11:
		return int64(s * 1e6)
	case s > 9e9:
		return 0
	}
	return int64(s * 1e9)
}

// readLogfmt reads key=value pairs, values quoted as in Go. Everything in the
// line must be such a pair: nil otherwise.
func readLogfmt(b []byte, m *Match) []fieldValue {
	var out []fieldValue
	for ; len(b) > 0; b = bytes.TrimLeft(b, " ") {
		n := 0
		for n < len(b) && b[n] > ' ' && b[n] != '=' && b[n] != '"' {
			n++
		}
		if n == 0 || n == len(b) || b[n] != '=' || len(out) == maxFields {
			return nil
		}
		key := string(b[:n])
		val, rest, ok := logfmtValue(b[n+1:], m)
		if !ok {
			return nil
		}
		out, b = append(out, fieldValue{key, val}), rest
	}
	return out
}

func logfmtValue(b []byte, m *Match) (val, rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '"' {
		if val, rest, ok = record.Quoted(b); !ok || len(rest) > 0 && rest[0] != ' ' {
			return nil, nil, false
		}
		val, ok = m.text(val)
		return val, rest, ok
	}
	n := 0
	for n < len(b) && b[n] != ' ' && b[n] != '"' {
		n++
	}
	return b[:n], b[n:], n == len(b) || b[n] == ' '
}
