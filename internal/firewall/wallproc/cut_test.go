package wallproc_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/wallproc"
)

// pair opens a connection from one local address to a listener.
func pair(t *testing.T, l net.Listener, from string) (client, server net.Conn) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	to := l.Addr().(*net.TCPAddr)
	if to.IP.IsUnspecified() {
		to = &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: to.Port}
	}
	client, err := d.Dial("tcp", to.String())
	// A namespace that is a moment old may not route IPv6 over lo yet, though
	// the route is there: on a loaded machine this was seen.
	for deadline := time.Now().Add(10 * time.Second); errors.Is(err, syscall.ENETUNREACH) && time.Now().Before(deadline); {
		client, err = d.Dial("tcp", to.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestCutConnections(t *testing.T) {
	firewalltest.Namespace(t)
	firewalltest.AddLocal(t, "192.0.2.17/32", "192.0.2.18/32", "192.0.2.33/32", "198.51.100.1/32", "2001:db8::17/128", "2001:db8:1::1/128")
	listen := func(network, addr string) net.Listener {
		l, err := net.Listen(network, net.JoinHostPort(addr, "0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	srv, srv6, both, theirs := listen("tcp", "198.51.100.1"), listen("tcp", "2001:db8:1::1"), listen("tcp", ""), listen("tcp", "192.0.2.17")
	cases := []struct {
		name string
		l    net.Listener
		from string
		cut  bool
	}{
		{"blocked", srv, "192.0.2.17", true},
		{"blocked, IPv6", srv6, "2001:db8::17", true},
		{"blocked, mapped", both, "192.0.2.17", true},
		{"allowed inside", srv, "192.0.2.18", false},
		{"outside", srv, "192.0.2.33", false},
		{"ours, into it", theirs, "198.51.100.1", false},
	}
	conns := make([]net.Conn, len(cases))
	for i, tc := range cases {
		client, server := pair(t, tc.l, tc.from)
		conns[i] = server
		if tc.name == "ours, into it" {
			conns[i] = client
		}
	}
	// The other half of a connection within one machine looks like one that
	// came in when its own port is listened on, which no client's is.
	e := func(p string) firewall.Entry {
		x := firewalltest.Entry(p, time.Hour)
		x.Cut = true
		return x
	}
	es := []firewall.Entry{e("192.0.2.16/28"), e("2001:db8::/64")}
	for _, ports := range [][]firewall.Ports{{{Proto: "udp", From: 1, To: 65535}}, {{Proto: "tcp", From: 1, To: 1}}} {
		es[0].Ports, es[1].Ports = ports, ports
		if n, err := wallproc.CutConnections(t.Context(), es, nil); n != 0 || err != nil {
			t.Errorf("other ports: got %d, %v, want none", n, err)
		}
	}
	es[0].Ports, es[1].Ports = nil, nil
	n, err := wallproc.CutConnections(t.Context(), es, []netip.Prefix{netip.MustParsePrefix("192.0.2.18/32")})
	if err != nil || n != 3 {
		t.Errorf("got %d, %v, want 3", n, err)
	}
	for i, tc := range cases {
		if err := conns[i].SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := conns[i].Read(make([]byte, 1))
		var ne net.Error
		alive := errors.As(err, &ne) && ne.Timeout()
		dead := errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
		if dead != tc.cut || alive == tc.cut {
			t.Errorf("%s: got %v, want cut %v", tc.name, err, tc.cut)
		}
	}
	es[0].Cut, es[1].Cut = false, false
	if n, err := wallproc.CutConnections(t.Context(), es, nil); n != 0 || err != nil {
		t.Errorf("not asked to cut: got %d, %v", n, err)
	}
}
