package parse

import (
	"bytes"

	"stoplog/internal/parse/scan"
)

// open5424 reads RFC 5424 behind "<38>1 ": TIMESTAMP HOSTNAME APP-NAME PROCID
// MSGID STRUCTURED-DATA [MSG], each "-" when nil. Where the application has no
// name, or the message is wrapped a second time under the same name, the
// message's own envelope is read.
func (p *Parser) open5424(b []byte, e *envelope) bool {
	var f [5][]byte
	for i := range f {
		tok, rest := scan.Word(b)
		if len(tok) == 0 || rest == nil {
			return false
		}
		f[i], b = tok, rest
	}
	if string(f[0]) != "-" {
		ns, rest, ok := scan.Stamp(f[0], p.cur.Ref, p.cur.Loc)
		if !ok || len(rest) > 0 {
			return false
		}
		e.time = ns
	}
	msg, ok := afterStructured(b)
	if !ok {
		return false
	}
	e.host, e.msg = nilValue(f[1]), bytes.TrimPrefix(msg, []byte("\xef\xbb\xbf"))
	if p.rewrapped(nilValue(f[2]), e) {
		return true
	}
	if string(f[2]) == "-" {
		return false
	}
	setTag(e, f[2], nil)
	if scan.Digits(f[3]) {
		e.pid = f[3]
	}
	return true
}

// rewrapped reads the envelope inside e's message and reports whether there is
// one of the program app, or of any when app is nil.
func (p *Parser) rewrapped(app []byte, e *envelope) bool {
	inner := envelope{nested: true}
	if e.nested || len(e.msg) < 16 || app != nil && !mayStamp(e.msg) || !p.open(e.msg, &inner) || inner.tag == nil {
		return false
	}
	if app != nil && !bytes.Equal(app, inner.tag) {
		return false
	}
	if inner.time == 0 {
		inner.time = e.time
	}
	if inner.host == nil {
		inner.host = e.host
	}
	*e = inner
	return true
}

func nilValue(b []byte) []byte {
	if string(b) == "-" {
		return nil
	}
	return b
}

// afterStructured returns the message behind "-" or "[id name="value"]…".
// Inside a value \ escapes " \ and ] (RFC 5424, section 6.3.3).
func afterStructured(b []byte) ([]byte, bool) {
	if rest, ok := scan.After(b, "-"); ok {
		return scan.TrimLeft(rest), len(rest) == 0 || rest[0] == ' '
	}
	quoted, inside := false, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"' && inside:
			quoted = !quoted
		case c == '[' && !inside:
			inside = true
		case c == ']' && inside && !quoted:
			inside = false
		case c == ' ' && !inside && i > 0:
			return scan.TrimLeft(b[i:]), true
		case !inside:
			return nil, false
		}
	}
	return nil, !inside && len(b) > 0
}
