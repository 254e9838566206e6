package parse

import (
	"bytes"

	"stoplog/internal/source"
)

// journal reads a line whose envelope the journal took off and vouches for.
// The time, the process and who wrote it are the journal's own word. Only what
// root wrote is verified: anybody can make an installed program say anything
// (LD_PRELOAD, ld.so(8)), so the name of the program proves nothing. A login
// or failure of a service that runs as root, which a person or another program
// wrote, is forged, and is no event.
func (p *Parser) journal(line *source.Line, ev *Event) bool {
	en := line.Entry
	if !p.entry(trimEnd(line.Text), en, ev) {
		return false
	}
	if ev.Outcome != Other && rootOnly(ev.Service) && forged(en, ev.Service) {
		return false
	}
	ev.Verified = ev.Verified || en.UID == 0
	return true
}

// forged reports whether an entry of a service of root's was written by
// somebody's own process, or by a system account in another program: a service
// may have processes of an account of its own (sshd's before the login).
func forged(en *source.Entry, service string) bool {
	const people = 1000 // login.defs(5), UID_MIN
	base := en.Exe[bytes.LastIndexByte(en.Exe, '/')+1:]
	return en.UID >= people || en.UID > 0 && !bytes.HasPrefix(base, []byte(service))
}

// rootOnly names the services whose logins are told of by processes of root.
func rootOnly(service string) bool {
	switch service {
	case "sshd", "dropbear", "login", "su", "sudo", "telnetd", "rlogind", "rshd", "vsftpd", "proftpd", "gdm", "sddm", "lightdm", "xrdp", "cron":
		return true
	}
	return false
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

func appendUint(b []byte, v uint64) []byte {
	if v >= 10 {
		b = appendUint(b, v/10)
	}
	return append(b, byte('0'+v%10))
}
