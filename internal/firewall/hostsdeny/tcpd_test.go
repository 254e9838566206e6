package hostsdeny_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/hostsdeny"
)

// TestHostsDenyJudged lets tcpdmatch of Debian's tcpd say what our lines mean.
// It reads hosts.allow and hosts.deny of its working directory with -d.
func TestHostsDenyJudged(t *testing.T) {
	firewalltest.NeedPrograms(t, "tcpdmatch")
	dir := t.TempDir()
	t.Chdir(dir)
	for _, f := range []string{"hosts.allow", "hosts.deny"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("# none\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := firewalltest.Must(hostsdeny.New(firewall.Options{HostsDeny: filepath.Join(dir, "hosts.deny")}))(t)
	p := firewall.Policy{}
	for _, a := range []string{"192.0.2.5/32", "192.0.2.8/30", "2001:db8::7/128"} {
		p.Allow = append(p.Allow, netip.MustParsePrefix(a))
	}
	for i := range 130 { // more than one line holds
		a := netip.AddrFrom4([4]byte{198, 18, byte(i), 7})
		p.Allow = append(p.Allow, netip.PrefixFrom(a, 32))
	}
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	var es []firewall.Entry
	for _, s := range []string{"192.0.2.0/28", "203.0.113.7/32", "2001:db8::/64", "2001:db8:1::1/128", "198.18.0.0/16"} {
		es = append(es, firewalltest.Entry(s, time.Hour))
	}
	if err := w.Block(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	judge := func(addr, want string) {
		t.Helper()
		out := firewalltest.Output(t, "tcpdmatch", "-d", "sshd", addr)
		got := "granted"
		if strings.Contains(out, "denied") {
			got = "denied"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s\n%s", addr, got, want, out)
		}
	}
	judge("192.0.2.1", "denied")
	judge("192.0.2.15", "denied")
	judge("192.0.2.16", "granted")
	judge("192.0.2.5", "granted")
	judge("192.0.2.9", "granted")
	judge("192.0.2.12", "denied")
	judge("203.0.113.7", "denied")
	judge("203.0.113.8", "granted")
	judge("198.18.3.8", "denied")
	judge("198.18.3.7", "granted")
	judge("198.18.129.7", "granted")
	judge("2001:db8::1", "denied")
	judge("2001:db8::7", "granted")
	judge("2001:db8:0:1::1", "granted")
	judge("2001:db8:1::1", "denied")
	if err := w.Unblock(t.Context(), []netip.Prefix{es[0].Prefix}); err != nil {
		t.Fatal(err)
	}
	judge("192.0.2.1", "granted")
}
