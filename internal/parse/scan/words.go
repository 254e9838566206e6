package scan

// number reads between least and most digits at b's start.
func number(b []byte, least, most int) (int, []byte, bool) {
	n, v := 0, 0
	for n < len(b) && n < most && digit(b[n]) {
		v = v*10 + int(b[n]-'0')
		n++
	}
	return v, b[n:], n >= least
}

func spaces(b []byte) []byte {
	for len(b) > 1 && b[0] == ' ' {
		b = b[1:]
	}
	return b
}

// readYear reads two or four digits.
func (s *stamp) readYear(b []byte) ([]byte, bool) {
	y, rest, ok := number(b, 2, 4)
	s.year, s.short = y, len(b)-len(rest) == 2
	return rest, ok && len(b)-len(rest) != 3
}

// weekday drops "Sat " or "Sat, " at b's start.
func weekday(b []byte) ([]byte, bool) {
	if len(b) < 12 {
		return nil, false
	}
	switch string(b[:3]) {
	case "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun":
	default:
		return nil, false
	}
	b = b[3:]
	if b[0] == ',' {
		b = b[1:]
	}
	if b[0] != ' ' {
		return nil, false
	}
	return spaces(b), true
}

// monthName reads the abbreviated name of a month, in English of any case or
// as strftime(3) writes it in some neighbours' languages, and gives its number
// and length.
func monthName(b []byte) (month, n int) {
	if len(b) < 4 {
		return 0, 0
	}
	switch uint32(b[0]|0x20)<<16 | uint32(b[1]|0x20)<<8 | uint32(b[2]|0x20) {
	case 'j'<<16 | 'a'<<8 | 'n', 'e'<<16 | 'n'<<8 | 'e', 'g'<<16 | 'e'<<8 | 'n':
		month = 1
	case 'f'<<16 | 'e'<<8 | 'b':
		month = 2
	case 'm'<<16 | 'a'<<8 | 'r', 'm'<<16 | 'r'<<8 | 'z':
		month = 3
	case 'a'<<16 | 'p'<<8 | 'r', 'a'<<16 | 'v'<<8 | 'r', 'a'<<16 | 'b'<<8 | 'r':
		month = 4
	case 'm'<<16 | 'a'<<8 | 'y', 'm'<<16 | 'a'<<8 | 'i', 'm'<<16 | 'e'<<8 | 'i', 'm'<<16 | 'a'<<8 | 'g':
		month = 5
	case 'j'<<16 | 'u'<<8 | 'n', 'g'<<16 | 'i'<<8 | 'u':
		month = 6
	case 'j'<<16 | 'u'<<8 | 'l', 'l'<<16 | 'u'<<8 | 'g':
		month = 7
	case 'a'<<16 | 'u'<<8 | 'g', 'a'<<16 | 'g'<<8 | 'o':
		month = 8
	case 's'<<16 | 'e'<<8 | 'p', 's'<<16 | 'e'<<8 | 't':
		month = 9
	case 'o'<<16 | 'c'<<8 | 't', 'o'<<16 | 'k'<<8 | 't', 'o'<<16 | 't'<<8 | 't':
		month = 10
	case 'n'<<16 | 'o'<<8 | 'v':
		month = 11
	case 'd'<<16 | 'e'<<8 | 'c', 'd'<<16 | 'e'<<8 | 'z', 'd'<<16 | 'i'<<8 | 'c':
		month = 12
	default:
		return accented(b)
	}
	n = 3
	for n < len(b) && n < 10 && (b[n]|0x20)-'a' <= 25 {
		n++
	}
	return month, n
}

// accented reads French and German names that begin with a letter outside of
// ASCII, and French June and July, which differ in their fourth letter.
func accented(b []byte) (month, n int) {
	for _, w := range [...]struct {
		name  string
		month int
	}{{"juin", 6}, {"juil", 7}, {"fév", 2}, {"févr", 2}, {"août", 8}, {"déc", 12}, {"mär", 3}} {
		if rest, ok := After(b, w.name); ok {
			n := len(b) - len(rest)
			for n < len(b) && n < 12 && (b[n]|0x20)-'a' <= 25 {
				n++
			}
			return w.month, n
		}
	}
	return 0, 0
}

// epoch reads Unix time in seconds, milliseconds, microseconds or
// nanoseconds, told apart by their length, with a fraction.
func (s *stamp) epoch(b []byte) ([]byte, bool) {
	v, n := int64(0), 0
	for n < len(b) && n < 19 && digit(b[n]) {
		v = v*10 + int64(b[n]-'0')
		n++
	}
	unit := int64(1)
	switch n {
	case 10:
	case 13:
		unit = 1e3
	case 16:
		unit = 1e6
	case 19:
		unit = 1e9
	default:
		return nil, false
	}
	rest := b[n:]
	if len(rest) > 0 && (nameByte(rest[0]) && rest[0] != '-') {
		return nil, false
	}
	s.absolute, s.unix = true, v/unit
	if s.unix < 1e8 || s.unix > 8e9 {
		return nil, false
	}
	if unit == 1 && len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') && digit(rest[1]) {
		rest = s.fraction(rest)
		return rest, true
	}
	s.nano = v % unit * (1e9 / unit)
	return rest, true
}

// tai reads TAI64 and TAI64N labels behind their @: sixteen hexadecimal
// digits of seconds, eight of nanoseconds (cr.yp.to/libtai/tai64.html). Like
// multilog's readers it takes TAI as ten seconds ahead of Unix time.
func (s *stamp) tai(b []byte) ([]byte, bool) {
	if len(b) < 16 || b[0] != '4' {
		return nil, false
	}
	var v uint64
	n := 0
	for n < 16 && hexDigit(b[n]) {
		v = v<<4 | uint64(hexValue(b[n]))
		n++
	}
	if n < 16 {
		return nil, false
	}
	var nano int64
	m := n
	for m < len(b) && m < 24 && hexDigit(b[m]) {
		nano = nano<<4 | int64(hexValue(b[m]))
		m++
	}
	if m == 24 {
		s.nano, n = nano%1e9, m
	} else if m != 16 {
		return nil, false
	}
	s.absolute, s.unix = true, int64(v-1<<62)-10
	return b[n:], s.unix > 1e8 && s.unix < 8e9
}
