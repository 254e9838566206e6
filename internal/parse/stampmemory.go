package parse

import "stoplog/internal/parse/scan"

// stampMemory is the last minute that a stamp named, as it was written: busy
// logs write many lines a minute.
type stampMemory struct {
	ref    int64    // minute that years were inferred near
	syslog [13]byte // "Nov 20 09:23:"
	atSys  int64    // when that minute began, Unix ns
	iso    [17]byte // "2026-11-20T09:23:"
	zone   [6]byte  // "+00:00"
	zoneN  int
	atISO  int64
}

// stamp is scan.Stamp with a memory.
func (p *Parser) stamp(b []byte) (int64, []byte, bool) {
	m := &p.minute
	if len(b) < 27 || p.cur.Ref/60e9 != m.ref {
		return p.freshStamp(b)
	}
	year := (b[16] == '1' || b[16] == '2') && b[20] == ' '
	if b[15] == ' ' && !year && string(b[:13]) == string(m.syslog[:]) {
		if sec, ok := seconds(b[13:]); ok {
			return m.atSys + sec, b[15:], true
		}
	}
	if b[10] == 'T' && string(b[:17]) == string(m.iso[:]) {
		if ns, rest, ok := m.isoSeconds(b[17:]); ok {
			return ns, rest, true
		}
	}
	return p.freshStamp(b)
}

// seconds reads "10".
func seconds(b []byte) (int64, bool) {
	hi, lo := b[0]-'0', b[1]-'0'
	return (int64(hi)*10 + int64(lo)) * 1e9, hi <= 5 && lo <= 9
}

// isoSeconds reads "10.123456+00:00 " in the remembered zone.
func (m *stampMemory) isoSeconds(b []byte) (int64, []byte, bool) {
	ns, ok := seconds(b)
	if !ok {
		return 0, b, false
	}
	b = b[2:]
	if b[0] == '.' {
		n := 1
		for unit := int64(1e8); n < len(b) && b[n]-'0' <= 9; n++ {
			ns += int64(b[n]-'0') * unit
			unit /= 10
		}
		b = b[n:]
	}
	n := m.zoneN
	if len(b) <= n || b[n] != ' ' || string(b[:n]) != string(m.zone[:n]) {
		return 0, b, false
	}
	return m.atISO + ns, b[n:], true
}

// freshStamp reads a stamp and remembers its minute.
func (p *Parser) freshStamp(b []byte) (int64, []byte, bool) {
	ns, rest, ok := scan.Stamp(b, p.cur.Ref, p.cur.Loc)
	n := len(b) - len(rest)
	if !ok || len(rest) == 0 || rest[0] != ' ' || b[0] == '[' {
		return ns, rest, ok
	}
	m := &p.minute
	if ref := p.cur.Ref / 60e9; ref != m.ref {
		*m = stampMemory{ref: ref}
	}
	switch {
	case n == 15 && b[3] == ' ' && b[12] == ':':
		if sec, ok := seconds(b[13:]); ok {
			copy(m.syslog[:], b)
			m.atSys = ns - sec
		}
	case n >= 20 && b[10] == 'T' && b[16] == ':':
		m.rememberISO(b[:n], ns)
	}
	return ns, rest, true
}

func (m *stampMemory) rememberISO(b []byte, ns int64) {
	sec, ok := seconds(b[17:])
	z := 19
	if b[z] == '.' {
		for z++; z < len(b) && b[z]-'0' <= 9; z++ {
		}
	}
	if !ok || len(b)-z > len(m.zone) || len(b) == z || b[z] == ' ' {
		return
	}
	copy(m.iso[:], b)
	m.zoneN = copy(m.zone[:], b[z:])
	m.atISO = ns - sec - ns%1e9
}
