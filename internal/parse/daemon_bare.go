package parse

import (
	"bytes"

	"stoplog/internal/parse/scan"
)

// bareDaemon reads a line of a daemon's own log file, and sets its time.
func bareDaemon(p *Parser, line []byte, ev *Event) bool {
	if line[0] == '{' {
		return mongoJSON(p, line, ev)
	}
	ns, rest := p.time, p.after
	if len(rest) == 0 || len(line) < len(rest) || &line[len(line)-1] != &rest[len(rest)-1] || line[0] == '<' {
		var ok bool
		if ns, rest, ok = scan.Stamp(line, p.ref(), p.loc()); !ok {
			return bareStampless(p, line, ev)
		}
	}
	ev.Time = ns
	rest = scan.TrimLeft(rest)
	if postgresZone(line[:len(line)-len(rest)], rest) {
		return (postgresOwn(rest) || postgresSays(rest)) && postgres(p, rest, ev)
	}
	s := bareSniff(rest)
	return s != nil && s(p, rest, ev)
}

// bareStampless reads lines that begin with something else than a stamp.
func bareStampless(p *Parser, line []byte, ev *Event) bool {
	if _, rest := scan.Word(line[:min(len(line), 160)]); len(rest) > 0 { // PostgreSQL's "%h %m …"
		if ns, rest, ok := scan.Stamp(rest, p.ref(), p.loc()); ok && postgresOwn(line[min(len(line), 160)-len(rest):]) {
			ev.Time = ns
			return postgres(p, line, ev)
		}
	}
	if _, rest, ok := cutNear(line, "] ", 48); ok && line[0] == '[' { // Domino's "[28325:00010-3735542592] stamp"
		if ns, msg, ok := scan.Stamp(rest, p.ref(), p.loc()); ok {
			ev.Time = ns
			return domino(p, scan.TrimLeft(msg), ev)
		}
	}
	if scan.Has(line[:min(len(line), 48)], " conn=") {
		return slapdOwn(p, line, ev)
	}
	if bytes.HasPrefix(line, []byte("I(<")) {
		return ejabberd(p, line, ev)
	}
	return false
}

// bareSniff chooses a scanner by what stands behind the stamp.
func bareSniff(rest []byte) scanner {
	head := rest[:min(len(rest), 96)]
	if len(head) == 0 {
		return nil
	}
	if head[0] == '[' && postgresNamed(rest) {
		return postgres
	}
	for i := range bareStarts {
		if head[0] == bareStarts[i].text[0] && bytes.HasPrefix(head, []byte(bareStarts[i].text)) {
			return bareStarts[i].scan
		}
	}
	if i := firstHead(head); i < len(bareHeads) {
		return bareHeads[i].scan
	}
	if postgresOwn(rest) {
		return postgres
	}
	return nil
}

// bareStarts are what lines begin with behind their stamp.
var bareStarts = []struct {
	text string
	scan scanner
}{
	{"[pid ", vsftpd},
	{"Logon ", mssql},
	{"client ", named},
	{"security: ", named},
	{"update-security: ", named},
	{"rate-limit: ", named},
	{"xfer-out: ", named},
	{"query-errors: ", named},
	{"imap-login: ", dovecotBare},
	{"pop3-login: ", dovecotBare},
	{"managesieve-login: ", dovecotBare},
	{"submission-login: ", dovecotBare},
	{"auth: ", dovecotBare},
	{"auth(", dovecotBare},
	{"auth-worker(", dovecotBare},
	{"dovecot: ", dovecotBare},
	{"NOTICE[", asterisk},
	{"SECURITY[", asterisk},
	{"WARNING[", asterisk},
	{"smtp: ", domino},
	{"imap: ", domino},
	{"pop3: ", domino},
	{"http: ", domino},
	{"SMTP Server", domino},
	{"Blocking ", assp},
	{"fail2ban.", fail2ban},
	{"LOG", stunnel},
	{"[conn", mongodb},
	{"[initandlisten]", mongodb},
}

// bareHeads are what the first bytes of lines hold. Texts that a client could
// put into another's line come last.
var bareHeads = []struct {
	text string
	scan scanner
}{
	{" proftpd[", proftpd},
	{"Access denied for user '", mysql},
	{"Aborted connection ", mysql},
	{"] Host '", mysql},
	{"] IP address '", mysql},
	{"sofia", freeswitch},
	{"@ejabberd_", ejabberd},
	{") Failed c2s ", ejabberd},
	{") Accepted c2s ", ejabberd},
	{"] OUT: '", openvpn},
	{" ACCESS   [conn", mongodb},
	{" NETWORK  [", mongodb},
	{"[SSL-", assp},
	{"[TLS-", assp},
	{"authenticator failed for ", exim},
	{"H=", exim},
	{"SMTP ", exim},
	{"SA: Action: ", exim},
	{"TLS error on ", exim},
	{"no MAIL in ", exim},
	{"<= ", exim},
	{"unexpected disconnection while reading SMTP", exim},
	{"no IP address found for host ", exim},
	{"rejected ", exim},
	{"refused connection from ", exim},
	{" TLS Error: ", openvpn},
	{" TLS Auth Error: ", openvpn},
	{" VERIFY ", openvpn},
	{" AUTH: Received control message: AUTH_FAILED", openvpn},
	{" OpenSSL: error:", openvpn},
	{"Peer Connection Initiated with [AF_INET", openvpn},
	{"TCP connection established with [AF_INET", openvpn},
	{" SIGUSR1[soft,", openvpn},
	{" SIGTERM[soft,", openvpn},
	{"Bad encapsulated packet length", openvpn},
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
			if text := bareHeads[k].text; i+1 < len(head) && head[i+1] == text[1] && hasPrefix(head[i:], text) {
				first = int(k)
			}
		}
	}
	return first
}

func dovecotBare(_ *Parser, msg []byte, ev *Event) bool { return dovecotLine(msg, ev) }
