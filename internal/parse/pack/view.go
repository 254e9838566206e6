package pack

import (
	"bytes"
	"time"

	"stoplog/internal/parse/record"
	"stoplog/internal/parse/scan"
)

// view is a line made ready to be read by patterns. It is made at the first
// fixed text that the line has in common with one.
type view struct {
	plain []byte // without colours, container prefix and blanks at its end
	rest  []byte // plain after the stamp it begins with; nil when it has none
	time  int64  // of that stamp, 0 when there is none

	sought bool // whether fields were looked for
	fields []fieldValue
}

func (m *Match) loc() *time.Location {
	if m.Loc == nil {
		return time.UTC
	}
	return m.Loc
}

// newView prepares line; m's memory holds what must be copied.
func newView(line []byte, m *Match) *view {
	v := &view{plain: unmarked(bytes.TrimRight(record.Compose(m.uncolour(line)), " \t\r\n"))}
	if ns, rest, ok := scan.Stamp(v.plain, m.Ref, m.loc()); ok && v.plain[0] != ' ' && v.plain[0] != '\t' {
		v.time, v.rest = ns, bytes.TrimLeft(rest, " \t]:,-|")
	}
	return v
}

// unmarked is text in which another control byte stands for each NUL byte,
// since that one is ours.
func unmarked(text []byte) []byte {
	if bytes.IndexByte(text, mark) < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte{mark}, []byte{1})
}

// match reports whether the pattern reads the line, at first behind its stamp.
func (v *view) match(p *pattern, m *Match) bool {
	if len(v.plain) > 0 && (v.plain[0] == ' ' || v.plain[0] == '\t') && (p.text == nil || !p.text.indent) {
		return false // it goes on with the record before it
	}
	if p.unless != nil && p.unless.compiled().Match(v.plain) {
		return false
	}
	if p.text == nil {
		return v.matchFields(p, m)
	}
	if len(v.rest) > 0 && p.text.match(v.rest, m) {
		return true
	}
	m.clear()
	return v.plain != nil && p.text.match(v.plain, m)
}

// uncolour drops terminal colours, as they are or as rsyslog escapes them.
func (m *Match) uncolour(line []byte) []byte {
	if bytes.IndexByte(line, 0x1b) < 0 && !bytes.Contains(line, []byte("#033[")) {
		return line
	}
	n := len(m.kept)
	for len(line) > 0 {
		if k := colour(line); k > 0 {
			line = line[k:]
			continue
		}
		m.kept, line = append(m.kept, line[0]), line[1:]
	}
	return m.kept[n:len(m.kept):len(m.kept)]
}

// colour returns the length of the colour sequence at b's start (ECMA-48, SGR).
func colour(b []byte) int {
	i := 0
	switch {
	case bytes.HasPrefix(b, []byte("\x1b[")):
		i = 2
	case bytes.HasPrefix(b, []byte("#033[")):
		i = 5
	default:
		return 0
	}
	for ; i < len(b); i++ {
		if b[i] == 'm' {
			return i + 1
		}
		if b[i]-'0' > 9 && b[i] != ';' {
			break
		}
	}
	return 0
}
