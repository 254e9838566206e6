package parse

import (
	"bytes"
	"sync"
	"time"

	"stoplog/internal/parse/record"
	"stoplog/internal/parse/scan"
	"stoplog/internal/parse/web"
)

// clocks are parsers that read nothing but times.
var clocks = sync.Pool{New: func() any { return &Parser{web: &web.Reader{}} }}

// LineTime reads a line's own time in Unix nanoseconds, whatever wrote it: the
// stamp at its start or behind a syslog priority, the stamp of an access log,
// the time of a JSON or logfmt record. Stamps without a year are read near ref,
// those without a zone in loc. False when the line has none. It is safe for
// concurrent use.
func LineTime(line []byte, ref int64, loc *time.Location) (int64, bool) {
	if ns, _, ok := scan.Stamp(line, ref, loc); ok {
		return ns, true
	}
	p := clocks.Get().(*Parser)
	defer clocks.Put(p)
	p.memory = p.memory[:0]
	p.cur.Ref, p.cur.Loc = ref, loc
	return p.lineTime(line)
}

// lineTime is LineTime near p.cur.Ref, in its zone.
func (p *Parser) lineTime(b []byte) (int64, bool) {
	if len(b) > 3 && b[0] == '<' {
		rest, ok := priority(b)
		if !ok {
			return 0, false
		}
		if after, ok := scan.After(rest, "1 "); ok {
			rest = after
		}
		b = rest
	}
	if ns, _, ok := scan.Stamp(b, p.cur.Ref, p.cur.Loc); ok {
		return ns, true
	}
	if ns, ok := p.leveled(b); ok {
		return ns, true
	}
	if len(b) < 12 || blank(b[0]) {
		return 0, false
	}
	if _, ns, ok := record.Container(b, &p.memory, p.cur.Ref, p.cur.Loc); ok {
		return ns, true
	}
	return web.Time(p.message(), b)
}

// leveled reads the stamp behind what loggers write before it, which no client
// chooses: "WARN 2026-11-20 09:23:10,123", "I, [2026-11-20T09:23:10.123456 #7]"
// of Ruby's Logger, and "W1120 09:23:10.123456" of klog, which has no year.
func (p *Parser) leveled(b []byte) (int64, bool) {
	word, rest := scan.Word(b[:min(len(b), 64)])
	if len(word) == 5 && levelLetter(word[0]) && scan.Digits(word[1:]) {
		return p.klogTime(word[1:], rest)
	}
	word = bytes.Trim(word, "[]():,|")
	if len(word) != 1 && !levelWord(word) || len(word) == 1 && !levelLetter(word[0]) {
		return 0, false
	}
	ns, _, ok := scan.Stamp(bytes.TrimLeft(rest, " \t[(:,|-"), p.cur.Ref, p.cur.Loc)
	return ns, ok
}

// klogTime reads MMDD and hh:mm:ss.
func (p *Parser) klogTime(day, rest []byte) (int64, bool) {
	rest = scan.TrimLeft(rest)
	month := int(day[0]-'0')*10 + int(day[1]-'0')
	if month < 1 || month > 12 || len(rest) < 8 {
		return 0, false
	}
	text := append(append([]byte(time.Month(month).String()[:3]), ' '), day[2:]...)
	text = append(append(text, ' '), rest[:8]...)
	ns, _, ok := scan.Stamp(text, p.cur.Ref, p.cur.Loc)
	return ns, ok
}

func levelLetter(c byte) bool { return bytes.IndexByte([]byte("DIWEFAT"), c) >= 0 }

func levelWord(w []byte) bool {
	if len(w) < 3 || len(w) > 8 {
		return false
	}
	switch string(bytes.ToLower(w)) {
	case "trace", "debug", "dbg", "info", "inf", "notice", "warn", "warning", "wrn", "err", "error", "severe", "fatal", "critical", "crit", "alert", "emerg", "fine":
		return true
	}
	return false
}
