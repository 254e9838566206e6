package web

import (
	"bytes"

	"stoplog/internal/parse/record"
	"stoplog/internal/parse/scan"
)

// A walk over one JSON object (RFC 8259) that keeps nothing but the values of
// keys that mean something. It also takes the escapes of nginx's default
// log_format inside strings (\x22), and it must reach the object's end: a
// record that a client broke out of says nothing. It does the same as record.JSON,
// which takes 12 % more time for a line of an access log.

// maxDepth bounds the objects and arrays in each other.
const maxDepth = 16

// entry is what one structured line says: raw values, still escaped.
type entry struct {
	vals [slots][]byte
	// split is set when two keys for the client's address differ, and
	// splitHeader when two do for the header.
	split, splitHeader bool
	header             string // in lower case, that ClientOptions asks for

	fm    *fieldMap // nil: keys are guessed at
	extra [][]byte  // values of fm's own fields
}

// keep puts a value where its key says.
func (r *entry) keep(at place, n *mapNode, key, v []byte) {
	if r.fm != nil && r.mapped(n, key, v) {
		return
	}
	if s := slotOf(at, key); r.fm == nil || !r.fm.slots[s] && !(r.fm.slots[slotAddr] && (s == slotClient || s == slotEnvoy)) {
		r.put(s, v)
	}
	if r.header != "" && (at == atTop || at == inHeaders) && headerKey(key, r.header) && (r.fm == nil || !r.fm.slots[slotHeader]) {
		r.put(slotHeader, v)
	}
}

func isAddr(v []byte) bool {
	_, ok := scan.AddrPort(v)
	return ok
}

// newRecord returns one that reads by the parser's options.
func (w *Reader) newRecord() entry {
	r := entry{header: w.header, fm: w.fields}
	if r.fm != nil {
		clear(w.extra)
		r.extra = w.extra
	}
	return r
}

// root is the map's, nil when there is none.
func (r *entry) root() *mapNode {
	if r.fm == nil {
		return nil
	}
	return &r.fm.root
}

// put keeps the first value of a slot. Two addresses that differ make the
// record ambiguous.
func (r *entry) put(s slot, v []byte) {
	if s == slotNone || len(v) == 0 && s != slotCredentials {
		return
	}
	if old := r.vals[s]; old != nil {
		if s == slotAddr && !r.split && !isAddr(old) && isAddr(v) {
			r.vals[s] = v // "client" may be a kind of client
			return
		}
		if (s == slotAddr || s == slotClient || s == slotEnvoy) && !sameAddr(old, v) {
			r.split = true
		}
		r.splitHeader = r.splitHeader || s == slotHeader && !bytes.Equal(old, v)
		return
	}
	r.vals[s] = v
}

// walkObject reads the object at b[i] and returns the index behind it, -1 when
// it is none.
func (r *entry) walkObject(b []byte, i int, at place, n *mapNode, depth int) int {
	if depth > maxDepth {
		return -1
	}
	i = record.SkipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for i < len(b) {
		end := record.StringEnd(b, i)
		if end < 0 {
			return -1
		}
		key := b[i+1 : end-1]
		if i = record.SkipSpace(b, end); i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = r.walkMember(b, record.SkipSpace(b, i+1), at, n, key, depth); i < 0 {
			return -1
		}
		if i = record.SkipSpace(b, i); i >= len(b) {
			return -1
		}
		if b[i] == '}' {
			return i + 1
		}
		if b[i] != ',' {
			return -1
		}
		i = record.SkipSpace(b, i+1)
	}
	return -1
}

// walkMember reads the value of key at b[i].
func (r *entry) walkMember(b []byte, i int, at place, n *mapNode, key []byte, depth int) int {
	if i >= len(b) {
		return -1
	}
	if b[i] == '{' {
		return r.walkObject(b, i, at.enter(key), n.inside(key), depth+1)
	}
	end := r.skipValue(b, i, depth)
	if end < 0 {
		return -1
	}
	v := b[i:end]
	if v[0] == '[' {
		if v = firstString(v); v == nil && slotOf(at, key) == slotCredentials {
			v = b[i:i] // Caddy up to 2.6 logs the header's values as []
		}
	}
	if len(v) > 1 && v[0] == '"' {
		v = v[1 : len(v)-1]
	} else if string(v) == "null" {
		return end
	}
	r.keep(at, n, key, v)
	return end
}

// skipValue returns the index behind the value at b[i].
func (r *entry) skipValue(b []byte, i, depth int) int {
	switch c := b[i]; {
	case c == '"':
		return record.StringEnd(b, i)
	case c == '{':
		var inner entry // of an array: whose it is, nobody knows
		return inner.walkObject(b, i, inOther, nil, depth+1)
	case c == '[':
		return r.skipArray(b, i, depth)
	}
	start := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		if b[i] == '"' {
			return -1
		}
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func (r *entry) skipArray(b []byte, i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	i = record.SkipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for i < len(b) {
		if i = r.skipValue(b, i, depth+1); i < 0 {
			return -1
		}
		if i = record.SkipSpace(b, i); i >= len(b) {
			return -1
		}
		if b[i] == ']' {
			return i + 1
		}
		if b[i] != ',' {
			return -1
		}
		i = record.SkipSpace(b, i+1)
	}
	return -1
}

// firstString is the string in ["…"], as Caddy writes the values of a header;
// several are more than one reading.
func firstString(v []byte) []byte {
	i := record.SkipSpace(v, 1)
	if i >= len(v) || v[i] != '"' {
		return nil
	}
	end := record.StringEnd(v, i)
	if end < 0 || record.SkipSpace(v, end) != len(v)-1 {
		return nil
	}
	return v[i:end]
}

// headerKey reports whether a key names the header: x-forwarded-for,
// http_x_forwarded_for, X-Forwarded-For, request_X-Forwarded-For.
func headerKey(key []byte, header string) bool {
	if header == "proxy-protocol" {
		header = "proxy-protocol-addr"
	}
	for _, head := range [...]string{"http_", "request_", ""} {
		k := key
		if len(head) > 0 {
			if len(k) <= len(head) || !foldEqualBytes(k[:len(head)], head) {
				continue
			}
			k = k[len(head):]
		}
		if foldEqualBytes(k, header) {
			return true
		}
	}
	return false
}

// foldEqualBytes compares a key with a name in lower case, taking _ for -.
func foldEqualBytes(k []byte, lower string) bool {
	if len(k) != len(lower) {
		return false
	}
	for i, c := range k {
		if c-'A' <= 25 {
			c |= 0x20
		}
		w := lower[i]
		if c != w && (c != '_' && c != '-' || w != '_' && w != '-') {
			return false
		}
	}
	return true
}
