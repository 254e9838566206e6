package parse

import (
	"stoplog/internal/parse/pack"
)

// packed reads a tagged message by the packs: by those of the service that the
// user named, else by those of its program.
func (p *Parser) packed(msg []byte, ev *Event) bool {
	if p.opt.Packs == nil {
		return false
	}
	p.match.Ref, p.match.Loc = p.now, p.opt.Location
	if p.opt.Service != "" && p.opt.Packs.MatchService(p.opt.Service, msg, &p.match) || p.opt.Packs.MatchTagged(p.tag, msg, &p.match) {
		take(ev, &p.match)
		return true
	}
	return false
}

// bareByPack reads a whole line by the packs: of the service that the user
// named, or any. A word of a bare line that looks like a tag ("HORDE [error]")
// does not keep it from them, unless all that syslog writes before a message is
// there; patterns begin at the line's start, so that a message behind a tag
// passes for no other program's line.
func (p *Parser) bareByPack(b []byte, ev *Event) bool {
	if p.opt.Packs == nil {
		return false
	}
	p.match.Ref, p.match.Loc = p.now, p.opt.Location
	if p.opt.Service != "" && p.opt.Packs.MatchService(p.opt.Service, b, &p.match) {
		take(ev, &p.match)
		return true
	}
	if !p.sure && !p.ofPostgres(b) && p.opt.Packs.MatchBare(b, &p.match) {
		take(ev, &p.match)
		return true
	}
	return false
}

// Custom evaluates the users' own patterns on the message of the line that was
// read last, understood or not, and calls emit with one event a match, whose
// Service is the pattern's name. ev0 lends its time and what is known of the
// line; it may be one that Parse returned false for. emit's event is
// overwritten by the next.
func (p *Parser) Custom(ev0 *Event, emit func(*Event)) {
	if p.opt.Custom == nil || string(p.tag) == ownTag {
		return
	}
	msg := p.msg
	if p.tag == nil {
		msg = p.line
	}
	if len(msg) == 0 {
		return
	}
	p.match.Ref, p.match.Loc = p.now, p.opt.Location
	p.opt.Custom.Each(p.tag, msg, &p.match, func(m *pack.Match) {
		ev := Event{Time: ev0.Time, Verified: ev0.Verified || p.opt.Verified, Message: msg, Count: 1}
		if ev.Time == 0 {
			ev.Time = p.time
		}
		take(&ev, m)
		emit(&ev)
	})
}

// take fills ev by what a pack read.
func take(ev *Event, m *pack.Match) {
	ev.Service, ev.Outcome, ev.Kind = m.Service, Outcome(m.Outcome), Kind(m.Kind)
	ev.Addr, ev.User, ev.Count = m.Addr, m.User, 1
	if m.Time != 0 {
		ev.Time = m.Time
	}
	if len(m.Conn) > 0 {
		ev.Conn, ev.Class = connID(m.Service, m.Conn), m.Class
	}
	for _, f := range m.Fields {
		ev.Fields = append(ev.Fields, Field(f))
	}
}
