package parse

import (
	"slices"

	"stoplog/internal/parse/auth"
	"stoplog/internal/parse/db"
	"stoplog/internal/parse/event"
	"stoplog/internal/parse/mail"
	"stoplog/internal/parse/network"
	"stoplog/internal/parse/pack"
	"stoplog/internal/parse/scan"
	"stoplog/internal/parse/web"
)

// familyOf returns the family of a syslog tag, or of a name that a user gives a
// service, "" when it has none.
func familyOf(tag []byte) string {
	base := scan.Base(tag)
	if f := auth.Family(tag, base); f != "" {
		return f
	}
	if f := web.Family(tag); f != "" {
		return f
	}
	if f := mail.Family(tag); f != "" {
		return f
	}
	if f := db.Family(base); f != "" {
		return f
	}
	return network.Family(base)
}

// scanner returns what reads the messages of a family, nil when it has none.
func (p *Parser) scanner(family string) event.Scanner {
	if s := auth.Scanner(family); s != nil {
		return s
	}
	if s := p.web.Scanner(family); s != nil {
		return s
	}
	return daemonScanner(family)
}

// daemonScanner is scanner for the families whose scanners keep no memory.
func daemonScanner(family string) event.Scanner {
	for _, find := range [...]func(string) event.Scanner{auth.Scanner, mail.Scanner, db.Scanner, network.Scanner} {
		if s := find(family); s != nil {
			return s
		}
	}
	return nil
}

// tagScanner returns the scanner of a syslog tag, nil when it has none.
func (p *Parser) tagScanner(tag []byte) event.Scanner {
	base := scan.Base(tag)
	if f := auth.Family(tag, base); f != "" {
		return auth.Scanner(f)
	}
	if f := web.Family(tag); f != "" {
		return p.web.Scanner(f)
	}
	if s := mail.Tagged(tag); s != nil {
		return s
	}
	if f := db.Family(base); f != "" {
		return db.Scanner(f)
	}
	return network.Scanner(network.Family(base))
}

// hintScanner returns the scanner of a service by the name that a user gives it.
func (p *Parser) hintScanner(service string) event.Scanner {
	if service == "pam" || service == "pam-generic" {
		return auth.PAM
	}
	return p.scanner(familyOf([]byte(service)))
}

// families are the services that the scanners here give events.
var families = []string{
	"apache", "app", "asterisk", "caddy", "cockpit", "coraza", "courier", "cyrus",
	"dovecot", "dropbear", "envoy", "exim", "generic",
	"haproxy", "http", "lighttpd", "login", "mongodb", "mysql", "named", "netfilter", "nginx", "openvpn",
	"opensmtpd", "pam", "postfix", "postgres", "postgrey", "proftpd", "proxmox",
	"pure-ftpd", "samba", "saslauthd", "sendmail", "slapd", "squid", "sshd",
	"su", "sudo", "suhosin", "traefik", "varnish", "vsftpd", "webmin",
	"xrdp",
}

// Services are the names that events carry as their service, of the families
// and of the built-in packs, sorted. Beside them stand the names of the users'
// own patterns and, of structured records, whatever Options.Service says.
func Services() []string {
	all := append(slices.Clone(families), pack.BuiltinServices()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Known reports whether Options.Service of that name is a family, a built-in
// pack, AccessLog or Syslog. Any other is an application of the user's own: only
// the user's patterns read its log, and the format that the source names.
func Known(service string) bool {
	if service == AccessLog || service == Syslog || slices.Contains([]string{"auth", "pam", "pam-generic"}, service) || familyOf([]byte(service)) != "" {
		return true
	}
	packs, err := pack.Builtin()
	return err == nil && packs.Named(service) != nil
}

// Raw is which text of clients the service of that name writes into a log file with
// its line breaks, so that any client can forge records there; "" when none is known.
func Raw(service string) string {
	packs, err := pack.Builtin()
	if err != nil {
		return ""
	}
	if p := packs.Pack(service); p != nil {
		return p.Raw()
	}
	return ""
}
