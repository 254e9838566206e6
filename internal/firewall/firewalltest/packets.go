//go:build linux

package firewalltest

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

// Long enough for a connection over lo on a busy machine; a dropped one never
// comes, however long it is waited for.
const (
	answered = 5 * time.Second
	silence  = 250 * time.Millisecond
)

// Want is what is to happen to a connection.
type Want int

const (
	Passes Want = iota
	Dropped
	Refused
)

func (w Want) String() string { return [...]string{"passes", "dropped", "refused"}[w] }

// Listen listens on addr and accepts whatever comes, until the test ends.
func Listen(t *testing.T, addr string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// Dial connects from one local address to another and tells what happened.
func Dial(t *testing.T, from string, to netip.AddrPort, w Want) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: answered}
	if w == Dropped {
		d.Timeout = silence
	}
	c, err := d.Dial("tcp", to.String())
	// The kernel may make the IPv6 routes of a new address again, a moment after it
	// made them first.
	for deadline := time.Now().Add(answered); errors.Is(err, syscall.ENETUNREACH) && time.Now().Before(deadline); {
		c, err = d.Dial("tcp", to.String())
	}
	got := Passes
	var ne net.Error
	switch {
	case err == nil:
		c.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		got = Refused
	case errors.As(err, &ne) && ne.Timeout():
		got = Dropped
	default:
		t.Fatalf("%s to %s: %v", from, to, err)
	}
	if got != w {
		t.Errorf("%s to %s: got %s, want %s", from, to, got, w)
	}
}

// AddLocal gives lo the addresses.
func AddLocal(t *testing.T, addrs ...string) {
	t.Helper()
	for _, a := range addrs {
		args := []string{"addr", "add", a, "dev", "lo"}
		if strings.Contains(a, ":") {
			args = append(args, "nodad")
		}
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	for _, a := range addrs {
		awaitRoute(t, a)
	}
}

// awaitRoute waits until an address can be reached: the kernel makes IPv6
// routes of a new address a little later.
func awaitRoute(t *testing.T, addr string) {
	t.Helper()
	host, _, _ := strings.Cut(addr, "/")
	for deadline := time.Now().Add(answered); ; {
		out, err := exec.Command("ip", "route", "get", host).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no route to %s: %s", host, out)
		}
	}
}

// packets proves with connections over lo what the rules do.
func (s suite) packets(t *testing.T) {
	w := wall{t, s.mk(t)}
	AddLocal(t, "198.51.100.1/32", "192.0.2.17/32", "192.0.2.20/32", "192.0.2.33/32", "203.0.113.5/32",
		"2001:db8:ffff::1/128", "2001:db8:1:2::5/128", "2001:db8:1:2::6/128", "2001:db8:1:3::5/128")
	srv, srv6 := Listen(t, "198.51.100.1"), Listen(t, "2001:db8:ffff::1")
	theirs := Listen(t, "192.0.2.17")
	allow := []netip.Prefix{netip.MustParsePrefix("192.0.2.20/32"), netip.MustParsePrefix("2001:db8:1:2::6/128")}
	w.setup(firewall.Policy{Allow: allow})
	Dial(t, "192.0.2.17", srv, Passes)
	Dial(t, "2001:db8:1:2::5", srv6, Passes)
	w.block(s.both(time.Hour)...)
	Dial(t, "192.0.2.17", srv, Dropped)
	Dial(t, "2001:db8:1:2::5", srv6, Dropped)
	Dial(t, "192.0.2.33", srv, Passes)         // a neighbour outside
	Dial(t, "2001:db8:1:3::5", srv6, Passes)   // likewise
	Dial(t, "192.0.2.20", srv, Passes)         // allowed inside
	Dial(t, "2001:db8:1:2::6", srv6, Passes)   // likewise
	Dial(t, "198.51.100.1", theirs, Passes)    // our own connection into it
	w.setup(firewall.Policy{Allow: allow[1:]}) // no longer allowed
	Dial(t, "192.0.2.20", srv, Dropped)
	w.unblock("192.0.2.16/28", "2001:db8:1:2::/64")
	Dial(t, "192.0.2.17", srv, Passes)
	Dial(t, "2001:db8:1:2::5", srv6, Passes)
	s.answers(w, "203.0.113.5", "203.0.113.0/28", "198.51.100.1")
	s.answers(w, "2001:db8:1:3::5", "2001:db8:1:3::/64", "2001:db8:ffff::1")
	s.lockdown(w, srv)
	s.ends(w, srv)
}

// answers tries reject, slow, and ports.
func (s suite) answers(w wall, from, prefix, to string) {
	srv := Listen(w.t, to)
	e := Entry(prefix, time.Hour)
	if !s.caps.NoReject {
		e.Action = firewall.Reject
		w.block(e)
		Dial(w.t, from, srv, Refused)
	}
	if !s.caps.NoSlow {
		e.Action = firewall.Slow
		w.block(e)
		for range 3 { // Options.Slow's default
			Dial(w.t, from, srv, Passes)
		}
		Dial(w.t, from, srv, Dropped)
	}
	if !s.caps.NoPorts {
		for _, proto := range []string{"tcp", ""} {
			e.Action, e.Ports = firewall.Drop, []firewall.Ports{{Proto: proto, From: srv.Port(), To: srv.Port()}}
			w.block(e)
			Dial(w.t, from, srv, Dropped)
			Dial(w.t, from, Listen(w.t, to), Passes)
		}
		e.Ports[0].Proto = "udp"
		w.block(e)
		Dial(w.t, from, srv, Passes)
	}
	w.unblock(prefix)
	Dial(w.t, from, srv, Passes)
}

// lockdown refuses all but the allowed and the known.
func (s suite) lockdown(w wall, srv netip.AddrPort) {
	p := firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.20/32")}}
	p.Lockdown.Until = time.Now().Add(time.Hour)
	p.Lockdown.Ports = []firewall.Ports{{Proto: "tcp", From: srv.Port(), To: srv.Port()}}
	p.Lockdown.Known = []netip.Addr{netip.MustParseAddr("192.0.2.33")}
	w.setup(p)
	Dial(w.t, "203.0.113.5", srv, Dropped)
	Dial(w.t, "192.0.2.20", srv, Passes)
	Dial(w.t, "192.0.2.33", srv, Passes)
	Dial(w.t, "203.0.113.5", Listen(w.t, "198.51.100.1"), Passes)
	p.Lockdown.Until = time.Now().Add(2 * time.Second)
	w.setup(p)
	Dial(w.t, "203.0.113.5", srv, Dropped)
	Dial(w.t, "203.0.113.5", srv, Passes) // the kernel has ended it; the SYN is sent again
	w.setup(firewall.Policy{})
	Dial(w.t, "203.0.113.5", srv, Passes)
}

// ends waits for the kernel to lift a block by itself.
func (s suite) ends(w wall, srv netip.AddrPort) {
	w.block(Entry("203.0.113.0/28", 3*time.Second))
	Dial(w.t, "203.0.113.5", srv, Dropped)
	Dial(w.t, "203.0.113.5", srv, Passes) // its SYN is sent again after 1 and 3 seconds
	w.holds()
}

// Output runs a program and returns what it prints.
func Output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("%v: %v: %s", argv, err, failed.Stderr)
	} else if err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
	return string(out)
}
