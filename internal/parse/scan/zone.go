package scan

// zone reads Z, +0200, +02:00, +02, UTC or an abbreviation, with or without
// a space before it.
func (s *stamp) zone(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	z := b
	if z[0] == ' ' {
		z = z[1:]
	}
	if len(z) == 0 {
		return b
	}
	switch c := z[0]; {
	case c == 'Z' && (len(z) == 1 || !nameByte(z[1])):
		s.zoned = true
		return z[1:]
	case c == '+' || c == '-':
		return s.numericZone(b, z)
	case c >= 'A' && c <= 'Z':
		return s.namedZone(b, z)
	}
	return b
}

func (s *stamp) numericZone(b, z []byte) []byte {
	n := 1
	for n < len(z) && digit(z[n]) {
		n++
	}
	if n != 3 && n != 5 || n == 3 && len(b) != len(z) && (len(z) < 6 || z[3] != ':') {
		return b
	}
	off, rest, _ := number(z[1:], 2, 2)
	off *= 3600
	if len(rest) > 2 && n == 3 && rest[0] == ':' {
		rest = rest[1:]
	}
	if m, after, ok := number(rest, 2, 2); ok {
		off += m * 60
		rest = after
	}
	if off > 15*3600 || len(rest) > 0 && (nameByte(rest[0]) || rest[0] == '.') {
		return b
	}
	if z[0] == '-' {
		off = -off
	}
	s.zoned, s.offset = true, off
	return rest
}

func (s *stamp) namedZone(b, z []byte) []byte {
	n := 0
	for n < len(z) && n < 6 && z[n] >= 'A' && z[n] <= 'Z' {
		n++
	}
	if n < 3 || n > 4 || n < len(z) && (nameByte(z[n]) || z[n] == '.') {
		return b
	}
	hours, ok := zoneHours(z[:n])
	if !ok {
		return b
	}
	s.zoned, s.offset, s.abbr = true, hours*3600, z[:n]
	rest := z[n:]
	if len(rest) == 5 || len(rest) > 5 && rest[0] == ' ' {
		return s.trailingYear(rest)
	}
	return rest
}

// zoneHours knows the abbreviations that mean one zone to most who write
// them. The local zone's own meaning goes first, in resolve.
func zoneHours(z []byte) (int, bool) {
	switch string(z) {
	case "UTC", "GMT", "WET":
		return 0, true
	case "CET", "BST", "WEST", "MEZ":
		return 1, true
	case "CEST", "EET", "SAST", "MESZ":
		return 2, true
	case "EEST", "MSK":
		return 3, true
	case "JST", "KST":
		return 9, true
	case "AEST":
		return 10, true
	case "AEDT":
		return 11, true
	case "NZST":
		return 12, true
	case "NZDT":
		return 13, true
	case "EDT":
		return -4, true
	case "EST", "CDT":
		return -5, true
	case "CST", "MDT":
		return -6, true
	case "MST", "PDT":
		return -7, true
	case "PST":
		return -8, true
	}
	return 0, false
}
