package parse

import "net/netip"

// ClientOptions tell who the client of a request behind proxies is.
type ClientOptions struct {
	Header  string         // field that names the client, such as x-forwarded-for
	Trusted []netip.Prefix // peers whose header is believed
}
