package parse

import (
	"stoplog/internal/parse/auth"
	"stoplog/internal/parse/db"
	"stoplog/internal/parse/pack"
	"stoplog/internal/parse/web"
	"stoplog/internal/source"
)

// Shape returns the shape of the line that Parse read last; known is what Parse
// returned, and ev what it filled. A line that goes on with a record and names its client
// at the end becomes an event: then ev is filled, and told is true.
func (p *Parser) Shape(known bool, ev *Event) (s Shape, told bool) {
	if !known {
		*ev = Event{Fields: ev.Fields[:0]}
	}
	b, family, packs := p.raw()
	switch family {
	case "mysql":
		return db.MySQLShape(p.message(), b, ev)
	case "postgres":
		return db.PostgresShape(p.message(), b), false
	case "nginx":
		return web.NginxShape(b), false
	case "proftpd":
		if p.journaled && p.from.Transport != source.StdoutTransport {
			return s, false // a message stays whole
		}
		return auth.ProFTPDShape(ev), false
	}
	if packs != nil && len(b) > 0 {
		return p.packShape(b, packs, ev)
	}
	return s, false
}

// raw is the line that was read last, and the family or packs whose records it is
// to be compared with: in a file of one service all that is there, whatever it looks
// like. A syslog daemon escapes line breaks; the journal makes an entry of each
// line that a service prints. What others write there under the service's tag is
// no record of it, and raises no doubt about the entries that follow.
func (p *Parser) raw() (b []byte, family string, packs pack.Pick) {
	if p.bind.who == byName && !p.journaled {
		return p.line, p.bind.family, p.bind.packs
	}
	if p.from == nil || !p.journaled {
		return nil, "", nil
	}
	if f := familyOf(p.tag); f != "" && p.speaksFor(p.from, f) {
		return p.msg, f, nil
	}
	if p.opt.Packs == nil || p.from.Transport != source.StdoutTransport {
		return nil, "", nil
	}
	if pk := p.opt.Packs.Pack(string(p.tag)); pk != nil && p.speaksFor(p.from, pk.Name()) {
		packs = p.opt.Packs.Named(pk.Name())
	}
	return p.msg, "", packs
}

// packReach is how far a record that a pack reads may go on: no source says how
// long a name is that a service takes, and 1 MiB is what web servers take of a
// form (client_max_body_size of nginx).
const packReach = 1 << 20

// packShape: a pack's service may write what a client sent with its line breaks,
// unless the pack says otherwise.
func (p *Parser) packShape(b []byte, packs pack.Pick, ev *Event) (s Shape, told bool) {
	p.match.Ref, p.match.Loc = p.cur.Ref, p.cur.Loc
	is := p.opt.Packs.Shape(packs, b, &p.match)
	if !is.Begins && p.tag != nil && len(p.msg) > 0 {
		if inner := p.opt.Packs.Shape(packs, p.msg, &p.match); inner.Begins {
			is = inner
		}
	}
	if is.Begins {
		s = Shape{Reach: packReach, Time: is.Time, Open: is.Open, First: is.First, Failing: is.Failing}
	}
	s.Ends, s.Client, s.Weak, s.Failing = is.Ends, is.Last, is.Ends, is.Failing
	if !is.Ends || is.Begins || ev.Service != "" || is.Time != 0 || is.Service == "" || !is.Last.IsValid() {
		return s, false
	}
	ev.Set(is.Service, Failure, Plain, is.Last)
	ev.Count, ev.Message = 1, b
	return s, true
}
