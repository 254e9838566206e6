package parse

import (
	"bytes"

	"stoplog/internal/source"
)

// journal reads a line whose envelope the journal took off and vouches for.
// The time, the process and who wrote it are the journal's own word.
func (p *Parser) journal(line *source.Line, ev *Event) bool {
	en := line.Entry
	if !p.entry(trimEnd(line.Text), en, ev) {
		return false
	}
	ev.Verified = ev.Verified || en.UID == 0 || trustedProgram(en.Exe, p.tag)
	return true
}

// entry reads the message b of an entry.
func (p *Parser) entry(b []byte, en *source.Entry, ev *Event) bool {
	p.line, p.msg, p.time, p.tag = b, b, en.Time, en.Ident
	if en.Kernel {
		p.tag = []byte("kernel")
	}
	if len(p.tag) == 0 || len(b) == 0 {
		return false
	}
	setTag(&p.envelope, p.tag, nil)
	if en.PID != 0 {
		p.pid = appendUint(p.digits[:0], uint64(en.PID))
	}
	ok := p.tagged(ev)
	if !ok && string(p.tag) != ownTag && (b[0]|0x20)-'a' > 25 {
		// A server that logs to its standard output writes what it would to a
		// file: something that begins with a stamp, an address or a brace.
		ok = p.bare(b, ev)
		ev.Verified = p.opt.Verified
	}
	if !ok {
		return false
	}
	ev.Time = en.Time
	p.finish(ev)
	return true
}

// trustedProgram reports whether exe is an installed program that bears tag's
// name: nobody without rights can make it write what it does not mean. Programs
// that write what they are told are none.
func trustedProgram(exe, tag []byte) bool {
	for _, p := range [...]string{"logger", "python", "perl", "php", "ruby", "node", "java", "lua", "bash", "dash", "busybox", "cat", "echo", "tee", "gawk", "mawk", "socat", "ncat"} {
		if i := bytes.LastIndexByte(exe, '/'); bytes.HasPrefix(exe[i+1:], []byte(p)) {
			return false
		}
	}
	if i := bytes.IndexByte(tag, '/'); i > 0 {
		tag = tag[:i]
	}
	if len(tag) < 3 {
		return false
	}
	for _, dir := range [...]string{"/usr/sbin/", "/usr/bin/", "/usr/lib/", "/usr/libexec/", "/usr/local/sbin/", "/sbin/"} {
		rest, ok := bytes.CutPrefix(exe, []byte(dir))
		for ok && len(rest) > 0 {
			if bytes.HasPrefix(rest, tag) {
				return true
			}
			_, rest, ok = bytes.Cut(rest, []byte("/"))
		}
	}
	return false
}

func appendUint(b []byte, v uint64) []byte {
	if v >= 10 {
		b = appendUint(b, v/10)
	}
	return append(b, byte('0'+v%10))
}
