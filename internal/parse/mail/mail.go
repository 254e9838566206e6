// Package mail reads the logs of mail servers: Postfix, Dovecot, Exim, sendmail
// and others.
package mail

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// Family returns the family of a syslog tag, "" when it belongs to no family
// here.
func Family(tag []byte) string {
	if postfixScanner(tag) != nil {
		return "postfix"
	}
	if dovecotTag(tag) {
		return "dovecot"
	}
	if rest, ok := scan.After(tag, "cyrus/"); ok && len(rest) > 0 {
		return "cyrus"
	}
	tag = scan.Base(tag)
	switch string(tag) {
	case "exim", "exim4":
		return "exim"
	case "sendmail", "sm-mta", "sm-msp-queue", "sm-acceptingconnections":
		return "sendmail"
	case "imapd", "imapd-ssl", "pop3d", "pop3d-ssl", "ipop3d", "imap", "imaps", "pop3", "pop3s", "ipop3s", "imapsd":
		return "imap"
	case "courier", "courierpop3login", "courieresmtpd", "courierd", "esmtpd", "courierimaplogin":
		return "courier"
	case "cyrus", "sieve", "timsieved", "cyrus-imapd", "lmtpunix":
		return "cyrus"
	case "smtpd", "opensmtpd":
		return "opensmtpd"
	}
	for i := range named {
		if bytes.HasPrefix(tag, []byte(named[i].start)) {
			return named[i].family
		}
	}
	return ""
}

// named are the starts of tags behind which the administrator writes a name.
var named = [...]struct{ start, family string }{
	{"sm-", "sendmail"}, {"courier", "courier"}, {"exim", "exim"},
}

// Tagged returns the scanner of a syslog tag, nil when it belongs to no family
// here. Each of Postfix's services has its own.
func Tagged(tag []byte) event.Scanner {
	if s := postfixScanner(tag); s != nil {
		return s
	}
	return Scanner(Family(tag))
}

// Scanner returns the scanner of a family, nil when it is none of these.
func Scanner(family string) event.Scanner {
	switch family {
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
	case "opensmtpd":
		return opensmtpd
	}
	return nil
}

// DovecotLog reads a line of Dovecot's own log file, behind its timestamp.
func DovecotLog(_ *event.Message, text []byte, ev *event.Event) bool { return dovecotLine(text, ev) }
