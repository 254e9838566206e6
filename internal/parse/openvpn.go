package parse

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/scan"
)

// openvpn reads OpenVPN's server log (src/openvpn/ssl.c, ssl_verify.c, mtcp.c,
// options of log_suffix): "a:port TLS Error: …", "name/a:port …", or a message
// that ends with "[AF_INET]a:port". Several lines tell of one handshake, so
// each text has a class of its own.
func openvpn(p *Parser, msg []byte, ev *Event) bool {
	if _, in, ok := scan.Cut(msg, "] OUT: '"); ok { // Access Server wraps it
		msg, _ = scan.Before(in, "'")
	}
	if ns, rest, ok := scan.Stamp(msg, p.ref(), p.loc()); ok {
		ev.Time, msg = ns, scan.TrimLeft(rest)
	}
	peer, m, ok := openvpnPeer(msg)
	if !ok {
		m = msg
	}
	for i := range openvpnForms {
		f := &openvpnForms[i]
		rest, found := scan.After(m, f.text)
		if !found {
			continue
		}
		tail, named := openvpnTail(rest)
		switch {
		case ok && named && tail != peer && f.outcome != Success:
			return false
		case !ok && !named:
			return false
		case !ok:
			peer = tail
		}
		tell(ev, "openvpn", f.outcome, f.kind, peer.Addr())
		if f.reset {
			ev.Addr = netip.Addr{}
		}
		if f.outcome == Failure {
			ev.Conn, ev.Class = ConnID("openvpn", nil)^addrHash(peer.Addr())^uint64(peer.Port())<<1|1, uint8(i+1)
		}
		return true
	}
	if name, rest, named := openvpnName(m); ok && named {
		if _, ok := scan.After(rest, "Peer Connection Initiated with "); ok {
			tell(ev, "openvpn", Success, Plain, peer.Addr())
			ev.User = name
			return true
		}
	}
	return false
}

// openvpnName reads "[name] " at b's start; "[UNDEF]" is nobody yet.
func openvpnName(b []byte) (name, rest []byte, ok bool) {
	m, ok := scan.After(b, "[")
	if !ok {
		return nil, b, false
	}
	name, rest, ok = scan.Cut(m, "] ")
	return name, rest, ok && string(name) != "UNDEF"
}

// openvpnPeer reads "a:port " or "name/a:port " at b's start. A name that
// holds another peer makes it unclear who is meant.
func openvpnPeer(b []byte) (peer netip.AddrPort, rest []byte, ok bool) {
	w, rest := scan.Word(b)
	if i := bytes.LastIndexByte(w, '/'); i >= 0 {
		if next, _ := scan.Word(rest); bytes.IndexByte(next, '/') >= 0 {
			return peer, b, false
		}
		if !openvpnCommonName(w[:i]) {
			return peer, b, false
		}
		w = w[i+1:]
	}
	w, _ = scan.After(w, "[AF_INET]")
	w, _ = scan.After(w, "[AF_INET6]")
	peer, ok = addrWithPort(w)
	return peer, rest, ok
}

// openvpnCommonName reports whether b is of the letters that OpenVPN leaves in
// the name of a certificate (ssl_verify.c, COMMON_NAME_CHAR_CLASS), but for the
// colon, which other programs' prefixes end with.
func openvpnCommonName(b []byte) bool {
	for _, c := range b {
		if !tagBytes[c] && c != '=' || c == '\\' || c == '+' || c >= 0x80 {
			return false
		}
	}
	return true
}

// addrWithPort reads "a:port"; IPv6 may stand without brackets, as OpenVPN
// prints it.
func addrWithPort(w []byte) (netip.AddrPort, bool) {
	i := bytes.LastIndexByte(w, ':')
	if i < 0 || len(w) > 64 {
		return netip.AddrPort{}, false
	}
	n, rest, ok := scan.Uint(w[i+1:])
	a, ok2 := scan.Addr(w[:i])
	return netip.AddrPortFrom(a, uint16(n)), ok && ok2 && len(rest) == 0 && n <= 65535
}

// openvpnTail reads "from [AF_INET]a:port" at b's end.
func openvpnTail(b []byte) (netip.AddrPort, bool) {
	_, w := scan.LastWord(b)
	w, ok := scan.After(w, "[AF_INET]")
	if !ok {
		w, ok = scan.After(w, "[AF_INET6]")
	}
	if !ok {
		return netip.AddrPort{}, false
	}
	return addrWithPort(w)
}

// openvpnForms are the messages. A reset says nothing by itself: it has no
// address until a failure of the same connection lends it one.
var openvpnForms = []struct {
	text    string
	outcome Outcome
	kind    Kind
	reset   bool
}{
	{"TLS Error: TLS key negotiation failed to occur", Other, Probe, false},
	{"TLS Error: Unroutable control packet", Other, Plain, false},
	{"TLS Error: local/remote TLS keys are out of sync", Other, Plain, false},
	{"TLS Error: ", Failure, Plain, false},
	{"TLS Auth Error: ", Failure, Plain, false},
	{"TLS_ERROR: ", Failure, Plain, false},
	{"VERIFY ERROR: ", Failure, Plain, false},
	{"VERIFY SCRIPT ERROR: ", Failure, Plain, false},
	{"VERIFY X509NAME ERROR: ", Failure, Plain, false},
	{"VERIFY KU ERROR", Failure, Plain, false},
	{"VERIFY EKU ERROR", Failure, Plain, false},
	{"OpenSSL: error:", Failure, Plain, false},
	{"AUTH: Received control message: AUTH_FAILED", Failure, Plain, false},
	{"AUTH_FAILED", Failure, Plain, false},
	{"PLUGIN_CALL: POST ", Other, Plain, false},
	{"Delayed exit in ", Other, Plain, false},
	{"SENT CONTROL [UNDEF]: 'AUTH_FAILED'", Failure, Plain, false},
	{"WARNING: Bad encapsulated packet length from peer", Failure, Forbidden, false},
	{"SIGTERM[soft,port-share-redirect] received", Failure, Forbidden, false},
	{"SIGTERM[soft,auth-failure]", Failure, Plain, false},
	{"SIGUSR1[soft,tls-error] received", Failure, Plain, false},
	{"Authenticate/Decrypt packet error: ", Failure, Plain, false},
	{"tls-crypt unwrap error: ", Failure, Plain, false},
	{"peer info: ", Other, Plain, false},
	{"TCP connection established with ", Other, Plain, false},
	{"Connection reset, restarting", Other, Plain, false},
	{"SIGUSR1[soft,connection-reset] received", Failure, Forbidden, true},
}
