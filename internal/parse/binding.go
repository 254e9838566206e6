package parse

import (
	"slices"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/pack"
	"stoplog/internal/parse/scan"
	"stoplog/internal/parse/web"
)

// Names for Options.Service beside those of families and packs.
const (
	// Syslog is a file that many services write through syslog: the tag of each
	// line names its service.
	Syslog = "syslog"
	// AccessLog is the access log of any web server or proxy.
	AccessLog = web.AccessLog
)

// binding says which services may speak in an origin. It is computed once, from
// Options: nothing that stands in a line can add a service to it.
type binding struct {
	who    who
	family string        // the family that Options.Service names, "" for none
	scan   event.Scanner // of that family
	packs  pack.Pick     // the packs that Options.Service names
	access bool          // access logs and structured records are the service's
	tags   bool          // who is byEnvelope: a tag without a stamp counts too
}

type who uint8

const (
	// byEnvelope: nobody named the service. A line is read by its syslog tag;
	// a line without one says nothing about who wrote it.
	byEnvelope who = iota
	// byName: one service writes the origin. Lines of others are not read.
	byName
	// byFormat: every line has the format that the user named.
	byFormat
	// anybody: every family and pack is tried. For tools that show what a line
	// could be; never for what blocks.
	anybody
)

func newBinding(o *Options) binding {
	var b binding
	b.bindService(o)
	switch {
	case o.Sniff:
		b.who = anybody
	case o.Format != "" && o.Format != "auto":
		b.who = byFormat
	case o.Service == "":
		b.who = byEnvelope
	case o.Service == Syslog || scan.OneOf([]byte(o.Service), "auth", "pam", "pam-generic"):
		b.who, b.tags = byEnvelope, true
	default:
		b.who = byName
	}
	return b
}

// bindService finds the family and the packs that have the whole name of
// Options.Service. Any other name is an application of the user's own, of whose
// lines nothing is known: "login-portal" is not login, and reads nothing of it.
func (b *binding) bindService(o *Options) {
	if o.Service == "" {
		return
	}
	b.family = familyOf([]byte(o.Service))
	if o.Packs != nil {
		if pk := o.Packs.Pack(o.Service); b.family == "" || pk != nil && (pk.Name() == o.Service || slices.Contains(speakAs[b.family], pk.Name())) {
			b.packs = o.Packs.Named(o.Service)
		}
	}
	b.access = web.Requests(b.family) || b.family == "" && o.Service == AccessLog
}

// owns reports whether the program under tag is the service itself.
func (p *Parser) owns(tag []byte) bool {
	b := &p.bind
	f := familyOf(tag)
	if f != "" && (f == b.family || p.opt.Service == AccessLog && web.Family(tag) != "") {
		return true
	}
	return string(tag) == p.opt.Service || b.packs != nil && p.opt.Packs.NamedBy(tag, b.packs)
}

// nobodys reports whether the tag says nothing about which program it is: no
// family and no pack has it, or it is that of a runtime ("python3").
func (p *Parser) nobodys(tag []byte) bool {
	return pack.Runtime(tag) || familyOf(tag) == "" && (p.opt.Packs == nil || !p.opt.Packs.Knows(tag))
}

// bound reads a line by what the binding allows.
func (p *Parser) bound(b []byte, ev *Event) bool {
	switch {
	case p.bind.who == byFormat:
		return p.byFormat(b, ev)
	case p.bind.access && p.ownLine(b, ev):
		return true
	}
	if !addressed(b) && p.open(b, &p.envelope) && p.tag != nil && p.enveloped(ev) {
		return true
	}
	return p.bind.who == byName && !p.bind.access && p.ownLine(b, ev)
}

// byFormat reads a line by the format that the user named.
func (p *Parser) byFormat(b []byte, ev *Event) bool {
	if !p.formatted(b, ev) {
		*ev = Event{Fields: ev.Fields[:0]}
		return false
	}
	ev.Verified = !p.sealed && !p.inner
	p.seal(ev, b)
	return true
}

// enveloped reads the message of the envelope that was opened: by its tag, or,
// in an origin of one service, by that service if the tag names no other.
func (p *Parser) enveloped(ev *Event) bool {
	b := &p.bind
	switch {
	case b.who == byEnvelope && p.time == 0 && !b.tags, string(p.tag) == ownTag:
		return false
	case b.who == byFormat:
		return p.byFormat(p.msg, ev)
	case p.opt.Service != AccessLog && p.tagged(ev):
		if p.names(ev.Service) || ev.Service == "generic" && p.ours(p.tag) {
			p.finish(ev)
			return true
		}
		*ev = Event{Fields: ev.Fields[:0]}
	}
	return b.who == byName && p.ours(p.tag) && p.ownMessage(ev)
}

// speaks reports whether events of that service may come out of the origin's own
// lines: those of an application of the user's own, and of an access log, may be
// any web server's.
func (p *Parser) speaks(service string) bool {
	return p.names(service) || p.bind.family == "" && p.bind.access
}

// names reports whether the binding names that service.
func (p *Parser) names(service string) bool {
	b := &p.bind
	if b.who != byName || service == b.family || service == p.opt.Service || slices.Contains(speakAs[b.family], service) {
		return true
	}
	return b.packs != nil && p.opt.Packs.Holds(b.packs, service)
}

// speakAs are the services of families that have another name or several.
var speakAs = map[string][]string{
	"audit":       {"sshd"},
	"imap":        {"courier", "cyrus", "uw-imap"},
	"kernel":      {"netfilter", "wireguard"},
	"mod_evasive": {"apache"},
	"postfix":     {"postgrey"},
}

// ours reports whether a line with that tag may be the service's.
func (p *Parser) ours(tag []byte) bool { return p.owns(tag) || p.nobodys(tag) }

// ownMessage reads a message behind a syslog header as the service's own.
func (p *Parser) ownMessage(ev *Event) bool {
	e := p.envelope
	ok := p.ownLine(p.msg, ev)
	p.envelope, ev.Verified = e, false
	return ok
}

// ownLine reads a line, or a message that no other program wrote, as the
// service's own.
func (p *Parser) ownLine(b []byte, ev *Event) bool {
	if len(b) < 8 || blank(b[0]) {
		return false
	}
	switch {
	case p.bind.scan == nil:
		if p.bind.access && p.web.Access(p.message(), b, ev) && p.speaks(ev.Service) {
			return p.own(ev)
		}
	default:
		e := p.envelope
		if (p.byFamily(b, ev) || p.bind.access && p.byAccess(b, ev)) && p.speaks(ev.Service) {
			return p.own(ev)
		}
		p.envelope = e
	}
	*ev = Event{Fields: ev.Fields[:0]}
	if !p.byPacks(b, ev) {
		return false
	}
	ev.Verified = true
	p.seal(ev, b)
	if ev.Time == 0 {
		ev.Time = p.time
	}
	return true
}

// own completes an event of the service's own line.
func (p *Parser) own(ev *Event) bool {
	if p.msg == nil {
		p.msg = p.line
	}
	p.finish(ev)
	ev.Verified = true
	return true
}

// byFamily reads a line of the family's own log, at first behind its stamp.
func (p *Parser) byFamily(b []byte, ev *Event) bool {
	if p.bind.scan == nil {
		return false
	}
	at, host, pid := p.time, p.host, p.pid
	for _, read := range [...]func(*Parser, []byte, *Event) bool{ownStamped, ownWhole, ownBare} {
		p.envelope = envelope{time: at, host: host, pid: pid, msg: b}
		*ev = Event{Fields: ev.Fields[:0]}
		if read(p, b, ev) {
			return true
		}
	}
	*ev = Event{Fields: ev.Fields[:0]}
	return false
}

func ownStamped(p *Parser, b []byte, ev *Event) bool {
	ns, rest, ok := p.stamp(b)
	if rest = scan.TrimLeft(rest); !ok || len(rest) == 0 {
		return false
	}
	p.time, p.msg = ns, rest
	return p.bind.scan(p.message(), rest, ev)
}

func ownWhole(p *Parser, b []byte, ev *Event) bool { return p.bind.scan(p.message(), b, ev) }

// ownBare reads what a daemon's own file has before the message, which syslog
// leaves out.
func ownBare(p *Parser, b []byte, ev *Event) bool {
	if web.ErrorLogs(p.bind.family) {
		return p.web.Error(p.message(), b, ev) && ev.Service == p.bind.family
	}
	return bareDaemon(p, b, ev) && ev.Service == p.bind.family
}

// byAccess reads a request or a structured record.
func (p *Parser) byAccess(b []byte, ev *Event) bool {
	*ev = Event{Fields: ev.Fields[:0]}
	return p.web.Access(p.message(), b, ev)
}

// byPacks reads a line by the packs of the service.
func (p *Parser) byPacks(b []byte, ev *Event) bool {
	if p.bind.packs == nil {
		return false
	}
	p.match.Ref, p.match.Loc = p.cur.Ref, p.cur.Loc
	if !p.opt.Packs.MatchIn(p.bind.packs, b, &p.match) {
		return false
	}
	take(ev, &p.match)
	return true
}

func blank(c byte) bool { return c == ' ' || c == '\t' }
