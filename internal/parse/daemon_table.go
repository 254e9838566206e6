package parse

import (
	"bytes"

	"stoplog/internal/parse/scan"
)

// daemonScanner returns the scanner of a daemon's syslog tag, or of a name
// that a user gives its service, nil when it is none's.
func daemonScanner(tag []byte) scanner {
	if s := postfixScanner(tag); s != nil {
		return s
	}
	if dovecotTag(tag) {
		return dovecot
	}
	if rest, ok := scan.After(tag, "cyrus/"); ok && len(rest) > 0 {
		return cyrus
	}
	tag = baseName(tag)
	for _, find := range [...]func([]byte) scanner{mailScanner, storeScanner, netScanner} {
		if s := find(tag); s != nil {
			return s
		}
	}
	return daemonLike(tag)
}

// mailScanner knows the tags of mail servers.
func mailScanner(tag []byte) scanner {
	switch string(tag) {
	case "exim", "exim4":
		return exim
	case "sendmail", "sm-mta", "sm-msp-queue", "sm-acceptingconnections":
		return sendmail
	case "imapd", "imapd-ssl", "pop3d", "pop3d-ssl", "ipop3d", "imap", "imaps", "pop3", "pop3s", "ipop3s", "imapsd":
		return imapServer
	case "courier", "courierpop3login", "courieresmtpd", "courierd", "esmtpd", "courierimaplogin":
		return courier
	case "cyrus", "sieve", "timsieved", "cyrus-imapd", "lmtpunix":
		return cyrus
	case "uwimap", "uw-imap":
		return uwimap
	case "smtpd", "opensmtpd":
		return opensmtpd
	case "perdition":
		return perdition
	case "qmail", "rblsmtpd", "qmail-smtpd":
		return qmail
	case "vpopmail", "vchkpw":
		return vpopmail
	case "cucipop", "solid-pop3d", "spop3d":
		return cucipop
	case "domino", "domino-smtp":
		return domino
	case "assp":
		return assp
	}
	return nil
}

// storeScanner knows the tags of servers of files, data and names.
func storeScanner(tag []byte) scanner {
	switch string(tag) {
	case "vsftpd":
		return vsftpd
	case "proftpd":
		return proftpd
	case "pure-ftpd", "pureftpd":
		return pureftpd
	case "ftpd", "in.ftpd", "wu-ftpd", "gssftpd", "ftp", "freebsd-ftpd", "wuftpd":
		return ftpd
	case "mysqld", "mariadbd", "mysql", "mariadb", "mysqld_safe":
		return mysql
	case "postgres", "postgresql", "pgsql", "postmaster":
		return postgres
	case "mssql", "sqlservr":
		return mssql
	case "mongod", "mongodb", "mongos", "mongod.27017":
		return mongodb
	case "slapd", "openldap":
		return slapd
	case "named", "bind9", "bind":
		return named
	}
	return nil
}

// netScanner knows the tags of the rest.
func netScanner(tag []byte) scanner {
	switch string(tag) {
	case "openvpn", "ovpn":
		return openvpn
	case "charon", "charon-systemd", "strongswan", "charon-ipsec":
		return charon
	case "asterisk":
		return asterisk
	case "freeswitch":
		return freeswitch
	case "ejabberd":
		return ejabberd
	case "danted", "sockd", "dante":
		return dante
	case "stunnel", "stunnel4":
		return stunnel
	case "kernel", "iptables", "ulogd", "ufw", "wireguard":
		return kernel
	case "fail2ban", "fail2ban.actions", "fail2ban-server", "recidive":
		return fail2ban
	case "sshguard":
		return sshguard
	case "php-fpm", "pfsense", "opnsense", "php":
		return pfsense
	case "pptpd", "xl2tpd":
		return pptp
	}
	return nil
}

// daemonLike knows tags by their beginning: services that carry a name of
// the administrator's behind it.
func daemonLike(tag []byte) scanner {
	for i := range daemonNames {
		if bytes.HasPrefix(tag, []byte(daemonNames[i].start)) {
			return daemonNames[i].scan
		}
	}
	return nil
}

var daemonNames = []struct {
	start string
	scan  scanner
}{
	{"ovpn-", openvpn},
	{"openvpn", openvpn},
	{"perdition.", perdition},
	{"vchkpw-", vpopmail},
	{"sm-", sendmail},
	{"stunnel", stunnel},
	{"courier", courier},
	{"exim", exim},
	{"named-", named},
}
