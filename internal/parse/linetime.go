package parse

import (
	"bytes"
	"sync"
	"time"

	"stoplog/internal/parse/scan"
)

// clocks are parsers that read nothing but times.
var clocks = sync.Pool{New: func() any { return new(Parser) }}

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
	p.Reset()
	p.now, p.opt.Location = ref, loc
	return p.lineTime(line)
}

// lineTime is LineTime near p.now, in p's zone.
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
	if ns, _, ok := scan.Stamp(b, p.ref(), p.loc()); ok {
		return ns, true
	}
	if ns, ok := p.leveled(b); ok {
		return ns, true
	}
	switch {
	case len(b) < 12 || blank(b[0]):
	case b[0] == '{':
		return p.recordTime(b)
	default:
		// Servers write the stamp before the first thing that they quote.
		head, _, _ := bytes.Cut(b[:min(len(b), 1<<10)], []byte{'"'})
		if _, ns, _, ok := accessStamp(p, head); ok {
			return ns, true
		}
		if ns, ok := p.requestTime(b); ok {
			return ns, true
		}
		return p.pairsTime(b)
	}
	return 0, false
}

// requestTime reads the stamp before the quoted request of an access log whose
// user holds a quote. Of several such stamps the client may have written one, so
// that the line has no time that can be believed.
func (p *Parser) requestTime(b []byte) (ns int64, ok bool) {
	b = b[:min(len(b), 1<<10)]
	for range 8 {
		_, rest, found := scan.Cut(b, "[")
		if !found {
			return ns, ok
		}
		b = rest
		at, rest, stamp := clfStamp(b, p.loc())
		if !stamp {
			continue
		}
		if _, request := scan.After(rest, `] "`); !request {
			continue
		}
		if ok {
			return 0, false
		}
		ns, ok = at, true
	}
	return 0, false // more brackets than are looked at
}

// recordTime reads the time of a JSON object.
func (p *Parser) recordTime(b []byte) (int64, bool) {
	if _, ns, ok := p.container(b); ok {
		return ns, true
	}
	r := p.newRecord()
	if end := r.walkObject(b, 0, atTop, r.root(), 0); end < 0 {
		return 0, false
	}
	return r.time(p)
}

// pairsTime reads the time of a logfmt line.
func (p *Parser) pairsTime(b []byte) (int64, bool) {
	r := p.newRecord()
	for len(b) > 0 {
		key, value, rest, ok := logfmtPair(b)
		if !ok {
			return 0, false
		}
		r.keep(atTop, r.root(), key, value)
		b = rest
	}
	return r.time(p)
}

func (r *record) time(p *Parser) (int64, bool) {
	var ev Event
	r.stamp(p, &ev)
	return ev.Time, ev.Time != 0
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
	ns, _, ok := scan.Stamp(bytes.TrimLeft(rest, " \t[(:,|-"), p.ref(), p.loc())
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
	ns, _, ok := scan.Stamp(text, p.ref(), p.loc())
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
