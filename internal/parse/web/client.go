package web

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// ClientOptions tell who the client of a request behind proxies is. The zero
// value takes the peer, as the server logged it.
type ClientOptions struct {
	// Header names the logged field that the proxies tell the client in, in any
	// case: x-forwarded-for, forwarded (RFC 7239), cf-connecting-ip, x-real-ip,
	// proxy-protocol… Every header may be a list, nearest proxy last.
	Header string
	// Trusted are the proxies whose header is believed. They are never blamed.
	Trusted []netip.Prefix
}

// maxHops bounds how many entries of a header are looked at.
const maxHops = 32

// Client returns who sent a request that peer delivered with header: peer
// itself unless it is a trusted proxy; else the first address from the right
// of header that is not one. It reports false when there is none, or when an
// entry on the way to it is no address: a trusted proxy is never blamed, and
// what stands left of an unreadable entry was written by nobody we know.
func (o *ClientOptions) Client(peer netip.Addr, header []byte) (netip.Addr, bool) {
	if !peer.IsValid() || len(o.Trusted) == 0 || !o.trusts(peer) {
		return peer, peer.IsValid()
	}
	if o.Header == "" {
		return netip.Addr{}, false
	}
	forwarded := foldEqual(o.Header, "forwarded")
	for range maxHops {
		left, hop, more := lastHop(header)
		a, ok := hopAddr(hop, forwarded)
		if !ok {
			return netip.Addr{}, false
		}
		if !o.trusts(a) {
			return a, true
		}
		if !more {
			break
		}
		header = left
	}
	return netip.Addr{}, false
}

func (o *ClientOptions) trusts(a netip.Addr) bool {
	for _, p := range o.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// set replaces the peer in ev by its client.
func (o *ClientOptions) set(ev *event.Event, header []byte) {
	if len(o.Trusted) > 0 {
		if a, ok := o.Client(ev.Addr, header); ok {
			ev.Addr = a
		} else {
			ev.Addr = netip.Addr{}
		}
	}
}

// lastHop splits off the entry behind the last comma. A quoted string is not
// looked into: what a proxy appended stands right of whatever quotes the client
// sent, and no address holds a comma.
func lastHop(h []byte) (left, hop []byte, more bool) {
	if i := bytes.LastIndexByte(h, ','); i >= 0 {
		return h[:i], scan.Trim(h[i+1:]), true
	}
	return nil, scan.Trim(h), false
}

func hopAddr(hop []byte, forwarded bool) (netip.Addr, bool) {
	if forwarded {
		var ok bool
		if hop, ok = forParam(hop); !ok {
			return netip.Addr{}, false
		}
	}
	return scan.AddrPort(unquoteHop(hop))
}

// forParam returns the value of the one "for" of a forwarded-element (RFC
// 7239, section 4). Two are refused.
func forParam(hop []byte) (value []byte, ok bool) {
	for len(hop) > 0 {
		var pair []byte
		if i := bytes.IndexByte(hop, ';'); i >= 0 {
			pair, hop = hop[:i], hop[i+1:]
		} else {
			pair, hop = hop, nil
		}
		pair = scan.Trim(pair)
		if len(pair) < 4 || pair[3] != '=' || !scan.FoldEqual(pair[:3], "for") {
			continue
		}
		if ok {
			return nil, false
		}
		value, ok = pair[4:], true
	}
	return value, ok
}

// unquoteHop drops the quotes around a node as servers log them: plain, \" as
// Apache escapes them, \x22 as nginx does.
func unquoteHop(b []byte) []byte {
	for _, q := range [...]string{`"`, `\"`, `\x22`} {
		if in, ok := scan.After(b, q); ok {
			if in, ok = scan.Before(in, q); ok {
				return in
			}
		}
	}
	return b
}

func foldEqual(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c-'A' <= 25 {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
