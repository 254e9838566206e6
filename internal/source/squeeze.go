package source

import "unicode/utf8"

// A line over the limit loses its end. JSON without its end cannot be read, and
// what tells most (Caddy's status and user_id) stands there: a client that sends
// a long header would not be seen. So of a JSON line the strings are shortened
// instead. What is left out lies within one string, so that the line has the
// fields that it had, and nothing that a client wrote comes to stand elsewhere.

// maxString is how much of a string is kept.
const maxString = 4 << 10

// squeezer shortens the strings of a JSON object that comes in pieces. It holds
// no more than max bytes, and takes time in proportion to what it is given.
type squeezer struct {
	out   []byte
	max   int
	place jsonPlace
	hex   int  // digits of an escape to come
	kept  int  // bytes of the string so far
	drop  bool // the rest of the string
	full  bool // it is over the limit all the same
}

// jsonPlace is where in a JSON text a squeezer stands.
type jsonPlace int

const (
	outside jsonPlace = iota // of strings
	inside                   // a string
	afterBackslash
	inHex // of \u and four digits
)

// add takes the next piece.
func (q *squeezer) add(piece []byte) {
	for _, c := range piece {
		switch q.place {
		case outside:
			if c == '"' {
				q.place, q.kept, q.drop = inside, 0, false
			}
		case inside:
			q.inside(c)
		case afterBackslash:
			q.place = inside
			if c == 'u' {
				q.place, q.hex = inHex, 4
			}
		case inHex:
			if q.hex--; q.hex == 0 {
				q.place = inside
			}
		}
		if q.drop {
			continue
		}
		if q.full = q.full || len(q.out) == q.max; q.full {
			return
		}
		q.out = append(q.out, c)
		q.kept++
	}
}

// inside is where a string can end, or be cut: not within a character.
func (q *squeezer) inside(c byte) {
	switch {
	case c == '"':
		q.place, q.drop = outside, false
		return
	case q.kept > maxString && utf8.RuneStart(c):
		q.drop = true
	}
	if c == '\\' {
		q.place = afterBackslash
	}
}

// line is the shortened object, or false when it is over the limit even so.
func (q *squeezer) line() ([]byte, bool) { return q.out, !q.full }

// squeeze shortens a whole line, which must be over the limit.
func squeeze(text []byte, limit int) ([]byte, bool) {
	if len(text) == 0 || text[0] != '{' {
		return nil, false
	}
	q := squeezer{max: limit}
	q.add(text)
	return q.line()
}
