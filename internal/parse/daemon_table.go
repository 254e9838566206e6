package parse

import (
	"bytes"

	"stoplog/internal/parse/scan"
)

// daemonScanner returns the scanner of a daemon's syslog tag, nil when it is
// none's.
func daemonScanner(tag []byte) scanner {
	if s := postfixScanner(tag); s != nil {
		return s
	}
	if dovecotTag(tag) {
		return dovecot
	}
	tag = baseName(tag)
	if s := daemonOf(tag); s != nil {
		return s
	}
	return daemonLike(tag)
}

// daemonOf knows the tags, and the names that a source's service may be given
// by, that stand for one daemon.
func daemonOf(tag []byte) scanner {
	switch string(tag) {
	case "exim", "exim4", "exim-spam", "exim-auth":
		return exim
	case "vsftpd":
		return vsftpd
	case "proftpd":
		return proftpd
	case "pure-ftpd", "pureftpd":
		return pureftpd
	case "ftpd", "in.ftpd", "wu-ftpd", "gssftpd", "ftp", "freebsd-ftpd", "wuftpd":
		return ftpd
	case "mysqld", "mariadbd", "mysql", "mariadb", "mysqld_safe", "mysqld-auth", "mariadb-server":
		return mysql
	case "postgres", "postgresql", "pgsql", "postmaster":
		return postgres
	case "mssql", "mssql-auth", "sqlservr":
		return mssql
	case "named", "named-refused", "bind9", "bind":
		return named
	}
	return nil
}

// daemonLike knows tags by a part of them.
func daemonLike(tag []byte) scanner {
	return nil
}

// bareDaemon reads a line of a daemon's own log file, and sets its time.
func bareDaemon(p *Parser, line []byte, ev *Event) bool {
	rest := line
	if ns, after, ok := scan.Stamp(line, p.ref(), p.loc()); ok {
		ev.Time = ns
		rest = scan.TrimLeft(after)
	}
	if h := p.hint(); h != "" && bareHinted(p, h, line, rest, ev) {
		return true
	}
	if len(rest) == len(line) {
		return bareStampless(p, line, ev)
	}
	s := bareSniff(rest)
	return s != nil && s(p, rest, ev) && bareOwn(ev)
}

// bareOwn marks an event of a file that the server itself writes.
func bareOwn(ev *Event) bool {
	ev.Verified = true
	return true
}

func bareHinted(p *Parser, hint string, line, rest []byte, ev *Event) bool {
	switch hint {
	case "postfix":
		return postfixSMTPD(p, rest, ev) || postscreen(p, rest, ev) || postgrey(p, rest, ev)
	case "postgres", "postgresql", "pgsql":
		return postgres(p, line, ev) && bareOwn(ev)
	case "proftpd":
		return (proftpdOwn(p, rest, ev) || proftpd(p, rest, ev)) && bareOwn(ev)
	case "dovecot":
		return dovecotLine(rest, ev) && bareOwn(ev)
	}
	s := daemonOf([]byte(hint))
	return s != nil && s(p, rest, ev) && bareOwn(ev)
}

// bareStampless reads lines that begin with something else than a stamp.
func bareStampless(p *Parser, line []byte, ev *Event) bool {
	if scan.Has(line, "FATAL:  ") || scan.Has(line, "LOG:  connection ") {
		if p.bareStamp(line, ev); postgres(p, line, ev) {
			return bareOwn(ev)
		}
	}
	return false
}

// bareStamp finds the stamp behind the first word, such as an address.
func (p *Parser) bareStamp(line []byte, ev *Event) {
	_, rest := scan.Word(line)
	if ns, _, ok := scan.Stamp(rest, p.ref(), p.loc()); ok {
		ev.Time = ns
	}
}

// bareSniff chooses a scanner by the first bytes behind the stamp.
func bareSniff(rest []byte) scanner {
	for i := range bareStarts {
		if bytes.HasPrefix(rest, []byte(bareStarts[i].text)) {
			return bareStarts[i].scan
		}
	}
	for i := range bareTexts {
		if scan.Has(rest, bareTexts[i].text) {
			return bareTexts[i].scan
		}
	}
	return nil
}

var bareStarts = []struct {
	text string
	scan scanner
}{
	{"[pid ", vsftpd},
	{"Logon ", mssql},
	{"client @", named},
	{"client ", named},
	{"security: ", named},
	{"imap-login: ", dovecotBare},
	{"pop3-login: ", dovecotBare},
	{"managesieve-login: ", dovecotBare},
	{"submission-login: ", dovecotBare},
	{"auth: ", dovecotBare},
	{"auth(", dovecotBare},
	{"auth-worker(", dovecotBare},
	{"dovecot: ", dovecotBare},
}

var bareTexts = []struct {
	text string
	scan scanner
}{
	{" proftpd[", proftpdOwn},
	{"Access denied for user '", mysql},
	{"FATAL:  ", postgres},
	{"LOG:  connection ", postgres},
	{" authenticator failed for ", exim},
	{"H=", exim},
	{"SMTP ", exim},
	{"SA: Action: ", exim},
	{"client @", named},
	{"Aborted connection ", mysql},
	{"refused connection from ", exim},
}

func dovecotBare(p *Parser, msg []byte, ev *Event) bool { return dovecotLine(msg, ev) }
