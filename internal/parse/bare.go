package parse

import (
	"bytes"

	"stoplog/internal/parse/db"
	"stoplog/internal/parse/event"
	"stoplog/internal/parse/mail"
	"stoplog/internal/parse/scan"
)

// bareDaemon reads a line of a daemon's own log file, and sets its time.
func bareDaemon(p *Parser, line []byte, ev *Event) bool {
	m := p.message()
	if line[0] == '{' {
		return db.MongoJSON(m, line, ev)
	}
	ns, rest := p.time, p.after
	if len(rest) == 0 || len(line) < len(rest) || &line[len(line)-1] != &rest[len(rest)-1] || line[0] == '<' {
		var ok bool
		if ns, rest, ok = scan.Stamp(line, m.Ref, m.Loc); !ok {
			return bareStampless(m, line, ev)
		}
	}
	ev.Time = ns
	rest = scan.TrimLeft(rest)
	if db.PostgresZone(line[:len(line)-len(rest)], rest) {
		return (db.PostgresOwn(rest) || db.PostgresSays(rest)) && db.Postgres(m, rest, ev)
	}
	s := bareSniff(rest)
	return s != nil && s(m, rest, ev)
}

// bareStampless reads lines that begin with something else than a timestamp.
func bareStampless(m *event.Message, line []byte, ev *Event) bool {
	if _, rest := scan.Word(line[:min(len(line), 160)]); len(rest) > 0 { // PostgreSQL's "%h %m …"
		if ns, rest, ok := scan.Stamp(rest, m.Ref, m.Loc); ok && db.PostgresOwn(line[min(len(line), 160)-len(rest):]) {
			ev.Time = ns
			return db.Postgres(m, line, ev)
		}
	}
	if scan.Has(line[:min(len(line), 48)], " conn=") {
		return db.SlapdOwn(m, line, ev)
	}
	return false
}

// bareSniff chooses a scanner by what stands behind the stamp.
func bareSniff(rest []byte) event.Scanner {
	head := rest[:min(len(rest), 96)]
	if len(head) == 0 {
		return nil
	}
	if head[0] == '[' && db.PostgresNamed(rest) {
		return db.Postgres
	}
	for i := range bareStarts {
		if head[0] == bareStarts[i].text[0] && bytes.HasPrefix(head, []byte(bareStarts[i].text)) {
			return bareStarts[i].scan
		}
	}
	if i := firstHead(head); i < len(bareHeads) {
		return bareHeads[i].scan
	}
	if db.PostgresOwn(rest) {
		return db.Postgres
	}
	return nil
}

// starts are texts that the lines of families hold. A text without a family
// marks the lines of a pack, which no family here may read.
type starts []struct {
	text, family string
	scan         event.Scanner // of the family
}

func init() {
	for _, list := range [...]starts{bareStarts, bareHeads} {
		for i := range list {
			if list[i].scan = daemonScanner(list[i].family); list[i].family == "dovecot" {
				list[i].scan = mail.DovecotLog
			}
		}
	}
}

// bareStarts are what lines begin with behind their stamp.
var bareStarts = starts{
	{text: "[pid ", family: "vsftpd"},
	{text: "client ", family: "named"},
	{text: "security: ", family: "named"},
	{text: "update-security: ", family: "named"},
	{text: "rate-limit: ", family: "named"},
	{text: "xfer-out: ", family: "named"},
	{text: "query-errors: ", family: "named"},
	{text: "imap-login: ", family: "dovecot"},
	{text: "pop3-login: ", family: "dovecot"},
	{text: "managesieve-login: ", family: "dovecot"},
	{text: "submission-login: ", family: "dovecot"},
	{text: "auth: ", family: "dovecot"},
	{text: "auth(", family: "dovecot"},
	{text: "auth-worker(", family: "dovecot"},
	{text: "dovecot: ", family: "dovecot"},
	{text: "smtp: "}, {text: "imap: "}, {text: "pop3: "}, {text: "http: "}, {text: "SMTP Server"}, // Domino
	{text: "Logon "},    // SQL Server
	{text: "Blocking "}, // ASSP
	{text: "fail2ban."},
	{text: "LOG"}, // stunnel
	{text: "NOTICE[", family: "asterisk"},
	{text: "SECURITY[", family: "asterisk"},
	{text: "WARNING[", family: "asterisk"},
	{text: "[conn", family: "mongodb"},
	{text: "[initandlisten]", family: "mongodb"},
}

// bareHeads are what the first bytes of lines hold. Texts that a client could
// put into another's line come last.
var bareHeads = starts{
	{text: " proftpd[", family: "proftpd"},
	{text: "Access denied for user '", family: "mysql"},
	{text: "Aborted connection ", family: "mysql"},
	{text: "] Host '", family: "mysql"},
	{text: "] IP address '", family: "mysql"},
	{text: "sofia"}, // FreeSWITCH
	{text: "@ejabberd_"}, {text: ") Failed c2s "}, {text: ") Accepted c2s "},
	{text: "[SSL-"}, {text: "[TLS-"}, // ASSP
	{text: "] OUT: '", family: "openvpn"},
	{text: " ACCESS   [conn", family: "mongodb"},
	{text: " NETWORK  [", family: "mongodb"},
	{text: "authenticator failed for ", family: "exim"},
	{text: "H=", family: "exim"},
	{text: "SMTP ", family: "exim"},
	{text: "SA: Action: ", family: "exim"},
	{text: "TLS error on ", family: "exim"},
	{text: "no MAIL in ", family: "exim"},
	{text: "<= ", family: "exim"},
	{text: "unexpected disconnection while reading SMTP", family: "exim"},
	{text: "no IP address found for host ", family: "exim"},
	{text: "rejected ", family: "exim"},
	{text: "refused connection from ", family: "exim"},
	{text: " TLS Error: ", family: "openvpn"},
	{text: " TLS Auth Error: ", family: "openvpn"},
	{text: " VERIFY ", family: "openvpn"},
	{text: " AUTH: Received control message: AUTH_FAILED", family: "openvpn"},
	{text: " OpenSSL: error:", family: "openvpn"},
	{text: "Peer Connection Initiated with [AF_INET", family: "openvpn"},
	{text: "TCP connection established with [AF_INET", family: "openvpn"},
	{text: " SIGUSR1[soft,", family: "openvpn"},
	{text: " SIGTERM[soft,", family: "openvpn"},
	{text: "Bad encapsulated packet length", family: "openvpn"},
}

// headsAt lists the heads that begin with each byte.
var headsAt = func() (t [256][]uint8) {
	for i := range bareHeads {
		c := bareHeads[i].text[0]
		t[c] = append(t[c], uint8(i))
	}
	return t
}()

// firstHead finds the first of bareHeads that occurs in head, looking at each
// byte once; len(bareHeads) when none does.
func firstHead(head []byte) int {
	first := len(bareHeads)
	for i, c := range head {
		for _, k := range headsAt[c] {
			if int(k) >= first {
				break
			}
			if text := bareHeads[k].text; i+1 < len(head) && head[i+1] == text[1] && scan.HasPrefix(head[i:], text) {
				first = int(k)
			}
		}
	}
	return first
}
