package parse

import (
	"slices"

	"stoplog/internal/parse/pack"
)

// families are the services that the scanners here give events.
var families = []string{
	"apache", "app", "assp", "asterisk", "caddy", "charon", "cockpit", "coraza", "courier", "cucipop", "cyrus",
	"dante", "domino", "dovecot", "dropbear", "ejabberd", "envoy", "exim", "fail2ban", "freeswitch", "ftpd", "generic",
	"haproxy", "http", "lighttpd", "login", "mongodb", "mssql", "mysql", "named", "netfilter", "nginx", "openvpn",
	"opensmtpd", "pam", "perdition", "pfsense", "postfix", "postgres", "postgrey", "pptpd", "proftpd", "proxmox",
	"pure-ftpd", "qmail", "samba", "saslauthd", "screensharingd", "sendmail", "slapd", "solid-pop3d", "squid", "sshd",
	"sshguard", "stunnel", "su", "sudo", "suhosin", "traefik", "uw-imap", "varnish", "vpopmail", "vsftpd", "webmin",
	"wireguard", "xl2tpd", "xrdp",
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
