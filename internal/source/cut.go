package source

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// splitter cuts blocks into lines and counts.
type splitter struct {
	max    int
	enc    encoding
	number int64 // of the last line; meaningless when unknown
	known  bool  // number is known
	cut    int64 // lines that were over max
}

// split appends the whole lines of data to lines and returns how many bytes
// they take. What follows the last newline is left.
func (s *splitter) split(data []byte, lines []Line) ([]Line, int) {
	used := 0
	if s.enc == utf8Text {
		for s.known { // the common case, without a call for each line
			n := bytes.IndexByte(data[used:], '\n')
			if n < 0 {
				return lines, used
			}
			text := data[used : used+n]
			used += n + 1
			if n > s.max {
				lines = append(lines, s.line(text))
				continue
			}
			if n > 0 && text[n-1] == '\r' {
				text = text[:n-1]
			}
			s.number++
			lines = append(lines, Line{Text: text, Number: s.number})
		}
	}
	for {
		n, next := s.enc.newline(data[used:], false)
		if n < 0 {
			return lines, used
		}
		lines = append(lines, s.line(data[used:used+n]))
		used += next
	}
}

// line makes a line of text, which has no newline but may end in a carriage
// return.
func (s *splitter) line(text []byte) Line {
	text = s.enc.text(text)
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	if len(text) <= s.max {
		return s.count(Line{Text: text})
	}
	if short, ok := squeeze(text, s.max); ok {
		return s.shortened(short)
	}
	s.cut++
	return s.count(Line{Text: text[:s.max], Cut: true})
}

// shortened makes a line of what squeeze left of one that is over the limit.
func (s *splitter) shortened(text []byte) Line {
	s.cut++
	return s.count(Line{Text: text})
}

func (s *splitter) count(l Line) Line {
	if s.known {
		s.number++
		l.Number = s.number
	}
	return l
}

// lineReader cuts a stream into batches of lines. It holds at most one block,
// and between reads only the half line at its end.
type lineReader struct {
	r    io.Reader
	pool *pools
	splitter
	off    int64 // bytes of whole lines handed on
	before tail  // the last of them
	rest   []byte
	skip   bool  // within a line over the limit, whose beginning is in rest
	over   int64 // bytes of that line that were dropped
	// squeeze gets all of that line, when it is JSON.
	squeeze *squeezer
	err     error // of the reader
	size    int   // of the next block: small while little comes at once
	// last hands on what follows the last newline, as a line, at the end.
	last bool
}

func newLineReader(r io.Reader, pool *pools, maxLine int) *lineReader {
	return &lineReader{r: r, pool: pool, splitter: splitter{max: maxLine, known: true}, size: smallBlock}
}

// next returns the next lines, or the reader's error, io.EOF at its end, when
// there are none left. It blocks as long as the reader does.
func (s *lineReader) next() (*block, error) {
	for s.err == nil {
		b := s.pool.get(max(s.size, len(s.rest)+max(smallBlock, len(s.rest))))
		n := copy(b.bytes, s.rest)
		var m int
		m, s.err = s.r.Read(b.bytes[n:])
		s.size = smallBlock
		if m > smallBlock/2 {
			s.size = largeBlock
		}
		s.feed(b, n, n+m)
		if len(b.lines) > 0 {
			return b, nil
		}
		b.put()
	}
	if b := s.tail(); b != nil {
		return b, nil
	}
	return nil, s.err
}

// feed cuts the first end bytes of b, of which those from start on are new.
func (s *lineReader) feed(b *block, start, end int) {
	from := 0
	if s.off == 0 && !s.skip {
		s.enc = encodingOf(b.bytes[:end])
	}
	if s.skip {
		n, next := s.enc.newline(b.bytes[start:end], (int64(start)+s.over)&1 == 1)
		if n < 0 {
			s.over += int64(end - start)
			if s.squeeze != nil {
				s.squeeze.add(b.bytes[start:end])
			}
			return
		}
		b.lines = append(b.lines, s.longLine(b.bytes[:start], b.bytes[start:start+n]))
		s.off += int64(start) + s.over + int64(next)
		s.before.n = 0
		s.before.add(b.bytes[start : start+next])
		s.skip, s.over, from = false, 0, start+next
	}
	var used int
	b.lines, used = s.split(b.bytes[from:end], b.lines)
	s.before.add(b.bytes[from : from+used])
	s.off += int64(used)
	s.keep(b.bytes[from+used : end])
}

// longLine makes a line of one over the limit, of which rest was kept, and which
// ends in last.
func (s *lineReader) longLine(rest, last []byte) Line {
	q := s.squeeze
	s.squeeze = nil
	if q != nil {
		q.add(last)
		if short, ok := q.line(); ok {
			return s.shortened(bytes.TrimSuffix(short, []byte("\r")))
		}
	}
	return s.line(rest)
}

// keep holds the half line that a block ends in, of which no more than shows
// that it is over the limit.
func (s *lineReader) keep(half []byte) {
	s.rest = append(s.rest[:0], half[:min(len(half), s.max+2)]...)
	if len(half) > s.max+1 {
		s.skip, s.over = true, int64(len(half)-len(s.rest))
		if half[0] == '{' && s.enc == utf8Text {
			s.squeeze = &squeezer{max: s.max}
			s.squeeze.add(half)
		}
	}
	if len(half) == 0 && cap(s.rest) > smallBlock {
		s.rest = nil
	}
}

// tail returns what follows the last newline, when it is wanted.
func (s *lineReader) tail() *block {
	if !s.last || len(s.rest) == 0 || !errors.Is(s.err, io.EOF) {
		return nil
	}
	b := s.pool.get(len(s.rest))
	n := copy(b.bytes, s.rest)
	b.lines = append(b.lines, s.longLine(b.bytes[:n], nil))
	s.off += int64(n) + s.over
	s.rest, s.over, s.skip = nil, 0, false
	return b
}

// half is how many bytes follow the last newline.
func (s *lineReader) half() int64 { return int64(len(s.rest)) + s.over }

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

// encoding is how the text of a file is encoded. SQL Server and other programs
// from Windows write UTF-16. Positions are in the file's bytes in any case; lines
// are handed on in UTF-8.
type encoding int

const (
	utf8Text encoding = iota // or any other in which a newline is one byte
	utf16LE
	utf16BE
)

// encodingOf returns the encoding of a file by its start: a byte order mark, or
// four characters of ASCII in UTF-16, for the mark is gone once the log was
// truncated in place.
func encodingOf(head []byte) encoding {
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		return utf16LE
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return utf16BE
	case len(head) < 8:
		return utf8Text
	}
	little, big := true, true
	for i := 0; i < 8; i += 2 {
		little = little && isText(head[i]) && head[i+1] == 0
		big = big && head[i] == 0 && isText(head[i+1])
	}
	switch {
	case little:
		return utf16LE
	case big:
		return utf16BE
	}
	return utf8Text
}

func isText(c byte) bool { return c >= ' ' && c < 0x7f || c == '\t' || c == '\r' || c == '\n' }

// newline is the offset of the first newline in b and of what follows it, -1
// when there is none. odd says that b begins within a character of UTF-16.
func (e encoding) newline(b []byte, odd bool) (at, next int) {
	if e == utf8Text {
		at = bytes.IndexByte(b, '\n')
		return at, at + 1
	}
	low := 0 // of the two bytes, which one holds the newline
	if e == utf16BE {
		low = 1
	}
	if odd {
		low ^= 1
	}
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return -1, 0
		}
		i += from
		from = i + 1
		if i&1 != low {
			continue
		}
		if e == utf16LE && i+1 < len(b) && b[i+1] == 0 {
			return i, i + 2
		}
		if e == utf16BE && i > 0 && b[i-1] == 0 {
			return i - 1, i + 1
		}
	}
}

// lastLine is the offset of what follows the last newline in b, -1 when there is
// none.
func (e encoding) lastLine(b []byte) int {
	if e == utf8Text {
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return i + 1
		}
		return -1
	}
	last := -1
	for from := 0; ; {
		at, next := e.newline(b[from:], false)
		if at < 0 {
			return last
		}
		from += next
		last = from
	}
}

// unitSize is how many bytes the smallest character takes.
func (e encoding) unitSize() int64 {
	if e == utf8Text {
		return 1
	}
	return 2
}

// whole is n without half a character.
func (e encoding) whole(n int64) int64 {
	if e == utf8Text {
		return n
	}
	return n &^ 1
}

// text is b in UTF-8, b itself when it is that, without a byte order mark. Half a
// character at the end is dropped; half a surrogate pair becomes U+FFFD.
func (e encoding) text(b []byte) []byte {
	if e == utf8Text {
		return b
	}
	out := make([]byte, 0, len(b)/2+8)
	for i := 0; i+1 < len(b); i += 2 {
		r := e.unit(b[i:])
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+3 < len(b) {
				pair = utf16.DecodeRune(r, e.unit(b[i+2:]))
			}
			if pair != utf8.RuneError {
				i += 2
			}
			r = pair
		}
		if r != '\ufeff' || i > 0 {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func (e encoding) unit(b []byte) rune {
	if e == utf16BE {
		return rune(b[0])<<8 | rune(b[1])
	}
	return rune(b[1])<<8 | rune(b[0])
}
