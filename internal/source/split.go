package source

import "bytes"

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
