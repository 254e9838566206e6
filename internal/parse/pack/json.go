package pack

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"stoplog/internal/parse/record"
)

const (
	maxJSON   = 1 << 20
	maxFields = 512
	maxDepth  = 12
)

// readJSON flattens the object that b is into dotted paths, elements of lists by
// their number. It returns nil for what is not exactly one object within the
// bounds.
func readJSON(b []byte, m *Match) (out []fieldValue) {
	type level struct {
		path string
		next int // of a list: the number of the next element; -1: an object
	}
	open := []level{{next: -1}}
	for j := record.Open(b); ; {
		k, key, v := j.Next()
		if k == record.Bad || k == record.End && len(j.Rest()) > 0 {
			return nil
		}
		if k == record.End {
			return out
		}
		if k == record.Close {
			open = open[:len(open)-1]
			continue
		}
		in := &open[len(open)-1]
		path := in.path
		if in.next >= 0 {
			path = join(path, strconv.Itoa(in.next))
			in.next++
		} else {
			name, ok := m.text(key)
			if !ok {
				return nil
			}
			path = join(path, string(name))
		}
		if len(open) > maxDepth || len(out) >= maxFields {
			return nil
		}
		switch k {
		case record.Object:
			open = append(open, level{path, -1})
			continue
		case record.List:
			open = append(open, level{path, 0})
			continue
		case record.Word:
			if !word(v) {
				return nil
			}
			if string(v) == "null" {
				v = nil
			}
		default:
			var ok bool
			if v, ok = m.text(v); !ok {
				return nil
			}
		}
		out = append(out, fieldValue{path, v})
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// word reports whether v may be a number or a word of JSON.
func word(v []byte) bool {
	for _, c := range v {
		if !alnum(c) && c != '+' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// text replaces the escapes in v (RFC 8259, section 7; \x and \a, \v as Go writes
// them); ok is false if one is none of them. Without escapes it aliases v.
func (m *Match) text(v []byte) (out []byte, ok bool) {
	i := bytes.IndexByte(v, '\\')
	if i < 0 {
		return v, true
	}
	n := len(m.kept)
	m.kept = append(m.kept, v[:i]...)
	for v = v[i:]; len(v) > 0; {
		if v[0] != '\\' {
			m.kept, v = append(m.kept, v[0]), v[1:]
			continue
		}
		k := m.unescape(v)
		if k == 0 {
			return nil, false
		}
		v = v[k:]
	}
	return m.kept[n:len(m.kept):len(m.kept)], true
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
