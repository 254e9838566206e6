package parse

import (
	"bytes"

	"stoplog/internal/parse/auth"
	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// maxRepeat bounds what "message repeated N times" counts as.
const maxRepeat = 1000

// dominoEnd ends a line of Domino's in which a user's name, chosen by the client,
// follows what looks like a tag.
const dominoEnd = " authentication failure using internet password"

// tagged reads the message of an envelope by its tag. When it is not
// understood, ev is as it was.
func (p *Parser) tagged(ev *Event) bool {
	if string(p.tag) == ownTag || p.host == nil && p.pid == nil && bytes.HasSuffix(p.msg, []byte(dominoEnd)) {
		return false
	}
	p.strip()
	msg, times := repeated(p.msg)
	if len(msg) == 0 || blank(msg[0]) && !indents(p.tag) {
		return false
	}
	if !p.scanMessage(msg, ev) {
		*ev = Event{Fields: ev.Fields[:0]}
		return false
	}
	if times > 0 {
		ev.Count = max(ev.Count, 1) * times
	}
	return true
}

func (p *Parser) scanMessage(msg []byte, ev *Event) bool {
	m := p.message()
	if p.module != nil || msg[0] == 'p' || msg[0] == '(' || msg[0] == 'P' {
		if auth.PAM(m, msg, ev) {
			return true
		}
		*ev = Event{Fields: ev.Fields[:0]}
	}
	s := p.tagScanner(p.tag)
	if s != nil && (s(m, msg, ev) || p.stamped(s, msg, ev)) {
		return true
	}
	*ev = Event{Fields: ev.Fields[:0]}
	if p.packed(msg, ev) {
		return true
	}
	if p.hinted != nil || p.bind.family != "" || p.bind.packs != nil || p.known(s) {
		return false
	}
	*ev = Event{Fields: ev.Fields[:0]}
	return generic(msg, ev)
}

// stamped reads a message that begins with a stamp of the program's own, which
// it writes to its standard output as it would to a file.
func (p *Parser) stamped(s event.Scanner, msg []byte, ev *Event) bool {
	if msg[0]-'0' > 9 && msg[0] != '[' {
		return false
	}
	*ev = Event{Fields: ev.Fields[:0]}
	_, rest, ok := scan.Stamp(msg, p.cur.Ref, p.cur.Loc)
	rest = scan.TrimLeft(rest)
	return ok && len(rest) > 0 && s(&p.cur, rest, ev)
}

// known reports whether somebody here knows the program under this tag; s is
// its event.Scanner. The kernel's log is many programs'.
func (p *Parser) known(s event.Scanner) bool {
	if string(p.tag) == "kernel" {
		return false
	}
	return s != nil || p.opt.Packs != nil && p.opt.Packs.Knows(p.tag)
}

// strip drops what the kernel and Solaris put before a message: "[  970.699396] "
// and "[ID 800047 auth.info] "; behind the kernel's, a virtual host's whole tag.
func (p *Parser) strip() {
	if len(p.msg) < 8 {
		return
	}
	switch {
	case p.msg[0] == 'k':
		if rest, ok := scan.After(p.msg, "kernel:["); ok {
			p.msg = afterUptime(p.msg, rest)
		}
	case p.msg[0] == '[' && string(p.tag) == "kernel":
		p.msg = afterUptime(p.msg, p.msg[1:])
		if p.msg[0] == '@' && !p.nested {
			p.virtual()
		}
	}
	if rest, ok := scan.After(p.msg, "[ID "); ok {
		if id, after, ok := scan.Cut(rest, "] "); ok && len(id) < 40 {
			p.msg = scan.TrimLeft(after)
		}
	}
}

// afterUptime returns what follows "  970.699396]" in rest, msg when that is
// not what it begins with.
func afterUptime(msg, rest []byte) []byte {
	up, _, ok := scan.Cut(rest[:min(len(rest), 24)], "]")
	if !ok {
		return msg
	}
	for _, c := range up {
		if c-'0' > 9 && c != ' ' && c != '.' {
			return msg
		}
	}
	after := rest[len(up)+1:]
	if len(after) > 0 && after[0] == ':' {
		after = after[1:]
	}
	if after = scan.TrimLeft(after); len(after) == 0 {
		return msg
	}
	return after
}

// virtual reads "@guest tag[12] message", which a vserver's kernel log holds.
func (p *Parser) virtual() {
	guest, rest := scan.Word(p.msg)
	inner := envelope{nested: true, time: p.time, host: guest}
	if tok, _ := scan.Word(rest); len(tok) > 0 {
		if after, ok := tagged(rest, tok, &inner); ok {
			inner.msg = scan.TrimLeft(after)
			p.envelope = inner
		}
	}
}

// repeated unwraps rsyslog's "message repeated 5 times: [ … ]". A message
// repeated without its text names nobody.
func repeated(msg []byte) (inner []byte, times int) {
	rest, ok := scan.After(msg, "message repeated ")
	if !ok {
		return msg, 0
	}
	n, rest, ok := scan.Uint(rest)
	if !ok || n == 0 {
		return msg, 0
	}
	if rest, ok = scan.After(rest, " times: ["); !ok {
		return msg, 0
	}
	if rest, ok = scan.Before(rest, "]"); !ok {
		return msg, 0
	}
	return scan.Trim(rest), int(min(n, maxRepeat))
}

// indents reports whether a program's messages may begin with blanks: sudo aligns
// its users' names, Samba puts two before each (lib/util/debug.c). Of others, what
// is indented goes on with the message before it.
func indents(tag []byte) bool { return string(tag) == "sudo" || string(tag) == "smbd" }
