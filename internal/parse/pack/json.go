package pack

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxJSON   = 1 << 20
	maxFields = 512
	maxDepth  = 12
)

// jsonReader flattens one JSON object into dotted paths, elements of lists by
// their number. What is not exactly one object within the bounds is refused.
type jsonReader struct {
	b   []byte
	m   *Match
	out []fieldValue
	bad bool
}

// readJSON returns the fields of the object that b is, nil when it is not one.
func readJSON(b []byte, m *Match) []fieldValue {
	r := &jsonReader{b: b, m: m}
	r.value("", 0)
	r.space()
	if r.bad || len(r.b) > 0 {
		return nil
	}
	return r.out
}

func (r *jsonReader) space() {
	for len(r.b) > 0 && (r.b[0] == ' ' || r.b[0] == '\t' || r.b[0] == '\n' || r.b[0] == '\r') {
		r.b = r.b[1:]
	}
}

// next drops c and reports whether it was there.
func (r *jsonReader) next(c byte) bool {
	r.space()
	if len(r.b) > 0 && r.b[0] == c {
		r.b = r.b[1:]
		return true
	}
	return false
}

func (r *jsonReader) value(path string, depth int) {
	r.space()
	if len(r.b) == 0 || depth > maxDepth || len(r.out) >= maxFields {
		r.bad = true
		return
	}
	switch r.b[0] {
	case '{':
		r.object(path, depth)
	case '[':
		r.list(path, depth)
	case '"':
		r.emit(path, r.str())
	default:
		r.scalar(path)
	}
}

func (r *jsonReader) emit(path string, v []byte) {
	r.out = append(r.out, fieldValue{path, v})
}

func (r *jsonReader) str() []byte {
	r.space()
	v, rest, ok := readString(r.b, r.m)
	if !ok {
		r.bad = true
		return nil
	}
	r.b = rest
	return v
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (r *jsonReader) object(path string, depth int) {
	r.b = r.b[1:]
	if r.next('}') {
		return
	}
	for !r.bad {
		key := string(r.str())
		if r.bad || !r.next(':') {
			break
		}
		r.value(join(path, key), depth+1)
		if r.next('}') {
			return
		}
		if !r.next(',') {
			break
		}
	}
	r.bad = true
}

func (r *jsonReader) list(path string, depth int) {
	r.b = r.b[1:]
	if r.next(']') {
		return
	}
	for i := 0; !r.bad; i++ {
		r.value(join(path, strconv.Itoa(i)), depth+1)
		if r.next(']') {
			return
		}
		if !r.next(',') {
			break
		}
	}
	r.bad = true
}

// scalar reads a number or word; null is an empty value.
func (r *jsonReader) scalar(path string) {
	n := 0
	for n < len(r.b) && (alnum(r.b[n]) || bytes.IndexByte([]byte("+-."), r.b[n]) >= 0) {
		n++
	}
	v := r.b[:n]
	r.b = r.b[n:]
	if n == 0 {
		r.bad = true
	}
	if string(v) == "null" {
		v = nil
	}
	r.emit(path, v)
}

// readString reads the quoted string at b's start (RFC 8259, section 7; \x
// and \a, \v as Go writes them). An unescaped value aliases b.
func readString(b []byte, m *Match) (v, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '"':
			return b[1:i], b[i+1:], true
		case '\\':
			return readEscaped(b[1:], i-1, m)
		}
	}
	return nil, nil, false
}

// readEscaped reads on from the first backslash, at b[i].
func readEscaped(b []byte, i int, m *Match) (v, rest []byte, ok bool) {
	n := len(m.kept)
	m.kept = append(m.kept, b[:i]...)
	for b = b[i:]; len(b) > 0; {
		switch {
		case b[0] == '"':
			return m.kept[n:len(m.kept):len(m.kept)], b[1:], true
		case b[0] != '\\':
			m.kept, b = append(m.kept, b[0]), b[1:]
		default:
			k := m.unescape(b)
			if k == 0 {
				return nil, nil, false
			}
			b = b[k:]
		}
	}
	return nil, nil, false
}

const plainEscapes = `"\/'bfnrtav`
const plainValues = "\"\\/'\b\f\n\r\t\a\v"

// unescape appends what the escape at b's start stands for and returns its
// length, 0 when it is none.
func (m *Match) unescape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if i := bytes.IndexByte([]byte(plainEscapes), b[1]); i >= 0 {
		m.kept = append(m.kept, plainValues[i])
		return 2
	}
	digits := map[byte]int{'u': 4, 'x': 2}[b[1]]
	if digits == 0 || len(b) < 2+digits {
		return 0
	}
	u, err := strconv.ParseUint(string(b[2:2+digits]), 16, 32)
	if err != nil {
		return 0
	}
	if digits == 2 {
		m.kept = append(m.kept, byte(u))
		return 4
	}
	if c := rune(u); utf16.IsSurrogate(c) && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if low, err := strconv.ParseUint(string(b[8:12]), 16, 32); err == nil {
			m.kept = utf8.AppendRune(m.kept, utf16.DecodeRune(c, rune(low)))
			return 12
		}
	}
	m.kept = utf8.AppendRune(m.kept, rune(u))
	return 6
}
