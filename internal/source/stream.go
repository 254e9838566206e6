package source

import (
	"bytes"
	"errors"
	"io"
)

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
