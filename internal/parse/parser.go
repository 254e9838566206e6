package parse

import (
	"time"

	"stoplog/internal/parse/auth"
	"stoplog/internal/parse/event"
	"stoplog/internal/parse/pack"
	"stoplog/internal/parse/record"
	"stoplog/internal/parse/scan"
	"stoplog/internal/parse/web"
	"stoplog/internal/source"
)

// Options say how lines are to be read. The zero value reads what syslog tagged.
type Options struct {
	// Service names what writes the origin: a family or pack ("sshd", "gitea"…),
	// AccessLog, Syslog, or an application of the user's own. Lines of other
	// services are not read. Empty: a line is read by its syslog tag only.
	Service string
	// Sniff tries every family and pack on every line, Service first: for tools
	// that show what a line could be. A client who can begin a line in such a
	// log speaks for any service.
	Sniff bool
	// Format is "", "auto", "combined", "common", "vhost", "json", "logfmt",
	// or an nginx log_format or Apache LogFormat string.
	Format string
	// Map tells, for the formats json and logfmt, where a field of the event
	// stands: a name to the dotted path of its keys ("ip": "client.address").
	// The names are ip, user, time, method, uri (or path), request, status,
	// agent, referrer, host, message, error, event, success, outcome and
	// forwarded (what Client.Header names); any other becomes one of the event's
	// Fields. What it names is read from nowhere else; the rest is guessed. The
	// address must be one that the logging program found out.
	Map map[string]string
	// Location is the zone of stamps that tell none; nil is UTC.
	Location *time.Location
	// Client says which peers are proxies and which header names the client.
	Client ClientOptions
	// Packs are the patterns of services without a scanner here; nil is none.
	Packs *pack.Set
	// Custom are the users' own patterns that may read this origin, for Custom.
	Custom Patterns
	// Journal says whom the source of journal entries names.
	Journal JournalOptions
}

// Parser turns lines into events. It keeps nothing from line to line but
// memory; what needs earlier lines is for Sessions. It is used by one
// goroutine; several may run side by side.
type Parser struct {
	opt Options
	cur event.Message // of the line being read, for scanners: see message
	envelope
	line      []byte // being read, without containers' wrapping
	outer     int64  // when the container's runtime wrote it, 0 without one
	journaled bool   // it is an entry of the journal
	inner     bool   // the line is read from behind its tag
	bind      binding
	hinted    event.Scanner // of Service, in a parser that sniffs
	digits    [20]byte      // of the process id that a journal entry names
	web       *web.Reader

	minute stampMemory
	memory []byte // unescaped text of the lines since Reset

	from      *source.Entry // of the line being read, nil when it is text
	foreign   uint64        // entries that were refused
	foreigner string

	exportEntry source.Entry // memory for an entry of "journalctl -o json"
	match       pack.Match
}

// New checks o and returns a parser for it. An error names the format at
// fault.
func New(o Options) (*Parser, error) {
	if o.Location == nil {
		o.Location = time.UTC
	}
	p := &Parser{opt: o, bind: newBinding(&o), cur: event.Message{Loc: o.Location, Hint: o.Service}}
	w, err := web.New(web.Options{
		Service: o.Service, Family: p.bind.family, Sniff: o.Sniff, Format: o.Format, Map: o.Map, Client: o.Client, Packs: p.bareByPack,
	})
	if err != nil {
		return nil, err
	}
	p.web = w
	p.bind.scan = p.scanner(p.bind.family)
	if o.Sniff {
		p.hinted = p.hintScanner(o.Service)
	}
	return p, nil
}

// message is what scanners know about the message that was opened.
func (p *Parser) message() *event.Message {
	p.cur.Tag, p.cur.PID, p.cur.Module = p.tag, p.pid, p.module
	return &p.cur
}

// Parse reads one line, which arrived at now (Unix ns), and reports whether it
// is understood. It clears ev first, but keeps the memory of ev.Fields. What
// ev points to lives as long as the line, and until Reset. Of a line that was
// cut at the reader's limit only an access log's is read, whose address comes
// first: the end, which tells where most others have it, is missing.
func (p *Parser) Parse(line *source.Line, now int64, ev *Event) bool {
	*ev = Event{Fields: ev.Fields[:0]}
	p.cur.Ref = now
	p.envelope, p.inner, p.outer, p.journaled, p.from = envelope{}, false, 0, line.Entry != nil, nil
	if line.Cut {
		p.line = nil
		return line.Entry == nil && p.cut(line.Text, ev)
	}
	if line.Entry != nil {
		return p.journal(line, ev)
	}
	return p.text(line.Text, ev)
}

// Reset forgets the memory that unescaped fields of earlier events live in.
func (p *Parser) Reset() {
	p.web.Reset()
	p.memory = p.memory[:0]
	p.match.Reset()
}

// text reads a line of a file or pipe.
func (p *Parser) text(b []byte, ev *Event) bool {
	b = trimEnd(b)
	p.line = b
	if len(b) < 8 {
		return false
	}
	if b[0] == '{' && scan.Has(b, `"__REALTIME_TIMESTAMP"`) {
		return p.exported(b, ev)
	}
	inner, ns, wrapped := record.Container(b, &p.memory, p.cur.Ref, p.cur.Loc)
	ok := false
	if wrapped {
		b = trimEnd(inner)
		p.line, p.outer = b, ns
	}
	switch {
	case len(b) < 8:
		return false
	case blank(b[0]):
		// What is indented goes on with the record before it. Only a pack may say
		// that its lines begin so.
		if ok = p.bareByPack(b, ev); ok {
			p.seal(ev, b)
		}
	case p.bind.who == anybody:
		ok = p.sniff(b, ev)
	case wrapped && p.bind.who == byEnvelope && !p.bind.tags:
		return false // a program's own output: its text is no envelope
	default:
		ok = p.bound(b, ev)
	}
	if !ok {
		return false
	}
	if ev.Time == 0 {
		ev.Time = ns
	}
	return true
}

// sniff reads a line of whatever wrote it. A line that begins with an address
// is an access log's: what follows may be anybody's.
func (p *Parser) sniff(b []byte, ev *Event) bool {
	if p.opt.Format != "" && p.opt.Format != "auto" || addressed(b) {
		return p.bare(b, ev)
	}
	if p.open(b, &p.envelope) {
		if p.tag != nil && p.tagged(ev) {
			p.finish(ev)
			return true
		}
		if string(p.tag) == ownTag || p.sure && p.opt.Service == "" {
			return false
		}
	}
	return p.bare(b, ev)
}

// cut reads the beginning of an access log's line, in a format that has the
// address before what clients choose.
func (p *Parser) cut(b []byte, ev *Event) bool {
	if p.bind.who != anybody && p.bind.who != byFormat && !p.bind.access {
		return false
	}
	if len(b) < 8 || !addressed(b) || p.web.AddressLast() || !p.bareWeb(b, ev) {
		return false
	}
	ev.Verified = true
	p.seal(ev, b)
	return true
}

// ownTag is what stoplog logs under; its own log is never its input.
const ownTag = "stoplog"

// addressed is a quick look whether b begins with an address and a space.
func addressed(b []byte) bool {
	if c := b[0]; c-'0' > 9 && c != ':' && (c|0x20)-'a' > 5 {
		return false
	}
	tok, _ := scan.Word(b[:min(len(b), 48)])
	_, ok := scan.Addr(tok)
	return ok
}

// bare reads a line of a server's own log. What only the server writes is
// verified; what stands behind a host and a tag may have gone through syslog,
// to which anybody writes.
func (p *Parser) bare(b []byte, ev *Event) bool {
	if p.hinted != nil && p.hintedLine(b, ev) {
		p.finish(ev)
		return true
	}
	if p.bareWeb(b, ev) || bareDaemon(p, b, ev) || bareAuth(p, b, ev) {
		ev.Verified = !p.sealed && !p.inner
	} else {
		*ev = Event{Fields: ev.Fields[:0]}
		if !p.bareByPack(b, ev) {
			return false
		}
		ev.Verified = p.tag == nil
	}
	p.seal(ev, b)
	return true
}

// hintedLine reads a line by the scanner of the service that the user named:
// from its start, behind its stamp, or behind a header whose tag is nobody's.
func (p *Parser) hintedLine(b []byte, ev *Event) bool {
	msg := p.msg
	if ns, rest, ok := p.stamp(b); ok {
		p.time, b = ns, scan.TrimLeft(rest)
	}
	for _, m := range [...][]byte{b, msg} {
		if len(m) == 0 {
			continue
		}
		if p.msg = m; p.hinted(p.message(), m, ev) {
			return true
		}
		*ev = Event{Fields: ev.Fields[:0]}
	}
	p.msg = msg
	return false
}

// finish fills what the envelope tells, and what a scanner left open.
func (p *Parser) finish(ev *Event) {
	if ev.Time == 0 {
		ev.Time = p.time
	}
	if ev.Conn != 0 && p.host != nil {
		ev.Conn = mixHost(ev.Conn, p.host)
	}
	p.seal(ev, p.msg)
}

func (p *Parser) seal(ev *Event, msg []byte) {
	if ev.Message == nil {
		ev.Message = msg
	}
	if ev.Count == 0 {
		ev.Count = 1
	}
}

func trimEnd(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1]-'\t' <= '\r'-'\t' || b[len(b)-1] == 0) {
		b = b[:len(b)-1]
	}
	return b
}

// bareAuth reads the log files of login services that no syslog wraps:
// auditd's.
func bareAuth(p *Parser, line []byte, ev *Event) bool {
	if line[0] != 't' && line[0] != 'n' {
		return false
	}
	return auth.Audit(p.message(), line, ev)
}

// mixHost makes conn of one host differ from the same of another, in files
// that several hosts log to.
func mixHost(conn uint64, host []byte) uint64 {
	for _, c := range host {
		conn = (conn ^ uint64(c)) * 1099511628211
	}
	return conn | 1
}
