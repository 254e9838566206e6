package protect

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, root, name string, b []byte) {
	t.Helper()
	p := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// record makes one utmp record.
func record(typ int16, pid int32, addr netip.Addr) []byte {
	b := make([]byte, utmpSize)
	binary.NativeEndian.PutUint16(b, uint16(typ))
	binary.NativeEndian.PutUint32(b[utmpPID:], uint32(pid))
	copy(b[utmpAddr:], addr.AsSlice())
	return b
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	a := netip.MustParseAddr
	var utmp []byte
	utmp = append(utmp, record(userProcess, 10, a("192.0.2.10"))...)
	utmp = append(utmp, record(userProcess, 11, a("192.0.2.11"))...) // dead
	utmp = append(utmp, record(6, 10, a("192.0.2.12"))...)           // LOGIN_PROCESS: not yet in
	utmp = append(utmp, record(userProcess, 10, a("2001:db8::10"))...)
	utmp = append(utmp, record(userProcess, 10, a("0.0.0.0"))...) // a console
	utmp = append(utmp, make([]byte, 100)...)                     // a torn record
	write(t, root, "run/utmp", utmp)
	write(t, root, "run/systemd/sessions/4", []byte("UID=0\nACTIVE=1\nSTATE=active\nREMOTE=1\nREMOTE_HOST=198.51.100.4\n"))
	write(t, root, "run/systemd/sessions/5", []byte("STATE=closing\nACTIVE=0\nREMOTE=1\nREMOTE_HOST=198.51.100.5\n"))
	write(t, root, "run/systemd/sessions/6", []byte("STATE=active\nREMOTE=0\nREMOTE_HOST=198.51.100.6\n"))
	write(t, root, "run/systemd/sessions/7", []byte("STATE=active\nREMOTE=1\nREMOTE_HOST=host.example\n"))
	write(t, root, "etc/resolv.conf", []byte("# nameserver 9.9.9.9\nsearch x\nnameserver 192.0.2.53\nnameserver fe80::53%eth0\n"))
	write(t, root, "proc/net/ipv6_route", []byte("00000000000000000000000000000000 00 00000000000000000000000000000000 00 20010db8000000000000000000000001 00000400 1 0 3 eth0\n"))
	f := Finder{Root: root,
		Interfaces: func() ([]net.Addr, error) {
			return []net.Addr{&net.IPNet{IP: net.IPv4(203, 0, 113, 1), Mask: net.CIDRMask(24, 32)}}, nil
		},
		Alive: func(pid int32) bool { return pid == 10 },
	}
	got := map[string]string{}
	for _, x := range f.Find(true, true) {
		got[x.Addr.String()] = x.Why
	}
	want := map[string]string{
		"127.0.0.1": "own", "::1": "own", "203.0.113.1": "own",
		"192.0.2.53": "resolver", "fe80::53": "resolver", "2001:db8::1": "gateway",
		"192.0.2.10": "ssh peer", "2001:db8::10": "ssh peer", "198.51.100.4": "ssh peer",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
	for k, v := range got {
		if want[k] == "" {
			t.Errorf("%s is protected as %s and should not be", k, v)
		}
	}
	if n := len(f.Find(false, true)); n != 3 {
		t.Errorf("peers alone: %d addresses, want 3", n)
	}
}

func TestGateway4(t *testing.T) {
	root := t.TempDir()
	// 0102A8C0 is 192.168.2.1 as a little-endian machine prints it.
	want := netip.AddrFrom4(hostOrder([4]byte{0x01, 0x02, 0xa8, 0xc0}))
	write(t, root, "proc/net/route", []byte("Iface\tDestination\tGateway \tFlags\neth0\t00000000\t0102A8C0\t0003\neth0\t0002A8C0\t00000000\t0001\n"))
	got := Finder{Root: root}.gateways4()
	if len(got) != 1 || got[0].Addr != want {
		t.Errorf("gateways = %v, want %v", got, want)
	}
}

func TestNothingThere(t *testing.T) {
	f := Finder{Root: t.TempDir(), Interfaces: func() ([]net.Addr, error) { return nil, os.ErrPermission }}
	if got := f.Find(true, true); len(got) != 0 {
		t.Errorf("on an empty system: %v", got)
	}
}

// The running machine must at least know itself.
func TestRealSystem(t *testing.T) {
	got := Finder{}.Find(true, true)
	for _, a := range got {
		if a.Addr == netip.IPv6Loopback() {
			return
		}
	}
	t.Errorf("::1 is not among %v", got)
}

func FuzzSession(f *testing.F) {
	f.Add([]byte("STATE=active\nREMOTE=1\nREMOTE_HOST=192.0.2.1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, ok := sessionPeer(b); ok && !a.IsValid() {
			t.Error("an invalid address was accepted")
		}
	})
}

func TestPrefixOfLoopbackIsAllOfIt(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1": "127.0.0.0/8", "127.0.0.53": "127.0.0.0/8", "128.0.0.1": "128.0.0.1/32", "::1": "::1/128", "2001:db8::1": "2001:db8::1/128",
	} {
		if got := (Addr{Addr: netip.MustParseAddr(addr)}).Prefix().String(); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
}
