package db

import (
	"bytes"
	"unicode/utf8"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// mysql reads the error log of MySQL and MariaDB behind its stamp, and the
// connects of the general log: sql/sql_acl.cc, sql/log.cc, messages.
//
//	344 [Note] [MY-010926] [Server] Access denied for user 'u'@'a' (using password: YES)
//
// The user may hold anything, quotes too, so the host is the last one, in
// front of the fixed end of the line.
func mysql(env *event.Message, msg []byte, ev *event.Event) bool {
	if _, rest, ok := scan.Stamp(msg, env.Ref, env.Loc); ok {
		msg = rest
	}
	m, ok := mysqlPrefix(msg)
	if !ok {
		return false
	}
	m = scan.TrimTimes(m)
	if rest, ok := scan.After(m, "Access denied for user '"); ok {
		return mysqlDenied(rest, ev)
	}
	if rest, ok := scan.After(m, "Aborted connection "); ok {
		return mysqlAborted(rest, ev)
	}
	if rest, ok := scan.After(m, "Host '"); ok {
		addr, why, ok := scan.Cut(rest, "' ")
		a, ok2 := scan.Addr(addr)
		if !ok || !ok2 || !scan.HasAny(why, "is not allowed to connect to", "is blocked because of many connection errors") {
			return false
		}
		return ev.Set("mysql", event.Failure, event.Forbidden, a)
	}
	if rest, ok := scan.After(m, "IP address '"); ok {
		addr, _, _ := scan.Cut(rest, "'")
		a, ok := scan.Addr(addr)
		return ok && ev.Set("mysql", event.Other, event.Plain, a)
	}
	return false
}

// mysqlPrefix drops the thread's number and the level: "  14 Connect\t",
// "6 [Note] ", "[Warning] [MY-010926] [Server] ", or nothing.
func mysqlPrefix(m []byte) ([]byte, bool) {
	m = scan.TrimLeft(m)
	if _, rest, ok := scan.Uint(m); ok {
		m = scan.TrimLeft(rest)
	}
	if rest, ok := scan.After(m, "Connect"); ok {
		return scan.TrimLeft(rest), len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t')
	}
	for range 3 {
		rest, ok := scan.After(m, "[")
		if !ok {
			break
		}
		word, rest, ok := scan.Cut(rest, "] ")
		if !ok || len(word) > 16 || bytes.IndexByte(word, ' ') >= 0 {
			return nil, false
		}
		m = rest
	}
	return m, true
}

// mysqlDenied reads "u'@'a' (using password: YES)", or "u'@'a'" from one that
// sent no answer at all. "… to database 'd'" of one who is logged in, whose
// name of a database could look like the latter, is neither.
func mysqlDenied(m []byte, ev *event.Event) bool {
	head, ok := scan.Before(m, "' (using password: YES)")
	if !ok {
		head, ok = scan.Before(m, "' (using password: NO)")
	}
	if !ok {
		if head, ok = scan.Before(m, "'"); !ok || scan.Has(head, "' to database '") {
			return false
		}
	}
	user, host, ok := scan.Last(head, "'@'")
	a, ok2 := scan.Addr(host)
	if !ok || !ok2 {
		return false
	}
	ev.User = user
	return ev.Set("mysql", event.Failure, event.Plain, a)
}

// mysqlAborted reads "5 to db: 'd' user: 'u' host: 'a' (why)", where database
// and user are the client's.
func mysqlAborted(m []byte, ev *event.Event) bool {
	_, rest, ok := scan.Last(m, "' host: '")
	addr, why, ok2 := scan.Cut(rest, "' (")
	a, ok3 := scan.Addr(addr)
	if !ok || !ok2 || !ok3 {
		return false
	}
	ev.Set("mysql", event.Other, event.Plain, a)
	if scan.Has(why, "without authentication") || scan.Has(m, "user: 'unauthenticated'") {
		ev.Kind = event.Probe
	}
	return true
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

// MySQLShape: every refusal can be one of many lines, and every end of one
// decides about the lines before it.
func MySQLShape(m *event.Message, b []byte, ev *event.Event) (s event.Shape, told bool) {
	host := mysqlTail(b)
	if i := scan.Index(b, mysqlDenial); i >= 0 {
		s.Reach, s.Chars = i+len(mysqlDenial)+mysqlUser, true
		s.Time, _, _ = scan.Stamp(b, m.Ref, m.Loc)
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
	ev.Set("mysql", event.Failure, event.Plain, s.Client)
	ev.Count, ev.Message = 1, b
	return s, true
}
