// Package auth reads the logs of services that people log in to: sshd,
// Dropbear, PAM, sudo, su and login, and FTP servers.
package auth

import "stoplog/internal/parse/event"

// maxCount bounds the attempts that one line can report.
const maxCount = 1000

// Family returns the family of a syslog tag, "" when it belongs to no family
// here. base is what follows the tag's last slash.
func Family(tag, base []byte) string {
	switch string(tag) {
	case "sshd", "sshd-session", "sshd-auth", "ssh":
		return "sshd"
	case "dropbear", "sudo", "su":
		return string(tag)
	case "login", "remote", "in.telnetd", "telnetd", "in.rlogind", "rlogind", "in.rshd", "rshd", "in.rexecd", "rexecd":
		return "login"
	case "audit", "auditd", "audispd", "selinux", "selinux-ssh":
		return "audit"
	}
	switch string(base) {
	case "vsftpd", "proftpd":
		return string(base)
	case "pure-ftpd", "pureftpd":
		return "pure-ftpd"
	}
	return ""
}

// Scanner returns the scanner of a family, nil when it is none of these.
func Scanner(family string) event.Scanner {
	switch family {
	case "pam":
		return PAM
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
	case "audit":
		return Audit
	case "vsftpd":
		return vsftpd
	case "proftpd":
		return proftpd
	case "pure-ftpd":
		return pureftpd
	}
	return nil
}
