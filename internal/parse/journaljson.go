package parse

import (
	"stoplog/internal/parse/scan"
	"stoplog/internal/source"
)

// exported reads a line of "journalctl -o json" in a file (systemd's Journal
// JSON Format, https://systemd.io/JOURNAL_EXPORT_FORMATS). The fields that say
// who wrote an entry count as in the journal itself, but verify nothing: a file
// is anybody's who may write to it. Without them the line is as good as text.
// A field that is there twice, or a printed line that was cut at a NUL byte,
// leaves the line unread.
func (p *Parser) exported(b []byte, ev *Event) bool {
	var f journalFields
	if !f.walk(b) || f.vals[fieldMessage] == nil || f.vals[fieldRealtime] == nil {
		return false
	}
	text, ok := p.journalText(f.vals[fieldMessage])
	us, _, ok2 := scan.Uint(f.text(fieldRealtime))
	if !ok || !ok2 || us > 1<<53 {
		return false
	}
	switch string(f.text(fieldLineBreak)) {
	case "nul", "line-max":
		return false
	}
	en := &p.exportEntry
	*en = source.Entry{
		Time: int64(us) * 1e3, Ident: f.text(fieldIdent), UID: -1, Exe: f.text(fieldExe), Unit: f.text(fieldUnit),
		Container: f.text(fieldContainer), Transport: source.TransportOf(f.text(fieldTransport)),
	}
	if en.Ident == nil {
		en.Ident = f.text(fieldComm)
	}
	if n, rest, ok := scan.Uint(f.text(fieldUID)); ok && len(rest) == 0 && n < 1<<32 {
		en.UID = int64(n)
	}
	for _, k := range [...]int{fieldSyslogPID, fieldPID} {
		if n, rest, ok := scan.Uint(f.text(k)); ok && len(rest) == 0 && n < 1<<32 {
			en.PID = uint32(n)
			break
		}
	}
	if en.UID >= 0 || en.Unit != nil || en.Container != nil {
		p.from = en
	}
	if !p.entry(trimEnd(text), en, ev) || p.from != nil && !p.authorise(en, ev) {
		return false
	}
	ev.Verified = false
	return true
}

// journalText decodes a message: a string, or, when it is not all printable
// text, an array of its bytes' values.
func (p *Parser) journalText(v []byte) ([]byte, bool) {
	if v[0] == '"' {
		text, _, ok := p.unquote(v[1:])
		return text, ok
	}
	start := len(p.memory)
	for i := 0; v[i] != ']'; {
		i = skipSpace(v, i+1) // behind the bracket or a comma
		n, rest, ok := scan.Uint(v[i:])
		if !ok || n > 255 {
			return nil, false
		}
		p.memory = append(p.memory, byte(n))
		i = skipSpace(v, len(v)-len(rest))
		if i >= len(v) || v[i] != ',' && v[i] != ']' {
			return nil, false
		}
	}
	return p.memory[start:len(p.memory):len(p.memory)], true
}

const (
	fieldMessage = iota
	fieldRealtime
	fieldIdent
	fieldComm
	fieldPID
	fieldSyslogPID
	fieldTransport
	fieldUID
	fieldExe
	fieldUnit
	fieldContainer
	fieldLineBreak
	journalFieldCount
)

var journalKeys = [journalFieldCount]string{
	"MESSAGE", "__REALTIME_TIMESTAMP", "SYSLOG_IDENTIFIER", "_COMM", "_PID", "SYSLOG_PID", "_TRANSPORT",
	"_UID", "_EXE", "_SYSTEMD_UNIT", "CONTAINER_NAME", "_LINE_BREAK",
}

// journalFields are the values, with their quotes.
type journalFields struct{ vals [journalFieldCount][]byte }

// walk reads a flat object to its end.
func (f *journalFields) walk(b []byte) bool {
	var r record
	for i := skipSpace(b, 1); i < len(b); i = skipSpace(b, i+1) {
		end := stringEnd(b, i)
		if end < 0 {
			return false
		}
		key := b[i+1 : end-1]
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return false
		}
		if i = skipSpace(b, i+1); i >= len(b) {
			return false
		}
		if end = r.skipValue(b, i, 0); end < 0 || !f.keep(key, b[i:end]) {
			return false
		}
		if i = skipSpace(b, end); i < len(b) && b[i] == '}' {
			return skipSpace(b, i+1) == len(b)
		}
		if i >= len(b) || b[i] != ',' {
			return false
		}
	}
	return false
}

// keep takes a field that is wanted: a string or, of a message only, an array.
func (f *journalFields) keep(key, v []byte) bool {
	for i, k := range journalKeys {
		if k == string(key) {
			if f.vals[i] != nil || v[0] != '"' && (v[0] != '[' || i != fieldMessage) {
				return false
			}
			f.vals[i] = v
		}
	}
	return true
}

// text is a string's value as it is written, nil when there is none.
func (f *journalFields) text(i int) []byte {
	v := f.vals[i]
	if len(v) < 2 {
		return nil
	}
	return v[1 : len(v)-1]
}
