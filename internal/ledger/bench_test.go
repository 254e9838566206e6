package ledger

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/detect"
)

func addrOf(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(20 + n>>24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// filled is a ledger of n blocks, with the usual allowlist and some logins.
func filled(tb testing.TB, dir string, n int) *Ledger {
	tb.Helper()
	var allow []netip.Prefix
	for _, s := range []string{"127.0.0.0/8", "10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "198.51.100.7/32", "::1/128", "fe80::/10", "2001:db8:1::/48"} {
		allow = append(allow, netip.MustParsePrefix(s))
	}
	l, _, err := Open(dir, epoch, Options{Allow: allow})
	if err != nil {
		tb.Fatal(err)
	}
	l.RecoveryDone(epoch)
	for i := range uint32(n) {
		p := netip.PrefixFrom(addrOf(1<<30+i*16), 28)
		l.Breach(&detect.Breach{At: epoch.UnixNano(), Rule: "ssh-login", Key: p.String(), Prefix: p, Addr: p.Addr(), Count: 6,
			TTL: time.Hour, Service: "sshd", Source: "/var/log/auth.log", Line: int64(i),
			Evidence: []string{"Nov 20 09:00:00 host sshd[4711]: Failed password for root from 192.0.2.1 port 40022 ssh2"}}, epoch)
	}
	for i := range uint32(100) {
		l.Login("sshd", []byte("alice"), addrOf(0xc6336400+i), epoch.UnixNano(), true)
	}
	return l
}

func BenchmarkVerdict(b *testing.B) {
	for _, n := range []int{0, 100, 100_000} {
		b.Run(fmt.Sprint("blocks=", n), func(b *testing.B) {
			l := filled(b, "", n)
			user := []byte("root")
			b.ReportAllocs()
			i := uint32(0)
			for b.Loop() {
				i++
				l.Verdict(addrOf(1<<30+i*64), "sshd", user, epoch.UnixNano())
			}
		})
	}
}

func BenchmarkSave(b *testing.B) {
	l := filled(b, b.TempDir(), 100_000)
	for b.Loop() {
		if err := l.Save(epoch, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	l := filled(b, dir, 100_000)
	if err := l.Save(epoch, nil); err != nil {
		b.Fatal(err)
	}
	l.Close()
	for b.Loop() {
		l, _, err := Open(dir, epoch, Options{})
		if err != nil || l.blocks.len() != 100_000 {
			b.Fatal(err, l.blocks.len())
		}
		l.Close()
	}
}

func BenchmarkOpenJournal(b *testing.B) {
	dir := b.TempDir()
	filled(b, dir, 20_000).Close()
	for b.Loop() {
		l, rec, err := Open(dir, epoch, Options{})
		if err != nil || rec.Pending != 20_000 {
			b.Fatal(err, rec.Pending)
		}
		l.Close()
	}
}

func BenchmarkBreach(b *testing.B) {
	l := filled(b, b.TempDir(), 0)
	b.ReportAllocs()
	i := uint32(0)
	for b.Loop() {
		i++
		p := netip.PrefixFrom(addrOf(1<<30+i*16), 28)
		l.Breach(&detect.Breach{At: epoch.UnixNano(), Rule: "ssh-login", Key: p.String(), Prefix: p, Addr: p.Addr(), Count: 6, TTL: time.Hour}, epoch)
	}
}
