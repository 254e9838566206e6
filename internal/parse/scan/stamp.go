package scan

import "time"

// Stamp reads a time stamp of any format that servers write at b's start,
// also in square brackets; rest begins right behind it (behind the bracket
// when that closes at once). It returns Unix nanoseconds.
//
// ref (Unix ns, about when the line was read) tells the year where the stamp
// has none, the century where it has two digits, which of day and month comes
// first where nothing else does, and which of the two hours is meant when
// clocks are set back. loc is the zone where the stamp names none; nil is UTC.
// Time of day without a date is no stamp. Nothing is allocated.
func Stamp(b []byte, ref int64, loc *time.Location) (ns int64, rest []byte, ok bool) {
	in := b
	if len(b) > 0 && b[0] == '[' {
		b = b[1:]
	}
	if len(b) < 8 {
		return 0, in, false
	}
	var s stamp
	rest, ok = s.read(b)
	if !ok {
		return 0, in, false
	}
	if len(in) != len(b) && len(rest) > 0 && rest[0] == ']' {
		rest = rest[1:]
	}
	ns, ok = s.resolve(ref, loc)
	if !ok {
		return 0, in, false
	}
	return ns, rest, true
}

// stamp is what has been read of a time stamp.
type stamp struct {
	year, month, day  int // year -1: none
	hour, minute, sec int
	nano              int64
	short             bool // the year has two digits
	either            bool // day and month may be the other way round
	zoned             bool // offset holds
	offset            int  // seconds east of Greenwich
	abbr              []byte
	absolute          bool // unix and nano hold, nothing else does
	unix              int64
}

func (s *stamp) read(b []byte) ([]byte, bool) {
	s.year = -1
	switch c := b[0]; {
	case digit(c):
		return s.numeric(b)
	case c == '@':
		return s.tai(b[1:])
	case c == 'a':
		if rest, ok := After(b, "audit("); ok {
			return s.epoch(rest)
		}
	}
	return s.worded(b)
}

// worded reads stamps that begin with the name of a month or weekday.
func (s *stamp) worded(b []byte) ([]byte, bool) {
	m, n := monthName(b)
	if m == 0 {
		b, ok := weekday(b)
		if !ok {
			return nil, false
		}
		if digit(b[0]) {
			return s.numeric(b)
		}
		if m, n = monthName(b); m == 0 {
			return nil, false
		}
		return s.monthFirst(b[n:], m)
	}
	return s.monthFirst(b[n:], m)
}

// monthFirst reads "Jun  1 02:17:42 …", "Jun 1 2013 02:17:42", "Jun 1, 2013
// 2:17:42 AM" and "Apr-07-13 07:08:36" behind the month's name.
func (s *stamp) monthFirst(b []byte, month int) ([]byte, bool) {
	s.month = month
	if len(b) < 8 {
		return nil, false
	}
	sep := b[0]
	if sep != ' ' && sep != '-' && sep != '/' {
		return nil, false
	}
	b = spaces(b[1:])
	var ok bool
	if s.day, b, ok = number(b, 1, 2); !ok || len(b) < 2 {
		return nil, false
	}
	if sep != ' ' {
		if b[0] != sep {
			return nil, false
		}
		if b, ok = s.readYear(b[1:]); !ok || len(b) == 0 {
			return nil, false
		}
		return s.clock(spaces(b))
	}
	if b[0] == ',' {
		b = b[1:]
	}
	if len(b) == 0 || b[0] != ' ' {
		return nil, false
	}
	b = spaces(b)
	if y, after, ok := number(b, 4, 4); ok && len(after) > 0 && (after[0] == ' ' || after[0] == ',') {
		s.year = y
		return s.clock(spaces(after[1:]))
	}
	b, ok = s.clock(b)
	if !ok {
		return nil, false
	}
	return s.trailingYear(b), true
}

// trailingYear reads the year behind the time, as in asctime(3).
func (s *stamp) trailingYear(b []byte) []byte {
	if len(b) < 5 || b[0] != ' ' || s.year >= 0 {
		return b
	}
	y, after, ok := number(b[1:], 4, 4)
	if !ok || y < 1970 || y > 2199 || !endsHere(after, false) || len(after) > 1 && after[0] == ':' && after[1] != ' ' {
		return b
	}
	s.year = y
	return after
}

// numeric reads stamps that begin with a digit.
func (s *stamp) numeric(b []byte) ([]byte, bool) {
	n := 0
	for n < len(b) && n < 20 && digit(b[n]) {
		n++
	}
	if n == len(b) && n < 10 {
		return nil, false
	}
	switch n {
	case 1, 2:
		return s.dayFirst(b)
	case 4:
		return s.yearFirst(b)
	case 6, 8, 14:
		return s.compact(b, n)
	case 10, 13, 16, 19:
		return s.epoch(b)
	}
	return nil, false
}

// yearFirst reads 2013-06-01T02:17:42, with - / . or a space between, with
// the month's name, and "2022/02/07 - 10:49:33".
func (s *stamp) yearFirst(b []byte) ([]byte, bool) {
	s.year, b, _ = number(b, 4, 4)
	if len(b) < 8 {
		return nil, false
	}
	sep := b[0]
	if sep != '-' && sep != '/' && sep != '.' && sep != ' ' {
		return nil, false
	}
	b = b[1:]
	ok := false
	if digit(b[0]) && sep != ' ' {
		s.month, b, ok = number(b, 1, 2)
	} else if m, n := monthName(b); m > 0 {
		s.month, b, ok = m, b[n:], true
	}
	if !ok || len(b) < 2 || b[0] != sep {
		return nil, false
	}
	if s.day, b, ok = number(spaces(b[1:]), 1, 2); !ok || len(b) < 2 {
		return nil, false
	}
	return s.gapClock(b)
}

// dayFirst reads stamps that begin with one or two digits: 01/Jun/2013:02:17:42,
// 01-Jun-2013 02:17:42, 1 Jun 2013 02:17:42, 23.01.2005 21:59:59, 02/25/2005
// 2:34:10 PM, 22-06-2014 09:56:12 and 08-03 07:56:53.
func (s *stamp) dayFirst(b []byte) ([]byte, bool) {
	first, b, _ := number(b, 1, 2)
	if len(b) < 8 {
		return nil, false
	}
	sep := b[0]
	if sep != '/' && sep != '-' && sep != '.' && sep != ' ' {
		return nil, false
	}
	b = b[1:]
	if !digit(b[0]) {
		return s.dayName(b, first, sep)
	}
	second, b, ok := number(b, 1, 2)
	if !ok || sep == ' ' || len(b) < 6 {
		return nil, false
	}
	s.month, s.day = first, second
	if b[0] == ' ' && sep == '-' {
		return s.clock(b[1:])
	}
	if b[0] != sep {
		return nil, false
	}
	y, b, ok := number(b[1:], 4, 4)
	if !ok {
		return nil, false
	}
	s.year = y
	s.either = sep != '.'
	if sep == '.' || first > 12 {
		s.month, s.day, s.either = second, first, false
	}
	return s.gapClock(b)
}

// dayName reads "Jun/2013:02:17:42" behind the day.
func (s *stamp) dayName(b []byte, day int, sep byte) ([]byte, bool) {
	m, n := monthName(b)
	if b = b[n:]; m == 0 || len(b) < 8 {
		return nil, false
	}
	s.day, s.month = day, m
	if b[0] == '.' {
		b = b[1:]
	}
	if b[0] != sep {
		return nil, false
	}
	if sep == ' ' && len(b) > 3 && (b[2] == ':' || b[3] == ':') {
		return s.clock(b[1:])
	}
	b, ok := s.readYear(b[1:])
	if !ok {
		return nil, false
	}
	return s.gapClock(b)
}

// gapClock reads what parts date and time, and the time.
func (s *stamp) gapClock(b []byte) ([]byte, bool) {
	if len(b) < 6 {
		return nil, false
	}
	switch b[0] {
	case 'T', 't', ':', '_', '-':
		return s.clock(b[1:])
	case ',':
		b = b[1:]
	case ' ':
		if b[1] == '-' && b[2] == ' ' {
			b = b[2:]
		}
	}
	if b[0] != ' ' {
		return nil, false
	}
	return s.clock(spaces(b))
}

// compact reads "130324  8:24:09", 20050125 143410, 20220407-12:11:06 and
// 20050123215959.
func (s *stamp) compact(b []byte, n int) ([]byte, bool) {
	y := 4
	if n == 6 {
		y, s.short = 2, true
	}
	s.year, b, _ = number(b, y, y)
	s.month, b, _ = number(b, 2, 2)
	s.day, b, _ = number(b, 2, 2)
	if n == 14 {
		return s.digitsClock(b)
	}
	if len(b) < 7 || b[0] != ' ' && b[0] != '-' && b[0] != 'T' {
		return nil, false
	}
	b = spaces(b[1:])
	if len(b) >= 6 && Digits(b[:6]) {
		return s.digitsClock(b)
	}
	return s.clock(b)
}

func (s *stamp) digitsClock(b []byte) ([]byte, bool) {
	s.hour, b, _ = number(b, 2, 2)
	s.minute, b, _ = number(b, 2, 2)
	sec, b, ok := number(b, 2, 2)
	if !ok || len(b) > 0 && digit(b[0]) {
		return nil, false
	}
	s.sec = sec
	return s.afterClock(b)
}

// clock reads h:mm:ss and what belongs to it.
func (s *stamp) clock(b []byte) ([]byte, bool) {
	var ok bool
	if s.hour, b, ok = number(b, 1, 2); !ok || len(b) < 5 || b[0] != ':' {
		return nil, false
	}
	if s.minute, b, ok = number(b[1:], 2, 2); !ok || len(b) < 3 || b[0] != ':' {
		return nil, false
	}
	if s.sec, b, ok = number(b[1:], 2, 2); !ok {
		return nil, false
	}
	return s.afterClock(b)
}

// afterClock reads fraction, AM or PM, and zone.
func (s *stamp) afterClock(b []byte) ([]byte, bool) {
	if len(b) == 0 {
		return b, true
	}
	if digit(b[0]) {
		return nil, false
	}
	if b[0] == '.' || b[0] == ',' || b[0] == ':' {
		b = s.fraction(b)
	}
	if len(b) >= 3 && b[0] == ' ' && b[2]|0x20 == 'm' && (len(b) == 3 || !nameByte(b[3])) {
		switch b[1] | 0x20 {
		case 'a':
			s.hour, s.either, b = s.hour%12, false, b[3:]
		case 'p':
			s.hour, s.either, b = s.hour%12+12, false, b[3:]
		}
	}
	return s.zone(b), true
}

// fraction reads .123456 or ,123, and :123 when it is three digits.
func (s *stamp) fraction(b []byte) []byte {
	n, v, scale := 1, int64(0), int64(1e9)
	for n < len(b) && digit(b[n]) {
		if scale > 1 {
			v, scale = v*10+int64(b[n]-'0'), scale/10
		}
		n++
	}
	if n == 1 || b[0] == ':' && n != 4 {
		return b
	}
	s.nano = v * scale
	return b[n:]
}
