package parse

import (
	"stoplog/internal/parse/scan"
	"stoplog/internal/source"
)

// exported reads a line of "journalctl -o json" in a file (systemd's Journal
// JSON Format, https://systemd.io/JOURNAL_EXPORT_FORMATS). Nothing is verified
// by it: a file is anybody's who may write to it. A message that is no text, or
// a field that is there twice, leaves the line unread.
func (p *Parser) exported(b []byte, ev *Event) bool {
	var f journalFields
	if !f.walk(b) || f.vals[fieldMessage] == nil || f.vals[fieldRealtime] == nil {
		return false
	}
	text, _, ok := p.unquote(f.vals[fieldMessage][1:])
	us, _, ok2 := scan.Uint(unquoted(f.vals[fieldRealtime]))
	if !ok || !ok2 || us > 1<<53 {
		return false
	}
	en := source.Entry{Time: int64(us) * 1e3, Ident: unquoted(f.vals[fieldIdent]), UID: -1, Kernel: string(unquoted(f.vals[fieldTransport])) == "kernel"}
	if en.Ident == nil {
		en.Ident = unquoted(f.vals[fieldComm])
	}
	for _, k := range [...]int{fieldSyslogPID, fieldPID} {
		if n, rest, ok := scan.Uint(unquoted(f.vals[k])); ok && len(rest) == 0 && n < 1<<32 {
			en.PID = uint32(n)
			break
		}
	}
	return p.entry(trimEnd(text), &en, ev)
}

const (
	fieldMessage = iota
	fieldRealtime
	fieldIdent
	fieldComm
	fieldPID
	fieldSyslogPID
	fieldTransport
	journalFieldCount
)

var journalKeys = [journalFieldCount]string{"MESSAGE", "__REALTIME_TIMESTAMP", "SYSLOG_IDENTIFIER", "_COMM", "_PID", "SYSLOG_PID", "_TRANSPORT"}

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

func (f *journalFields) keep(key, v []byte) bool {
	for i, k := range journalKeys {
		if k == string(key) {
			if f.vals[i] != nil || v[0] != '"' {
				return false
			}
			f.vals[i] = v
		}
	}
	return true
}

func unquoted(v []byte) []byte {
	if len(v) < 2 {
		return nil
	}
	return v[1 : len(v)-1]
}
