package parse

import (
	"stoplog/internal/parse/db"
	"stoplog/internal/parse/pack"
	"stoplog/internal/parse/scan"
)

// packed reads a tagged message by the packs: by those of the service that the
// user named, else by those of its program.
func (p *Parser) packed(msg []byte, ev *Event) bool {
	if p.opt.Packs == nil {
		return false
	}
	p.match.Ref, p.match.Loc = p.cur.Ref, p.cur.Loc
	ok := p.bind.packs != nil && (p.bind.who != byName || p.ours(p.tag)) && p.opt.Packs.MatchIn(p.bind.packs, msg, &p.match)
	if !ok && p.bind.who != byName {
		ok = p.opt.Packs.MatchTagged(p.tag, msg, &p.match)
	}
	if !ok && p.bind.who == anybody && pack.Runtime(p.tag) {
		ok = p.opt.Packs.MatchBare(msg, &p.match)
	}
	if ok {
		take(ev, &p.match)
	}
	return ok
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
	if p.bind.who != anybody {
		return p.byPacks(b, ev)
	}
	p.match.Ref, p.match.Loc = p.cur.Ref, p.cur.Loc
	if p.bind.packs != nil && p.opt.Packs.MatchIn(p.bind.packs, b, &p.match) {
		take(ev, &p.match)
		return true
	}
	if !p.sure && !p.ofPostgres(b) && p.opt.Packs.MatchBare(b, &p.match) {
		take(ev, &p.match)
		return true
	}
	return false
}

// Patterns are users' own patterns, by what they may read of one origin; each
// may be nil.
type Patterns struct {
	// Bound read every line: their rules name the source or its service.
	Bound *pack.Set
	// Free read what no other service wrote: not the lines that syslog or the
	// journal tagged with a program that has a family or pack, unless the
	// pattern names that program.
	Free *pack.Set
	// Tagged read the lines that syslog or the journal tagged with a service: by
	// its family, or its tag when it has none.
	Tagged map[string]*pack.Set
}

// None reports whether there is nothing to read lines with.
func (c *Patterns) None() bool { return c.Bound == nil && c.Free == nil && c.Tagged == nil }

// Family names the family of a service or tag, itself when it has none.
func Family(service string) string {
	if f := familyOf([]byte(service)); f != "" {
		return f
	}
	return service
}

// Custom evaluates the users' own patterns on the message of the line that was
// read last, understood or not, and calls emit with one event a match, whose
// Service is the pattern's name and whose time is the line's own. ev0 is what
// Parse made of the line, nil when it returned false. emit's event is
// overwritten by the next; its bytes live until Reset.
func (p *Parser) Custom(ev0 *Event, emit func(*Event)) {
	c := &p.opt.Custom
	if c.None() || string(p.tag) == ownTag || len(p.line) == 0 || blank(p.line[0]) {
		return
	}
	msg := p.msg
	if p.tag == nil {
		msg = p.line
	}
	if len(msg) == 0 || blank(msg[0]) {
		return
	}
	tag, ok := p.provenTag()
	if !ok {
		return
	}
	p.match.Ref, p.match.Loc = p.cur.Ref, p.cur.Loc
	found := func(m *pack.Match) {
		ev := Event{Message: msg}
		take(&ev, m)
		if !m.Named {
			ev.Time = p.customTime(ev0, ev.Time)
		}
		ev.Verified = ev0 != nil && ev0.Verified
		emit(&ev)
	}
	if c.Bound != nil {
		c.Bound.Each(tag, msg, &p.match, found)
	}
	if c.Free != nil {
		if p.sealed && !p.nobodys(tag) && string(tag) != "kernel" {
			c.Free.EachOf(tag, msg, &p.match, found)
		} else {
			c.Free.Each(tag, msg, &p.match, found)
		}
	}
	if c.Tagged != nil && p.sealed {
		if set := c.Tagged[Family(string(tag))]; set != nil {
			set.Each(tag, msg, &p.match, found)
		}
	}
}

// customTime is the time of the line that was read last: what the envelope or
// the line's format says, else the stamp that the message begins with.
func (p *Parser) customTime(ev0 *Event, stamp int64) int64 {
	switch {
	case ev0 != nil && ev0.Time != 0:
		return ev0.Time
	case p.time != 0:
		return p.time
	case p.outer != 0:
		return p.outer
	case stamp != 0:
		return stamp
	}
	ns, _ := p.lineTime(p.line)
	return ns
}

// take fills ev by what a pack read.
func take(ev *Event, m *pack.Match) {
	ev.Service, ev.Outcome, ev.Kind = m.Service, Outcome(m.Outcome), Kind(m.Kind)
	ev.Addr, ev.User, ev.Count = m.Addr, m.User, 1
	ev.Informs = m.Informs
	if m.Time != 0 {
		ev.Time = m.Time
	}
	if len(m.Conn) > 0 {
		ev.Conn, ev.Class = ConnID(m.Service, m.Conn), m.Class
	}
	if m.Informs {
		ev.Fields = append(ev.Fields, Field{Name: "what", Value: []byte(m.Name)})
	}
	for _, f := range m.Fields {
		ev.Fields = append(ev.Fields, Field(f))
	}
}

// ofPostgres reports whether the line that was opened last begins as
// PostgreSQL's lines do.
func (p *Parser) ofPostgres(line []byte) bool {
	n := len(line) - len(p.after)
	return len(p.after) > 0 && n > 0 && !p.nested && db.PostgresZone(line[:n], scan.TrimLeft(p.after))
}
