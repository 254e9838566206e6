package db

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// How PostgreSQL reports one attempt; the first teaches the
// address only.
const (
	postgresConnect = 1 + iota
	postgresFatal
)

// Postgres reads PostgreSQL's log (elog.c, auth.c, postmaster.c): what
// log_line_prefix says, then "FATAL:  password authentication failed for user
// "u"". The address is of the message itself, of a prefix that names it before
// the user ("%h %m [%p] %u@%d "), or of the line "connection received" of the
// same process (log_connections). User and database are the client's.
func Postgres(env *event.Message, line []byte, ev *event.Event) bool {
	prefix, m, ok := scan.Cut(line, "FATAL:  ")
	if !ok {
		return postgresLog(env, line, ev)
	}
	if scan.Has(m, "FATAL:  ") {
		return false // a user's name says it too: which one is PostgreSQL's?
	}
	m = scan.Trim(m)
	kind, user, ok := postgresFailure(m)
	if !ok {
		return false
	}
	a, ok := postgresHost(m)
	if !ok {
		a, ok = postgresPrefixHost(prefix, user)
	}
	ev.Set("postgres", event.Failure, kind, a)
	ev.User = user
	postgresJoin(env, prefix, postgresFatal, ev)
	return ok || ev.Conn != 0
}

// PostgresOwn reports whether b, behind the stamp, looks like PostgreSQL's own
// log: at most the stamp's zone and an address, "[pid]", then at most two words ("u@d", "a(port)") and the level.
// Lines whose users have spaces in their names are read with the service told.
func PostgresOwn(b []byte) bool {
	head, in, ok := scan.CutNear(b, "[", 112)
	if !ok {
		return false
	}
	if bytes.Count(scan.TrimLeft(head), []byte(" ")) > 2 {
		return false
	}
	for _, c := range head {
		if !scan.HostByte(c) && c != ' ' && c != ':' && c != '+' && c != '(' && c != ')' && c != '@' {
			return false
		}
	}
	pid, rest := scan.UpTo(in, "]")
	if len(pid) == 0 || len(bytes.Trim(pid, "0123456789-")) > 0 || len(rest) < 2 {
		return false
	}
	m := scan.TrimLeft(bytes.TrimPrefix(rest[1:], []byte(":")))
	for range 3 {
		if bytes.HasPrefix(m, []byte("FATAL:  ")) || bytes.HasPrefix(m, []byte("LOG:  connection ")) {
			return true
		}
		_, m = scan.Word(m)
	}
	return false
}

// maxPostgresName is the longest name that a client can give itself
// (NAMEDATALEN, src/include/pg_config_manual.h; ProcessStartupPacket cuts it).
const maxPostgresName = 63

// PostgresNamed reports whether b is "[pid] USER@…FATAL:  …" whose message names
// the same user: PostgreSQL's, even if the user is called like another
// program's message.
func PostgresNamed(b []byte) bool {
	prefix, m, ok := scan.Cut(b[:min(len(b), 512)], "FATAL:  ")
	_, name, ok2 := scan.Cut(prefix, "] ")
	if !ok || !ok2 {
		return false
	}
	_, user, ok := postgresFailure(scan.Trim(m))
	rest, ok2 := bytes.CutPrefix(name, user)
	return ok && ok2 && len(user) > 0 && len(user) <= maxPostgresName && len(rest) > 0 && rest[0] == '@'
}

// PostgresZone reports whether the letters of a zone end stamp or begin rest,
// and a process in brackets follows: so write, of all that is told by its line
// here, only PostgreSQL's "%m [%p]" and "%t [%p]". Behind it stands whatever a
// client called itself, in lines about anything.
func PostgresZone(stamp, rest []byte) bool {
	zone := scan.Trim(stamp)
	if len(rest) > 0 && rest[0] != '[' {
		zone, rest = scan.Word(rest)
	}
	n := 0
	for n < len(zone) && zone[len(zone)-1-n]-'A' <= 25 {
		n++
	}
	in, ok := scan.After(scan.TrimLeft(rest), "[")
	_, after, ok2 := scan.CutDigits(in)
	return n >= 3 && ok && ok2 && len(after) > 0 && (after[0] == ']' || after[0] == '-')
}

// PostgresSays reports whether b holds a message of PostgreSQL's about a
// refused login, whatever its prefix is.
func PostgresSays(b []byte) bool {
	for m := b[:min(len(b), 1024)]; ; {
		var ok bool
		if _, m, ok = scan.Cut(m, "FATAL:  "); !ok {
			return false
		}
		if _, _, ok := postgresFailure(m); ok {
			return true
		}
	}
}

const postgresAuth = ` authentication failed for user "`

// postgresFailure reads the message of a refused login, and its user.
func postgresFailure(m []byte) (event.Kind, []byte, bool) {
	if i := scan.Index(m[:min(len(m), 64)], postgresAuth); i >= 0 {
		user, _ := scan.Before(m[i+len(postgresAuth):], `"`)
		return event.Plain, user, true
	}
	if role, ok := scan.After(m, `role "`); ok {
		user, ok := scan.Before(role, `" does not exist`)
		if !ok {
			user, ok = scan.Before(role, `" is not permitted to log in`)
		}
		return event.UnknownUser, user, ok
	}
	for _, text := range [...]string{"no pg_hba.conf entry for ", "pg_hba.conf rejects ", "too many connections for role "} {
		if rest, ok := scan.After(m, text); ok {
			_, user, _ := scan.Cut(rest, `, user "`)
			user, _, _ = scan.Cut(user, `", `)
			return event.Forbidden, user, true
		}
	}
	return event.Plain, nil, false
}

// postgresHost reads the address of "no pg_hba.conf entry for host "a", user
// …", which stands before what the client chose.
func postgresHost(m []byte) (netip.Addr, bool) {
	head, rest, ok := scan.Cut(m, `host "`)
	if !ok || !scan.Has(head, "pg_hba.conf") || bytes.IndexByte(head, '"') >= 0 {
		return netip.Addr{}, false
	}
	addr, _, ok := scan.Cut(rest, `"`)
	if !ok {
		return netip.Addr{}, false
	}
	return scan.Addr(addr)
}

// postgresPrefixHost finds the one address that the prefix names before the
// user. One behind it could be part of the user's or database's name.
func postgresPrefixHost(prefix, user []byte) (a netip.Addr, ok bool) {
	if len(user) > 0 {
		if i := bytes.Index(prefix, user); i >= 0 {
			prefix = prefix[:i]
		} else if i := bytes.IndexByte(prefix, '@'); i >= 0 {
			return a, false // cut short, or quoted
		}
	} else if bytes.IndexByte(prefix, '@') >= 0 {
		return a, false
	}
	for len(prefix) > 0 {
		w, rest := scan.UpTo(prefix, " ,;|()[]=")
		prefix = rest
		if len(w) == 0 {
			prefix = rest[1:]
			continue
		}
		found, good := scan.AddrPort(afterZone(w))
		if !good {
			continue
		}
		if ok && found != a {
			return netip.Addr{}, false
		}
		a, ok = found, true
	}
	return a, ok
}

// afterZone drops the zone of the stamp that Amazon's "%t:%r:%u@%d:[%p]:" puts
// right before the address: "UTC:192.0.2.1", ":192.0.2.1" when the stamp took
// its zone along.
func afterZone(w []byte) []byte {
	i := 0
	for i < len(w) && w[i]-'A' <= 25 {
		i++
	}
	if i+1 < len(w) && w[i] == ':' && w[i+1] != ':' {
		return w[i+1:]
	}
	return w
}

// postgresLog reads "LOG:  connection received: host=a port=n" and
// "connection authorized: user=u database=d".
func postgresLog(env *event.Message, line []byte, ev *event.Event) bool {
	prefix, m, ok := scan.Cut(line, "LOG:  connection ")
	if !ok || scan.Has(m, "LOG:  ") {
		return false
	}
	if rest, ok := scan.After(m, "received: host="); ok {
		host, rest := scan.Word(rest)
		a, ok := scan.Addr(host)
		if _, ok2 := scan.After(rest, "port="); !ok || !ok2 {
			return false
		}
		ev.Set("postgres", event.Other, event.Plain, a)
		postgresJoin(env, prefix, postgresConnect, ev)
		return true
	}
	if rest, ok := scan.After(m, "authorized: user="); ok {
		user, _, _ := scan.Cut(rest, " database=")
		a, ok := postgresPrefixHost(prefix, user)
		ev.Set("postgres", event.Success, event.Plain, a)
		ev.User = user
		postgresJoin(env, prefix, postgresConnect, ev)
		return ok || ev.Conn != 0
	}
	return false
}

// postgresJoin sets the connection by the process, which serves one: "[123]"
// of the prefix (%p), or of the envelope.
func postgresJoin(env *event.Message, prefix []byte, class uint8, ev *event.Event) {
	pid := env.PID
	if _, rest, ok := scan.Cut(prefix, "["); ok {
		if n, rest, _ := scan.CutDigits(rest); len(n) > 0 && len(rest) > 0 && (rest[0] == ']' || rest[0] == '-') {
			pid = n
		}
	}
	if len(pid) > 0 {
		ev.Conn, ev.Class = event.ConnID("postgres", pid), class
	}
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

// PostgresShape: a line that begins as a record and has no level, or behind it
// nothing that PostgreSQL says, is broken within its prefix.
func PostgresShape(m *event.Message, b []byte) (s event.Shape) {
	_, rest, ok := scan.Stamp(b, m.Ref, m.Loc)
	if !ok || len(b) > 0 && b[0] == '\t' {
		return s
	}
	for _, level := range postgresLevels {
		if _, said, ok := scan.Cut(rest, level); ok && (len(said) >= postgresShort || level != "FATAL:  " && level != "LOG:  " && level != "ERROR:  ") {
			return s
		}
	}
	return event.Shape{Reach: postgresReach, Broken: true}
}
