package parse

import (
	"bytes"

	"stoplog/internal/parse/scan"
)

// behindHeader returns the object that ends a line behind a stamp, a host and
// perhaps a tag, which senders of JSON through syslog write (RFC 3164 without a
// tag, Fastly's); nil when anything else stands before it.
func behindHeader(line []byte) []byte {
	b := line
	if b[0] == '<' {
		b, _ = priority(b)
	}
	i := bytes.IndexByte(b[:min(len(b), 160)], '{')
	if i < 16 || b[i-1] != ' ' || !mayStamp(b) {
		return nil
	}
	_, head := scan.Word(b[:i-1])
	if b[3] == ' ' { // "Nov 20 09:23:10"
		head = b[min(i, 15):i]
	}
	words := 0
	for head = scan.TrimLeft(head); len(head) > 0; words++ {
		var w []byte
		w, head = scan.Word(head)
		head = scan.TrimLeft(head)
		w, _ = scan.Before(w, ":")
		if name, pid, ok := scan.Cut(w, "["); ok && words > 0 {
			if pid, ok = scan.Before(pid, "]"); !ok || !scan.Digits(pid) {
				return nil
			}
			w = name
		}
		if len(w) == 0 || !hostWord(w) {
			return nil
		}
	}
	if words > 2 {
		return nil
	}
	return b[i:]
}

// bareWeb reads a line of a server's own log, and sets its time. A syslog
// message of a program that nobody knows is looked at too, when it is JSON or
// when the user named a format.
func (p *Parser) bareWeb(line []byte, ev *Event) bool {
	if len(line) == 0 {
		return false
	}
	ok := false
	switch {
	case p.web.Formats():
		ok = p.formatted(line, ev)
	case line[0] != '{' && line[len(line)-1] == '}' && p.time != 0 && behindHeader(line) != nil:
		p.inner = p.tag != nil
		ok = p.web.JSON(p.message(), behindHeader(line), ev)
	default:
		ok = p.web.Any(p.message(), line, ev)
	}
	if !ok {
		*ev = Event{Fields: ev.Fields[:0]}
	}
	return ok
}

// formatted reads a line by the format that the user named, also behind a
// syslog header.
func (p *Parser) formatted(line []byte, ev *Event) bool {
	if p.web.Formatted(p.message(), line, ev) {
		return true
	}
	*ev = Event{Fields: ev.Fields[:0]}
	if !p.open(line, &p.envelope) || len(p.msg) == 0 {
		return false
	}
	p.inner = p.tag != nil
	return p.web.Formatted(p.message(), p.msg, ev)
}
