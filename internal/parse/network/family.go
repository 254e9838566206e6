// Package network reads the logs of name servers, tunnels, telephony and
// firewalls.
package network

import (
	"bytes"

	"stoplog/internal/parse/event"
)

// Family returns the family of a syslog tag without its path, "" when it
// belongs to no family here.
func Family(base []byte) string {
	switch string(base) {
	case "named", "bind9", "bind":
		return "named"
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
	for i := range started {
		if bytes.HasPrefix(base, []byte(started[i].start)) {
			return started[i].family
		}
	}
	return ""
}

// started are the starts of tags behind which the administrator writes a name.
var started = [...]struct{ start, family string }{
	{"ovpn-", "openvpn"}, {"openvpn", "openvpn"}, {"stunnel", "stunnel"}, {"named-", "named"},
}

// Scanner returns the scanner of a family, nil when it is none of these.
func Scanner(family string) event.Scanner {
	switch family {
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
