package network

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// openvpn reads OpenVPN's server log (src/openvpn/ssl.c, ssl_verify.c, mtcp.c,
// options of log_suffix): "a:port TLS Error: …", "name/a:port …", or a message
// that ends with "[AF_INET]a:port". Several lines tell of one handshake, so
// each text has a class of its own.
func openvpn(env *event.Message, msg []byte, ev *event.Event) bool {
	if _, in, ok := scan.Cut(msg, "] OUT: '"); ok { // Access Server wraps it
		msg, _ = scan.Before(in, "'")
	}
	if ns, rest, ok := scan.Stamp(msg, env.Ref, env.Loc); ok {
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
		case ok && named && tail != peer && f.outcome != event.Success:
			return false
		case !ok && !named:
			return false
		case !ok:
			peer = tail
		}
		ev.Set("openvpn", f.outcome, f.kind, peer.Addr())
		if f.reset {
			ev.Addr = netip.Addr{}
		}
		if f.outcome == event.Failure {
			ev.Conn, ev.Class = event.ConnFrom("openvpn", nil, peer.Addr())^uint64(peer.Port())<<1, uint8(i+1)
		}
		return true
	}
	if name, rest, named := openvpnName(m); ok && named {
		if _, ok := scan.After(rest, "Peer Connection Initiated with "); ok {
			ev.Set("openvpn", event.Success, event.Plain, peer.Addr())
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
		if !scan.TagByte(c) && c != '=' || c == '\\' || c == '+' || c >= 0x80 {
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
	outcome event.Outcome
	kind    event.Kind
	reset   bool
}{
	{"TLS Error: TLS key negotiation failed to occur", event.Other, event.Probe, false},
	{"TLS Error: Unroutable control packet", event.Other, event.Plain, false},
	{"TLS Error: local/remote TLS keys are out of sync", event.Other, event.Plain, false},
	{"TLS Error: ", event.Failure, event.Plain, false},
	{"TLS Auth Error: ", event.Failure, event.Plain, false},
	{"TLS_ERROR: ", event.Failure, event.Plain, false},
	{"VERIFY ERROR: ", event.Failure, event.Plain, false},
	{"VERIFY SCRIPT ERROR: ", event.Failure, event.Plain, false},
	{"VERIFY X509NAME ERROR: ", event.Failure, event.Plain, false},
	{"VERIFY KU ERROR", event.Failure, event.Plain, false},
	{"VERIFY EKU ERROR", event.Failure, event.Plain, false},
	{"OpenSSL: error:", event.Failure, event.Plain, false},
	{"AUTH: Received control message: AUTH_FAILED", event.Failure, event.Plain, false},
	{"AUTH_FAILED", event.Failure, event.Plain, false},
	{"PLUGIN_CALL: POST ", event.Other, event.Plain, false},
	{"Delayed exit in ", event.Other, event.Plain, false},
	{"SENT CONTROL [UNDEF]: 'AUTH_FAILED'", event.Failure, event.Plain, false},
	{"WARNING: Bad encapsulated packet length from peer", event.Failure, event.Forbidden, false},
	{"SIGTERM[soft,port-share-redirect] received", event.Failure, event.Forbidden, false},
	{"SIGTERM[soft,auth-failure]", event.Failure, event.Plain, false},
	{"SIGUSR1[soft,tls-error] received", event.Failure, event.Plain, false},
	{"Authenticate/Decrypt packet error: ", event.Failure, event.Plain, false},
	{"tls-crypt unwrap error: ", event.Failure, event.Plain, false},
	{"peer info: ", event.Other, event.Plain, false},
	{"TCP connection established with ", event.Other, event.Plain, false},
	{"Connection reset, restarting", event.Other, event.Plain, false},
	{"SIGUSR1[soft,connection-reset] received", event.Failure, event.Forbidden, true},
}
