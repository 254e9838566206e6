package parse

import (
	"bytes"
	"net/netip"
	"unicode/utf8"

	"stoplog/internal/parse/pack"
	"stoplog/internal/parse/scan"
	"stoplog/internal/source"
)

// Shape is how a line of a text log stands to the records of its program, for
// programs that write what a client sent with the line breaks in it. The client
// can then write whole lines, and end the record's first line itself. The zero
// Shape is a record of one line, or a line of a program that escapes line breaks.
type Shape struct {
	// Reach is how far, from the line's start, a record that begins here can go
	// on; 0 when it cannot. It is in bytes, or with Chars in characters.
	Reach int
	Chars bool
	// Time is the stamp of a record that can go on, Unix nanoseconds, 0 without.
	Time int64
	// Broken: the record does go on, for the line lacks what ends it.
	Broken bool
	// Ends: a record that began on an earlier line may end here, and would be of
	// Client; of somebody unknown when Client is invalid. The record's text up to
	// At, from the line's start, was within its reach then.
	Ends   bool
	At     int
	Client netip.Addr
	// Weak: other lines may end like that, too; the end tells a client only behind
	// a line that is Open.
	Weak bool
	// Open: the line lacks the end of its record, which names the client.
	Open bool
	// Failing: whatever pattern the line begins or ends like, it is a failure's.
	Failing bool
	// First is the client of the record that begins here, when the record names it
	// before all text of the client's: the lines behind may be its text.
	First netip.Addr
}

// Shape tells the shape of the line that Parse read last; known is what Parse
// returned, and ev what it filled. A line that goes on with a record and names its client
// at the end becomes an event: then ev is filled, and told is true.
func (p *Parser) Shape(known bool, ev *Event) (s Shape, told bool) {
	if !known {
		*ev = Event{Fields: ev.Fields[:0]}
	}
	b, family, packs := p.raw()
	switch family {
	case "mysql":
		return p.mysqlShape(b, ev)
	case "postgres":
		return p.postgresShape(b), false
	case "nginx":
		return p.nginxShape(b), false
	case "proftpd":
		return p.proftpdShape(ev), false
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
	p.match.Ref, p.match.Loc = p.now, p.opt.Location
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
	tell(ev, is.Service, Failure, Plain, is.Last)
	ev.Count, ev.Message = 1, b
	return s, true
}

const mysqlDenial = "Access denied for user '"

// mysqlUser is the longest user in a refusal of MariaDB, in characters
// (USERNAME_CHAR_LENGTH in include/mysql_com.h; parse_client_handshake_packet of
// sql/sql_acl.cc cuts it). MySQL's is 32.
const mysqlUser = 128

// mysqlTail is the host of the client in the fixed end of a refusal, nil when b
// has no such end.
func mysqlTail(b []byte) []byte {
	head, ok := scan.Before(b, "' (using password: YES)")
	if !ok {
		if head, ok = scan.Before(b, "' (using password: NO)"); !ok {
			return nil
		}
	}
	i := bytes.LastIndex(head, []byte("'@'"))
	if i < 0 {
		return nil
	}
	return head[i+len("'@'"):]
}

// mysqlShape: every refusal can be one of many lines, and every end of one
// decides about the lines before it.
func (p *Parser) mysqlShape(b []byte, ev *Event) (s Shape, told bool) {
	host := mysqlTail(b)
	if i := scan.Index(b, mysqlDenial); i >= 0 {
		s.Reach, s.Chars = i+len(mysqlDenial)+mysqlUser, true
		s.Time, _, _ = scan.Stamp(b, p.ref(), p.loc())
	}
	if host == nil {
		return s, false
	}
	s.Ends, s.Chars = true, true
	s.At = utf8.RuneCount(b[:bytes.LastIndex(b, []byte("'@'"))])
	s.Client, _ = scan.Addr(host)
	if ev.Service != "" || s.Reach > 0 || !s.Client.IsValid() {
		return s, false
	}
	tell(ev, "mysql", Failure, Plain, s.Client)
	ev.Count, ev.Message = 1, b
	return s, true
}

// postgresReach is the longest that PostgreSQL writes from a record's start to
// the level: log_line_prefix with the user and the database, of 63 bytes each
// (NAMEDATALEN; src/backend/tcop/backend_startup.c cuts them), which log_status_format
// of src/backend/utils/error/elog.c writes as they are, each perhaps twice, and
// 256 bytes for all else. Line breaks in the message are followed by a tab.
const postgresReach = 4*63 + 256

// postgresShort is shorter than any message of PostgreSQL's own that begins
// with a level. In what a name of 63 bytes leaves beside the stamp and the
// process of a second line, no longer one fits.
const postgresShort = 24

var postgresLevels = [...]string{"LOG:  ", "FATAL:  ", "ERROR:  ", "WARNING:  ", "NOTICE:  ", "INFO:  ", "DETAIL:  ", "HINT:  ",
	"QUERY:  ", "CONTEXT:  ", "STATEMENT:  ", "LOCATION:  ", "PANIC:  ", "BACKTRACE:  ", "DEBUG:  "}

// postgresShape: a line that begins as a record and has no level, or behind it
// nothing that PostgreSQL says, is broken within its prefix.
func (p *Parser) postgresShape(b []byte) (s Shape) {
	_, rest, ok := scan.Stamp(b, p.ref(), p.loc())
	if !ok || len(b) > 0 && b[0] == '\t' {
		return s
	}
	for _, level := range postgresLevels {
		if _, said, ok := scan.Cut(rest, level); ok && (len(said) >= postgresShort || level != "FATAL:  " && level != "LOG:  " && level != "ERROR:  ") {
			return s
		}
	}
	return Shape{Reach: postgresReach, Broken: true}
}

// proftpdReach is longer than ProFTPD's longest command (CommandBufferSize) and
// what it writes around one.
const proftpdReach = 4096

// proftpdShape: a command goes on at a line feed without a carriage return, and
// the log of its own holds a user's name as it came. Each record names the client
// before that. Messages to syslog or the journal stay whole.
func (p *Parser) proftpdShape(ev *Event) (s Shape) {
	if p.journaled || !ev.Addr.IsValid() || bytes.HasSuffix(ev.Message, []byte("FTP session opened.")) || bytes.HasSuffix(ev.Message, []byte("FTP session closed.")) {
		return s
	}
	return Shape{Reach: proftpdReach, Time: ev.Time, First: ev.Addr}
}

// nginxReach is nginx's longest record (NGX_MAX_ERROR_STR in src/core/ngx_log.h).
const nginxReach = 2048

// nginxShape: a path is written decoded, so that %0a in it breaks the line; the
// request behind the client is written as it came. A record with a connection
// ends by its client and the request; what does not, or has %0a in the request,
// may be the end of a record of many lines.
func (p *Parser) nginxShape(b []byte) (s Shape) {
	var msg []byte
	conn, ok := false, false
	if len(b) > 26 && b[4] == '/' && b[7] == '/' && b[10] == ' ' && b[13] == ':' && b[19] == ' ' {
		msg, conn, ok = nginxHead(b[19:])
	}
	if ok && !conn {
		return s // of the server itself: no client's text
	}
	if !ok {
		msg = b
	}
	s.Client = nginxOnly(msg)
	s.Broken = ok && !scan.Has(msg, nginxClient) && !hasPrefix(msg, "client ")
	if s.Broken || ok && !nginxOneLine(msg) {
		s.Reach = nginxReach
	}
	s.Ends = !ok || s.Broken || scan.Has(b, "%0a") || scan.Has(b, "%0A") || len(b) >= nginxCut
	return s
}

// nginxOneLine reports whether what stands in msg before the client holds no
// path and no other program's text. A user's name ends at the first colon, so
// that no record fits into it.
func nginxOneLine(msg []byte) bool {
	if hasPrefix(msg, `user "`) || hasPrefix(msg, "client ") {
		return true
	}
	for i := range nginxSayings {
		if hasPrefix(msg, nginxSayings[i].head) {
			return true
		}
	}
	return false
}

// nginxOnly is the client that a line names, when it names one only.
func nginxOnly(msg []byte) (only netip.Addr) {
	for range 16 {
		_, after, ok := scan.Cut(msg, nginxClient)
		if !ok {
			return only
		}
		a, _, ok := scan.AddrPrefix(after)
		if !ok || only.IsValid() && a != only {
			return netip.Addr{}
		}
		only, msg = a, after
	}
	return netip.Addr{}
}
