package parse

import (
	"bytes"

	"stoplog/internal/parse/scan"
)

// envelope is what syslog or the journal wrapped a message in. Its slices
// alias the line.
type envelope struct {
	time   int64  // 0: no stamp
	after  []byte // what follows the stamp that begins the line; nil when nested
	host   []byte
	tag    []byte // without process id, path and "(pam_unix)"; nil when there is none
	pid    []byte
	msg    []byte
	module []byte // "pam_unix(sshd:auth)" or "(pam_unix)" out of the tag
	nested bool   // inside another envelope
	sure   bool   // nothing but syslog writes such a head
	sealed bool   // host and tag stand there as syslog writes them
}

// open reads the envelope of a line in a syslog file and reports whether there
// is one: RFC 3164 and what daemons and relays make of it, RFC 5424, ISO
// stamps, socklog's facility words, and the stampless text of journalctl. Only
// what may stand before the message is read; a host is one word of a host
// name's letters, so that no text of a bare log passes for a tag.
func (p *Parser) open(b []byte, e *envelope) bool {
	if len(b) > 0 && b[0] == '<' {
		rest, ok := priority(b)
		if !ok {
			return false
		}
		if len(rest) > 2 && rest[0] == '1' && rest[1] == ' ' {
			return p.open5424(rest[2:], e)
		}
		b = rest
	}
	if ns, rest, ok := p.stamp(b); ok {
		e.time, e.after = ns, rest
		if len(rest) > 1 && rest[0] == ':' {
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0] != ' ' {
			return false
		}
		b = scan.TrimLeft(rest)
	}
	return p.header(b, e)
}

// priority drops "<38>" at b's start.
func priority(b []byte) ([]byte, bool) {
	n := 1
	for n < len(b) && n < 5 && b[n]-'0' <= 9 {
		n++
	}
	if n == 1 || n >= len(b) || b[n] != '>' {
		return b, false
	}
	return scan.TrimLeft(b[n+1:]), true
}

// header reads "host tag[pid]: " and its variants at b's start: a host, a
// "<10.5>" and an "auth.info" may stand before the tag. Behind socklog's
// "auth.info: " there may be no tag.
func (p *Parser) header(b []byte, e *envelope) bool {
	for range 4 {
		tok, rest := scan.Word(b)
		if len(tok) == 0 {
			return false
		}
		rest = scan.TrimLeft(rest)
		level := facility(tok)
		if !level {
			if after, ok := tagged(b, tok, e); ok {
				e.msg = afterBlank(after)
				colon := tok[len(tok)-1] == ':'
				e.sure = e.time != 0 && e.host != nil && e.pid != nil && colon
				e.sealed = e.host != nil && (e.pid != nil || colon)
				return true
			}
		}
		switch {
		case level:
			if tok[len(tok)-1] == ':' {
				return p.afterLevel(rest, e)
			}
		case tok[0] == '<' && tok[len(tok)-1] == '>':
		case e.host == nil && hostWord(tok):
			e.host = tok
			if p.relayed(rest, e) {
				return true
			}
		case severity(tok):
		case tok[0] == '[' && e.time != 0:
			return p.metalog(tok, rest, e)
		default:
			return false
		}
		b = rest
	}
	return false
}

// afterBlank drops the blank that stands between a tag and its message, and one
// more space that some loggers add. A message that is indented further goes on
// with the one before it.
func afterBlank(b []byte) []byte {
	if len(b) > 0 && blank(b[0]) {
		b = b[1:]
	}
	if len(b) > 1 && b[0] == ' ' && !blank(b[1]) {
		b = b[1:]
	}
	return b
}

// metalog reads the "[sshd] " that metalog (metalog.c) puts behind its stamp,
// of the programs that most matter: many logs have words in such brackets.
func (p *Parser) metalog(tok, msg []byte, e *envelope) bool {
	inner := envelope{host: tok} // boxedTag wants one
	if _, ok := boxedTag(tok, tok, &inner); !ok || inner.pid != nil || e.host != nil || !scan.OneOf(inner.tag, "sshd", "sshd-session", "dropbear") {
		return false
	}
	e.tag, e.msg = inner.tag, msg
	return len(msg) > 0
}

// severity reports whether b is what stands between the stamp and the tag in
// the files of ESXi 8 ("In(38)"; ESXi Installation and Setup, log file formats)
// and of AIX's syslogd ("auth|security:info"). ESXi's "In(38)+" marks a line
// that a program's message went on with.
func severity(b []byte) bool {
	if len(b) > 4 && b[2] == '(' {
		switch string(b[:2]) {
		case "Em", "Al", "Cr", "Er", "Wa", "No", "In", "Db":
			n, ok := scan.Before(b[3:], ")")
			return ok && scan.Digits(n)
		}
		return false
	}
	switch string(b) {
	case "auth|security:debug", "auth|security:info", "auth|security:notice", "auth|security:warn", "auth|security:err",
		"auth|security:error", "auth|security:crit":
		return true
	}
	return false
}

// afterLevel reads what follows "auth.info: ".
func (p *Parser) afterLevel(b []byte, e *envelope) bool {
	if len(b) > 16 && mayStamp(b) {
		if _, rest, ok := p.stamp(b); ok {
			b = scan.TrimLeft(rest)
		}
	}
	tok, _ := scan.Word(b)
	if after, ok := tagged(b, tok, e); ok && e.pid != nil {
		b = afterBlank(after)
	} else {
		e.tag = nil
	}
	e.msg = b
	return len(b) > 0
}

// relayed reads the whole envelope that a relay put behind its own stamp and
// the host's name.
func (p *Parser) relayed(b []byte, e *envelope) bool {
	if e.nested || len(b) < 16 || e.time == 0 || !mayStamp(b) {
		return false
	}
	inner := envelope{nested: true}
	if !p.open(b, &inner) || inner.time == 0 || inner.tag == nil {
		return false
	}
	*e = inner
	return true
}

// mayStamp is a cheap first look for the stamps that syslog writes.
func mayStamp(b []byte) bool {
	return b[3] == ' ' && b[9] == ':' && b[12] == ':' || b[4] == '-' && b[7] == '-' && b[10] == 'T'
}

// hostWord reports whether b can be a host's name or address.
func hostWord(b []byte) bool {
	if len(b) > 255 {
		return false
	}
	for _, c := range b {
		if !scan.TagByte(c) && c != ':' && c != '%' {
			return false
		}
	}
	return true
}

// facility reports whether b is like "auth.info" or "auth.info:".
func facility(b []byte) bool {
	if len(b) < 7 || len(b) > 20 || bytes.IndexByte(b[3:], '.') < 0 {
		return false
	}
	name, level, _ := scan.Cut(b, ".")
	level, _ = scan.Before(level, ":")
	switch string(name) {
	case "auth", "authpriv", "daemon", "user", "mail", "kern", "syslog", "cron", "ftp", "security", "console",
		"local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7":
	default:
		return false
	}
	switch string(level) {
	case "debug", "info", "notice", "warn", "warning", "err", "error", "crit", "alert", "emerg":
		return true
	}
	return false
}
