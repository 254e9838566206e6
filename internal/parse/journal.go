package parse

import (
	"net/netip"

	"stoplog/internal/source"
)

// journal reads a line whose envelope the journal took off and vouches for.
// The tag is the writer's choice: it decides only which scanners look. What
// they read counts when the entry's trusted fields prove that its writer may
// speak for that service (see speaksFor).
func (p *Parser) journal(line *source.Line, ev *Event) bool {
	en := line.Entry
	p.from = en
	return p.entry(trimEnd(line.Text), en, ev) && p.authorise(en, ev)
}

// authorise reports whether ev may come from the writer of en, and marks it as
// verified when no client can have written it either: what a service prints
// becomes an entry at each newline, and only services of logins are known to
// print none that a client sent.
func (p *Parser) authorise(en *source.Entry, ev *Event) bool {
	ev.Verified = false
	if byCaller(en, ev.Service) {
		ev.Addr, ev.Informs = netip.Addr{}, true
		return true
	}
	if !p.speaksFor(en, ev.Service) || p.printedBySyslogger(en, ev.Service) {
		if ev.Outcome != Other || ev.Kind == Probe {
			p.refuse(en, ev.Service)
		}
		*ev = Event{Fields: ev.Fields[:0]}
		return false
	}
	w := serviceWriters[ev.Service]
	ev.Verified = en.Transport != source.StdoutTransport || w != nil && w.uids == rootOnly
	return true
}

// printedBySyslogger reports whether a service printed the entry whose lines are
// believed from syslog only, and no source names the service.
func (p *Parser) printedBySyslogger(en *source.Entry, service string) bool {
	if en.Transport != source.StdoutTransport || p.bind.who == byName || p.opt.Packs == nil {
		return false
	}
	pk := p.opt.Packs.Pack(service)
	return pk != nil && pk.SyslogOnly()
}

// entry reads the message b of an entry.
func (p *Parser) entry(b []byte, en *source.Entry, ev *Event) bool {
	p.line, p.msg, p.time, p.tag = b, b, en.Time, en.Ident
	if en.Transport == source.KernelTransport {
		p.tag = []byte("kernel")
	}
	if len(p.tag) == 0 || len(b) == 0 {
		return false
	}
	if unit := unitName(en.Unit); unit != nil && p.from != nil && len(en.Container) == 0 && p.nobodys(p.tag) && string(p.tag) != ownTag {
		p.tag = unit // says more than that a program is in Python
	}
	setTag(&p.envelope, p.tag, nil)
	p.sealed = true
	if en.PID != 0 {
		p.pid = appendUint(p.digits[:0], uint64(en.PID))
	}
	ok := (!blank(b[0]) || indents(p.tag)) && p.enveloped(ev)
	if !ok && p.bind.who == anybody && string(p.tag) != ownTag && (b[0]|0x20)-'a' > 25 {
		// A server that logs to its standard output writes what it would to a
		// file: something that begins with a stamp, an address or a brace.
		ok = p.bare(b, ev)
	}
	if !ok {
		return false
	}
	ev.Time, ev.Verified = en.Time, false
	p.finish(ev)
	return true
}

func appendUint(b []byte, v uint64) []byte {
	if v >= 10 {
		b = appendUint(b, v/10)
	}
	return append(b, byte('0'+v%10))
}
