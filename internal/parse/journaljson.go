package parse

import (
	"bytes"

	"stoplog/internal/parse/record"
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
	if !f.walk(b) || f.vals[fieldMessage] == nil && f.list == nil || f.vals[fieldRealtime] == nil {
		return false
	}
	text, ok := p.journalText(&f)
	us, _, ok2 := scan.Uint(f.vals[fieldRealtime])
	if !ok || !ok2 || us > 1<<53 {
		return false
	}
	switch string(f.vals[fieldLineBreak]) {
	case "nul", "line-max":
		return false
	}
	en := &p.exportEntry
	*en = source.Entry{
		Time: int64(us) * 1e3, Ident: f.vals[fieldIdent], UID: -1, Exe: f.vals[fieldExe], Unit: f.vals[fieldUnit],
		Container: f.vals[fieldContainer], Transport: source.TransportOf(f.vals[fieldTransport]),
	}
	if en.Ident == nil {
		en.Ident = f.vals[fieldComm]
	}
	if n, rest, ok := scan.Uint(f.vals[fieldUID]); ok && len(rest) == 0 && n < 1<<32 {
		en.UID = int64(n)
	}
	for _, k := range [...]int{fieldSyslogPID, fieldPID} {
		if n, rest, ok := scan.Uint(f.vals[k]); ok && len(rest) == 0 && n < 1<<32 {
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
// text, a list of its bytes' values.
func (p *Parser) journalText(f *journalFields) ([]byte, bool) {
	if f.list == nil {
		return record.Text(f.vals[fieldMessage], &p.memory), true
	}
	start := len(p.memory)
	for rest := f.list[1:]; ; { // behind the bracket or a comma
		n, after, ok := scan.Uint(bytes.TrimLeft(rest, " \t"))
		if rest = bytes.TrimLeft(after, " \t"); !ok || n > 255 || len(rest) == 0 {
			return nil, false
		}
		p.memory = append(p.memory, byte(n))
		switch rest[0] {
		case ']':
			return p.memory[start:len(p.memory):len(p.memory)], true
		case ',':
			rest = rest[1:]
		default:
			return nil, false
		}
	}
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

// journalFields are the values of an entry, escapes not replaced.
type journalFields struct {
	vals [journalFieldCount][]byte
	list []byte // the message, when it is a list
}

// walk reads a flat object to its end.
func (f *journalFields) walk(b []byte) bool {
	for j := record.Open(b); ; {
		k, key, v := j.Next()
		switch k {
		case record.Bad:
			return false
		case record.End:
			return len(j.Rest()) == 0
		case record.Object, record.List:
			if v = j.Skip(); v == nil {
				return false
			}
		}
		if !f.keep(key, k, v) {
			return false
		}
	}
}

// keep takes a field by its key: a string or, for the message only, a list.
func (f *journalFields) keep(key []byte, k record.Kind, v []byte) bool {
	i := 0
	for i < len(journalKeys) && journalKeys[i] != string(key) {
		i++
	}
	switch {
	case i == len(journalKeys):
		return true
	case f.vals[i] != nil || i == fieldMessage && f.list != nil:
		return false
	case k == record.String:
		f.vals[i] = v
		return true
	case k == record.List && i == fieldMessage:
		f.list = v
		return true
	}
	return false
}
