package parse

import "time"

// scanner reads one message, after its envelope, of one family of logs. It
// fills ev and reports whether it understood the message. It sets Service,
// Outcome, Kind, User, Addr (only from a position that the logging program
// controls), and Conn, Class and Count where the family has them.
//
// A line of a connection sets Conn by ConnID. Each of a service's ways to tell
// of one attempt has a Class of its own: the attempts of a connection are the
// most that one class tells of (see session.Joiner.Join). A line that begins a
// connection is a plain Other with a Class and the address, and lends both
// address and user to lines that lack them.
type scanner func(p *Parser, msg []byte, ev *Event) bool

// ref is the time (Unix ns) that stamps without a year are read near.
func (p *Parser) ref() int64 { return p.now }

// loc is the zone of stamps that tell none.
func (p *Parser) loc() *time.Location { return p.opt.Location }

// hint is the service that the user says the lines are of, "" when sniffing.
func (p *Parser) hint() string { return p.opt.Service }

// ConnID hashes what identifies a connection within its origin: the service
// and its process, session or connection id. It is never 0.
func ConnID(service string, id []byte) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(service) {
		h = (h ^ uint64(service[i])) * 1099511628211
	}
	h = (h ^ 0xff) * 1099511628211
	for _, c := range id {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h | 1
}

// mixHost makes conn of one host differ from the same of another, in files
// that several hosts log to.
func mixHost(conn uint64, host []byte) uint64 {
	for _, c := range host {
		conn = (conn ^ uint64(c)) * 1099511628211
	}
	return conn | 1
}

// ClassOnce is where the classes begin that tell of one attempt, however often
// a connection's lines say so. Below it every line is an attempt.
const ClassOnce = 128

// What PAM tells of an attempt, the service tells, too: see session.Joiner.Join.
// pam_unix counts apart from the other modules, which may tell of the same.
const (
	ClassPAM      = 127
	ClassOtherPAM = 126
)

// familyScanner returns what reads the messages of a family.
func familyScanner(family string) scanner {
	switch family {
	case "sshd":
		return sshd
	case "dropbear":
		return dropbear
	case "sudo":
		return sudo
	case "su":
		return su
	case "login":
		return login
	case "screensharingd":
		return screensharing
	case "audit":
		return audit
	case "nginx":
		return nginxTagged
	case "apache":
		return apacheAny
	case "haproxy":
		return haproxyAny
	case "lighttpd":
		return lighttpdAny
	case "squid":
		return squidAny
	case "suhosin":
		return suhosinLog
	case "mod_evasive":
		return evasiveLog
	case "caddy", "traefik", "envoy", "varnish":
		return accessAny
	case "postfix":
		return postfixAny
	case "dovecot":
		return dovecot
	case "exim":
		return exim
	case "sendmail":
		return sendmail
	case "imap":
		return imapServer
	case "courier":
		return courier
	case "cyrus":
		return cyrus
	case "uw-imap":
		return uwimap
	case "opensmtpd":
		return opensmtpd
	case "perdition":
		return perdition
	case "qmail":
		return qmail
	case "vpopmail":
		return vpopmail
	case "cucipop":
		return cucipop
	case "domino":
		return domino
	case "assp":
		return assp
	case "vsftpd":
		return vsftpd
	case "proftpd":
		return proftpd
	case "pure-ftpd":
		return pureftpd
	case "ftpd":
		return ftpd
	case "mysql":
		return mysql
	case "postgres":
		return postgres
	case "mssql":
		return mssql
	case "mongodb":
		return mongodb
	case "slapd":
		return slapd
	case "named":
		return named
	case "openvpn":
		return openvpn
	case "charon":
		return charon
	case "asterisk":
		return asterisk
	case "freeswitch":
		return freeswitch
	case "ejabberd":
		return ejabberd
	case "dante":
		return dante
	case "stunnel":
		return stunnel
	case "kernel":
		return kernel
	case "fail2ban":
		return fail2ban
	case "sshguard":
		return sshguard
	case "pfsense":
		return pfsense
	case "pptpd":
		return pptp
	}
	return nil
}
