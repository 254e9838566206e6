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
	if f := daemonFamilyOf(tag); f != "" {
		return familyScanner(f)
	}
	return nil
}

// daemonFamily returns the family of a daemon's syslog tag, or of a name that a
// user gives its service, "" when it is none's.
func daemonFamily(tag []byte) string {
	if postfixScanner(tag) != nil {
		return "postfix"
	}
	return daemonFamilyOf(tag)
}

// daemonFamilyOf is daemonFamily of a tag that is not Postfix's.
func daemonFamilyOf(tag []byte) string {
	if dovecotTag(tag) {
		return "dovecot"
	}
	if rest, ok := scan.After(tag, "cyrus/"); ok && len(rest) > 0 {
		return "cyrus"
	}
	tag = baseName(tag)
	for _, find := range [...]func([]byte) string{mailFamily, storeFamily, netFamily} {
		if f := find(tag); f != "" {
			return f
		}
	}
	return daemonLike(tag)
}

// mailFamily knows the tags of mail servers.
func mailFamily(tag []byte) string {
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
	case "uwimap", "uw-imap":
		return "uw-imap"
	case "smtpd", "opensmtpd":
		return "opensmtpd"
	case "perdition":
		return "perdition"
	case "qmail", "rblsmtpd", "qmail-smtpd":
		return "qmail"
	case "vpopmail", "vchkpw":
		return "vpopmail"
	case "cucipop", "solid-pop3d", "spop3d":
		return "cucipop"
	case "domino", "domino-smtp":
		return "domino"
	case "assp":
		return "assp"
	}
	return ""
}

// storeFamily knows the tags of servers of files, data and names.
func storeFamily(tag []byte) string {
	switch string(tag) {
	case "vsftpd":
		return "vsftpd"
	case "proftpd":
		return "proftpd"
	case "pure-ftpd", "pureftpd":
		return "pure-ftpd"
	case "ftpd", "in.ftpd", "wu-ftpd", "gssftpd", "ftp", "freebsd-ftpd", "wuftpd":
		return "ftpd"
	case "mysqld", "mariadbd", "mysql", "mariadb", "mysqld_safe":
		return "mysql"
	case "postgres", "postgresql", "pgsql", "postmaster":
		return "postgres"
	case "mssql", "sqlservr":
		return "mssql"
	case "mongod", "mongodb", "mongos", "mongod.27017":
		return "mongodb"
	case "slapd", "openldap":
		return "slapd"
	case "named", "bind9", "bind":
		return "named"
	}
	return ""
}

// netFamily knows the tags of the rest.
func netFamily(tag []byte) string {
	switch string(tag) {
	case "openvpn", "ovpn":
		return "openvpn"
	case "charon", "charon-systemd", "strongswan", "charon-ipsec":
		return "charon"
	case "asterisk":
		return "asterisk"
	case "freeswitch":
		return "freeswitch"
	case "ejabberd":
		return "ejabberd"
	case "danted", "sockd", "dante":
		return "dante"
	case "stunnel", "stunnel4":
		return "stunnel"
	case "kernel", "iptables", "ulogd", "ufw", "wireguard":
		return "kernel"
	case "fail2ban", "fail2ban.actions", "fail2ban-server", "recidive":
		return "fail2ban"
	case "sshguard":
		return "sshguard"
	case "php-fpm", "pfsense", "opnsense", "php":
		return "pfsense"
	case "pptpd", "xl2tpd":
		return "pptpd"
	}
	return ""
}

// daemonLike knows tags by their beginning: services that carry a name of
// the administrator's behind it.
func daemonLike(tag []byte) string {
	for i := range daemonNames {
		if bytes.HasPrefix(tag, []byte(daemonNames[i].start)) {
			return daemonNames[i].family
		}
	}
	return ""
}

var daemonNames = []struct {
	start  string
	family string
}{
	{"ovpn-", "openvpn"},
	{"openvpn", "openvpn"},
	{"perdition.", "perdition"},
	{"vchkpw-", "vpopmail"},
	{"sm-", "sendmail"},
	{"stunnel", "stunnel"},
	{"courier", "courier"},
	{"exim", "exim"},
	{"named-", "named"},
}
