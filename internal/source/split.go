package source

import "bytes"

// splitter cuts blocks into lines and counts.
type splitter struct {
	max    int
	number int64 // of the last line; meaningless when unknown
	known  bool  // number is known
	cut    int64 // lines that were over max
}

// split appends the whole lines of data to lines and returns how many bytes
// they take. What follows the last newline is left.
func (s *splitter) split(data []byte, lines []Line) ([]Line, int) {
	used := 0
	for {
		n := bytes.IndexByte(data[used:], '\n')
		if n < 0 {
			return lines, used
		}
		lines = append(lines, s.line(data[used:used+n]))
		used += n + 1
	}
}

// line makes a line of text, which has no newline but may end in a carriage
// return.
func (s *splitter) line(text []byte) Line {
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	l := Line{Text: text}
	if len(text) > s.max {
		l.Text, l.Cut = text[:s.max], true
		s.cut++
	}
	if s.known {
		s.number++
		l.Number = s.number
	}
	return l
}
