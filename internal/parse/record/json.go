// Package record reads structured log lines: JSON objects, logfmt pairs, and what
// container runtimes write around a line. It knows nothing about the meaning of a
// key.
package record

import "bytes"

// Kind is the kind of a token.
type Kind uint8

const (
	Bad    Kind = iota // the text is not one JSON object within the bounds
	End                // the object ends: see JSON.Rest
	Close              // an object or list inside it ends
	Object             // an object begins
	List               // a list begins
	String             // a string, escapes not yet replaced: see Text
	Word               // a number, true, false, null, or another word without quotes
)

// maxDepth bounds how deep objects and lists are nested.
const maxDepth = 17

// JSON walks over one JSON object (RFC 8259), without allocation. Strings may
// also hold the escapes of nginx's default log_format (\x22). The walk must
// reach the end: a record that a client broke out of is Bad.
type JSON struct {
	text  []byte
	at    int
	depth int
	lists uint32 // bit n: what is open at depth n is a list
	fresh bool   // nothing was read yet of what is open
}

// Open starts a walk over the object at text's start.
func Open(text []byte) JSON {
	if len(text) == 0 || text[0] != '{' {
		return JSON{}
	}
	return JSON{text: text, at: 1, depth: 1, fresh: true}
}

// Next returns the next token. key is the member's name, escapes not replaced;
// nil in a list. value is that of a String, without its quotes, or of a Word.
func (j *JSON) Next() (k Kind, key, value []byte) {
	b, i := j.text, SkipSpace(j.text, j.at)
	if j.depth == 0 || i >= len(b) {
		return j.bad()
	}
	list := j.lists&(1<<j.depth) != 0
	if c := b[i]; c == '}' && !list || c == ']' && list {
		return j.close(i + 1), nil, nil
	} else if !j.fresh {
		if c != ',' {
			return j.bad()
		}
		i = SkipSpace(b, i+1)
	}
	if !list {
		end := StringEnd(b, i)
		if end < 0 {
			return j.bad()
		}
		key = b[i+1 : end-1]
		if end < len(b) && b[end] != ':' {
			end = SkipSpace(b, end)
		}
		if end >= len(b) || b[end] != ':' {
			return j.bad()
		}
		i = SkipSpace(b, end+1)
	}
	if i >= len(b) {
		return j.bad()
	}
	start := i
	switch b[i] {
	case '{':
		return j.open(i, Object), key, nil
	case '[':
		return j.open(i, List), key, nil
	case '"':
		end := StringEnd(b, i)
		if end < 0 {
			return j.bad()
		}
		j.at, j.fresh = end, false
		return String, key, b[i+1 : end-1]
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		if b[i] == '"' {
			return j.bad()
		}
		i++
	}
	if i == start {
		return j.bad()
	}
	j.at, j.fresh = i, false
	return Word, key, b[start:i]
}

func (j *JSON) bad() (Kind, []byte, []byte) {
	j.depth = 0
	return Bad, nil, nil
}

func (j *JSON) open(i int, k Kind) Kind {
	if j.depth == maxDepth {
		j.depth = 0
		return Bad
	}
	j.depth++
	if j.lists &^= 1 << j.depth; k == List {
		j.lists |= 1 << j.depth
	}
	j.at, j.fresh = i+1, true
	return k
}

func (j *JSON) close(at int) Kind {
	j.at, j.fresh = at, false
	if j.depth--; j.depth == 0 {
		return End
	}
	return Close
}

// Skip reads to the end of the object or list that has just begun and returns
// all of it, nil when it is bad.
func (j *JSON) Skip() []byte {
	start, depth := j.at-1, j.depth
	for j.depth >= depth {
		if k, _, _ := j.Next(); k == Bad {
			return nil
		}
	}
	return j.text[start:j.at]
}

// Rest is what follows what was read, without leading space.
func (j *JSON) Rest() []byte { return j.text[SkipSpace(j.text, j.at):] }

// Pair splits off the first pair of a logfmt line (brandur.org/logfmt): the value
// is bare, or a quoted string, without its quotes, escapes not replaced.
func Pair(b []byte) (key, value, rest []byte, ok bool) {
	i := 0
	for i < len(b) && pairKey(b[i]) {
		i++
	}
	if i == 0 || i == len(b) || b[i] != '=' {
		return nil, nil, nil, false
	}
	key, b = b[:i], b[i+1:]
	if len(b) > 0 && b[0] == '"' {
		value, rest, ok = Quoted(b)
		if !ok || len(rest) > 0 && rest[0] != ' ' {
			return nil, nil, nil, false
		}
		return key, value, bytes.TrimLeft(rest, " "), true
	}
	end := bytes.IndexByte(b, ' ')
	if end < 0 {
		end = len(b)
	}
	return key, b[:end], bytes.TrimLeft(b[end:], " "), true
}

func pairKey(c byte) bool {
	return (c|0x20)-'a' <= 25 || c-'0' <= 9 || c == '_' || c == '-' || c == '.' || c == '@'
}

// Quoted reads the string at b's start: in is what its quotes enclose, escapes not
// replaced.
func Quoted(b []byte) (in, rest []byte, ok bool) {
	end := StringEnd(b, 0)
	if end < 0 {
		return nil, nil, false
	}
	return b[1 : end-1], b[end:], true
}

// StringEnd returns the index behind the string at b[i], -1 when there is none.
func StringEnd(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	q := i
	for i++; i < len(b); {
		if q < i { // the next quote, which many escapes may come before
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				return -1
			}
			q = i + n
		}
		s := bytes.IndexByte(b[i:q], '\\')
		if s < 0 {
			return q + 1
		}
		i += s + 2
	}
	return -1
}

// SkipSpace returns the index of the first byte from i on that is not white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}
