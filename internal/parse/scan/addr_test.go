package scan

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddr(t *testing.T) {
	for _, c := range []struct{ tok, want string }{
		{"192.0.2.1", "192.0.2.1"},
		{"0.0.0.0", "0.0.0.0"},
		{"255.255.255.255", "255.255.255.255"},
		{"[192.0.2.1]", "192.0.2.1"},
		{"2001:db8::1", "2001:db8::1"},
		{"[2001:DB8::A]", "2001:db8::a"},
		{"::", "::"},
		{"::1", "::1"},
		{"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"},
		{"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
		{"64:ff9b::192.0.2.33", "64:ff9b::c000:221"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"::FFFF:c000:201", "192.0.2.1"},
		{"0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1"},
		{"2001:db8::1%eth0.100", "2001:db8::1"},
		{"fe80::1%eth0", ""},
		{"fe80::1", ""},
		{"2001:db8::1%", ""},
		{"2001:db8::1%a b", ""},
		{"192.0.2.1%lo", ""},
		{"192.0.2", ""},
		{"192.0.2.256", ""},
		{"192.0.2.01", ""},
		{"192.0.2.1.", ""},
		{"192.0.2.1.5", ""},
		{"192.0.2.1:22", ""},
		{" 192.0.2.1", ""},
		{"", ""},
		{"1", ""},
		{":1", ""},
		{":::", ""},
		{"1::2::3", ""},
		{"1:2:3:4:5:6:7:8:9", ""},
		{"1:2:3:4:5:6:7:8::", ""},
		{"12345::1", ""},
		{"::192.0.2.1:1", ""},
		{"192.0.2.1::", ""},
		{"host.example", ""},
		{"[2001:db8::1", ""},
		{"face", ""},
		{"1:2:3", ""},
		{"fe80::1:2", ""},
		{"2001:db8::1%eth0%1", ""},
	} {
		got, ok := Addr([]byte(c.tok))
		check(t, "Addr", c.tok, c.want, got, ok)
	}
}

func check(t *testing.T, what, in, want string, got netip.Addr, ok bool) {
	t.Helper()
	if want == "" {
		if ok || got != (netip.Addr{}) {
			t.Errorf("%s(%q) = %v, %v, want none", what, in, got, ok)
		}
		return
	}
	if !ok || got.String() != want {
		t.Errorf("%s(%q) = %v, %v, want %s", what, in, got, ok, want)
	}
}

func TestAddrPort(t *testing.T) {
	for _, c := range []struct{ tok, want string }{
		{"192.0.2.1", "192.0.2.1"},
		{"192.0.2.1:58430", "192.0.2.1"},
		{"192.0.2.1#3074", "192.0.2.1"},
		{"192.0.2.1.50550", "192.0.2.1"},
		{"[2001:db8::1]:443", "2001:db8::1"},
		{"2001:db8::1#53", "2001:db8::1"},
		{"2001:db8::1.50550", "2001:db8::1"},
		{"::ffff:198.51", ""}, // cut short, not a port
		{"2001:db8::1:443", "2001:db8::1:443"},
		{"::ffff:192.0.2.1:22", "192.0.2.1"},
		{"192.0.2.1:65536", ""},
		{"192.0.2.1:", ""},
		{"192.0.2.1/24", ""},
		{"192.0.2.1:22x", ""},
		{"1:2:3:4:5:6:7:8:9", ""},
		{"host:22", ""},
		{":22", ""},
		{"22", ""},
		{"face", ""},
		{"fe80::1.22", ""},
		{"[fe80::1]:22", ""},
		{"2001:db8::1::443", ""},
		{"1:2:3#53", ""},
	} {
		got, ok := AddrPort([]byte(c.tok))
		check(t, "AddrPort", c.tok, c.want, got, ok)
	}
}

func TestAddrPrefix(t *testing.T) {
	for _, c := range []struct{ in, want, rest string }{
		{"192.0.2.1 port 22", "192.0.2.1", " port 22"},
		{"192.0.2.1", "192.0.2.1", ""},
		{"192.0.2.1: x", "192.0.2.1", ": x"},
		{"192.0.2.1:58430 x", "192.0.2.1", ":58430 x"},
		{"192.0.2.1:58430: x", "192.0.2.1", ":58430: x"},
		{"192.0.2.1:58430:x", "", ""},
		{"192.0.2.1:99999", "", ""},
		{"192.0.2.1. End", "192.0.2.1", ". End"},
		{"192.0.2.1, next", "192.0.2.1", ", next"},
		{"192.0.2.1]", "192.0.2.1", "]"},
		{"192.0.2.1.example.com", "", ""},
		{"192.0.2.1-dyn.example", "", ""},
		{"192.0.2.1234", "", ""},
		{"192.0.2.1.5", "", ""},
		{"192.0.2.1_x", "", ""},
		{"2001:db8::1 port", "2001:db8::1", " port"},
		{"2001:db8::1: x", "2001:db8::1", ": x"},
		{"2001:db8::1. x", "2001:db8::1", ". x"},
		{"2001:db8::1%lo not", "2001:db8::1", " not"},
		{"fe80::1%lo not", "", ""},
		{"2001:db8::1x", "", ""},
		{"2001:db8::1]:22", "2001:db8::1", "]:22"},
		{"[2001:db8::1]:22", "2001:db8::1", ":22"},
		{"[192.0.2.1]: x", "192.0.2.1", ": x"},
		{"[192.0.2.1", "", ""},
		{"::ffff:192.0.2.1 x", "192.0.2.1", " x"},
		{"::ffff:192.0.2.1.dyn", "", ""},
		{"", "", ""},
		{"example.com", "", ""},
		{"bad:cafe: x", "", ""},
	} {
		got, rest, ok := AddrPrefix([]byte(c.in))
		check(t, "AddrPrefix", c.in, c.want, got, ok)
		if ok && string(rest) != c.rest {
			t.Errorf("AddrPrefix(%q) leaves %q, want %q", c.in, rest, c.rest)
		}
	}
}

// FuzzAddr compares with the standard library, which is stricter in nothing
// that Addr accepts.
func FuzzAddr(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "2001:db8::1", "::ffff:1.2.3.4", "[::1]", "1::2::3", "2001:db8::1%a", "1.2.3.4:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := Addr([]byte(s))
		host := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
		want, err := netip.ParseAddr(host)
		if ok && (err != nil || want.WithZone("").Unmap() != got) {
			t.Errorf("Addr(%q) = %v, netip says %v, %v", s, got, want, err)
		}
		if !ok && err == nil && len(host) > 1 && !want.Unmap().IsLinkLocalUnicast() && want.Zone() == "" && (host == s || len(s) == len(host)+2) {
			t.Errorf("Addr(%q) refused, netip says %v", s, want)
		}
		withPort, okPort := AddrPort([]byte(s))
		prefix, rest, okPrefix := AddrPrefix([]byte(s))
		for i, a := range []netip.Addr{got, withPort, prefix} {
			if a.IsValid() != []bool{ok, okPort, okPrefix}[i] || a.Is4In6() || a.Zone() != "" || len(rest) > len(s) {
				t.Errorf("%q: Addr %v %v, AddrPort %v %v, AddrPrefix %v %q %v", s, got, ok, withPort, okPort, prefix, rest, okPrefix)
				break
			}
		}
	})
}

func BenchmarkAddr4(b *testing.B) { benchAddr(b, "198.51.100.234") }
func BenchmarkAddr6(b *testing.B) { benchAddr(b, "2001:db8:1234:5678::abcd") }

func benchAddr(b *testing.B, s string) {
	tok := []byte(s)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := Addr(tok); !ok {
			b.Fatal("refused")
		}
	}
}
