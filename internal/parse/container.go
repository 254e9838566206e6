package parse

import (
	"bytes"
	"unicode/utf8"

	"stoplog/internal/parse/scan"
)

// container unwraps what a container runtime wrote of one line of a program's
// output: Docker's json-file {"log":"…\n","stream":"stdout","time":"…"} and
// CRI's "2026-11-20T09:23:10.1Z stdout F …" (kubernetes, design-proposals,
// kubelet-cri-logging). Only whole lines are unwrapped: CRI's "P" is a part.
func (p *Parser) container(b []byte) (inner []byte, ns int64, ok bool) {
	if len(b) < 20 {
		return nil, 0, false
	}
	if b[0] == '{' {
		return p.dockerJSON(b)
	}
	if b[0] != '2' && b[0] != '1' || b[4] != '-' || b[10] != 'T' {
		return nil, 0, false
	}
	stamp, rest := scan.Word(b)
	if len(rest) < 9 || rest[0] != 's' || rest[7] != 'F' {
		return nil, 0, false
	}
	inner, ok = scan.After(rest, "stdout F ")
	if !ok {
		inner, ok = scan.After(rest, "stderr F ")
	}
	ns, end, stamped := scan.Stamp(stamp, p.now, p.opt.Location)
	return inner, ns, ok && stamped && len(end) == 0
}

func (p *Parser) dockerJSON(b []byte) ([]byte, int64, bool) {
	rest, ok := scan.After(b, `{"log":"`)
	if !ok {
		return nil, 0, false
	}
	text, rest, ok := p.unquote(rest)
	if !ok {
		return nil, 0, false
	}
	// Docker ends each whole line so, and goes on with the stream; a record of an
	// application's own that begins like one does not.
	text, whole := scan.Before(text, "\n")
	if !whole || !hasPrefix(rest, `,"stream":"std`) {
		return nil, 0, false
	}
	text = bytes.TrimRight(text, "\r\n")
	_, stamp, ok := scan.Last(rest, `"time":"`)
	if !ok {
		return nil, 0, false
	}
	ns, end, ok := scan.Stamp(stamp, p.now, p.opt.Location)
	return text, ns, ok && string(end) == `"}`
}

// unquote decodes a JSON string behind its opening quote. Its text aliases b,
// or the parser's memory when it has escapes.
func (p *Parser) unquote(b []byte) (text, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i] != '"' && b[i] != '\\' {
		i++
	}
	if i == len(b) {
		return nil, nil, false
	}
	if b[i] == '"' {
		return b[:i:i], b[i+1:], true
	}
	start := len(p.memory)
	for len(b) > 0 && b[0] != '"' {
		if b[0] != '\\' {
			n := 1
			for n < len(b) && b[n] != '"' && b[n] != '\\' {
				n++
			}
			p.memory, b = append(p.memory, b[:n]...), b[n:]
			continue
		}
		if b, ok = p.unescape(b[1:]); !ok {
			return nil, nil, false
		}
	}
	if len(b) == 0 {
		return nil, nil, false
	}
	return p.memory[start:len(p.memory):len(p.memory)], b[1:], true
}

// unescape appends what an escape behind its backslash stands for. A lone
// surrogate becomes U+FFFD, as in encoding/json.
func (p *Parser) unescape(b []byte) ([]byte, bool) {
	if len(b) == 0 {
		return nil, false
	}
	c := b[0]
	switch c {
	case 'n':
		c = '\n'
	case 't':
		c = '\t'
	case 'r':
		c = '\r'
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'u':
		r, rest, ok := codePoint(b[1:])
		p.memory = utf8.AppendRune(p.memory, r)
		return rest, ok
	}
	p.memory = append(p.memory, c)
	return b[1:], true
}

func codePoint(b []byte) (rune, []byte, bool) {
	r, b, ok := hex4(b)
	if !ok || r < 0xd800 || r > 0xdfff {
		return r, b, ok
	}
	if rest, esc := scan.After(b, `\u`); esc && r < 0xdc00 {
		if low, after, ok := hex4(rest); ok && low >= 0xdc00 && low <= 0xdfff {
			return (r-0xd800)<<10 + (low - 0xdc00) + 0x10000, after, true
		}
	}
	return utf8.RuneError, b, true
}

func hex4(b []byte) (rune, []byte, bool) {
	if len(b) < 4 {
		return 0, b, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case (c|0x20)-'a' <= 5:
			c = (c | 0x20) - 'a' + 10
		default:
			return 0, b, false
		}
		r = r<<4 | rune(c)
	}
	return r, b[4:], true
}
