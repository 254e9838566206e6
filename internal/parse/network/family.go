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
	case "asterisk":
		return "asterisk"
	case "kernel", "iptables", "ulogd", "ufw", "wireguard":
		return "kernel"
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
	{"ovpn-", "openvpn"}, {"openvpn", "openvpn"}, {"named-", "named"},
}

// Scanner returns the scanner of a family, nil when it is none of these.
func Scanner(family string) event.Scanner {
	switch family {
	case "named":
		return named
	case "openvpn":
		return openvpn
	case "asterisk":
		return asterisk
	case "kernel":
		return kernel
	}
	return nil
}
