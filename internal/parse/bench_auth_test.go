package parse

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"stoplog/internal/parse/pack"
	"stoplog/internal/source"
)

// benchLines are lines as a busy server writes them, one second after another.
var benchLines = []struct{ name, line string }{
	{"failed", "Nov 20 09:23:10 host sshd[18234]: Failed password for root from 203.0.113.77 port 40312 ssh2"},
	{"invalid", "Nov 20 09:23:11 host sshd[18236]: Invalid user oracle from 203.0.113.78 port 40314"},
	{"unknown", "Nov 20 09:23:12 host sshd[18236]: Failed password for invalid user oracle from 2001:db8:1:2::3 port 40314 ssh2"},
	{"closed", "Nov 20 09:23:13 host sshd[18234]: Connection closed by authenticating user root 203.0.113.77 port 40312 [preauth]"},
	{"pam", "Nov 20 09:23:14 host sshd[18234]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=203.0.113.77  user=root"},
	{"iso", "2026-11-20T09:23:10.123456+00:00 host sshd-session[18234]: Failed password for root from 203.0.113.77 port 40312 ssh2"},
	{"cron", "Nov 20 09:23:15 host CRON[18240]: (root) CMD (command -v debian-sa1 > /dev/null && debian-sa1 1 1)"},
}

func BenchmarkSSHD(b *testing.B) {
	p, err := New(Options{Location: time.FixedZone("CET", 3600)})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).UnixNano()
	for _, c := range benchLines {
		b.Run(c.name, func(b *testing.B) {
			line := source.Line{Text: []byte(c.line)}
			var ev Event
			b.ReportAllocs()
			for b.Loop() {
				p.Parse(&line, now, &ev)
			}
		})
	}
}

// BenchmarkMixed reads different seconds and kinds of lines in turn, with the
// packs, so that nothing is remembered from the line before.
func BenchmarkMixed(b *testing.B) {
	packs, err := pack.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	p, err := New(Options{Location: time.FixedZone("CET", 3600), Packs: packs})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).UnixNano()
	lines := make([]source.Line, 5)
	for i := range lines {
		lines[i].Text = []byte(benchLines[i].line)
	}
	var ev Event
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Parse(&lines[i%5], now, &ev)
	}
}

// BenchmarkLong reads lines stuffed with what scanners look for; the MB/s must
// not fall with the length.
func BenchmarkLong(b *testing.B) {
	heads := []string{
		"Failed password for invalid user @ from 192.0.2.7 port 1 ssh2", "Invalid user @ from 192.0.2.7",
		"Disconnecting invalid user @ 192.0.2.7 port 1: x", "error: PAM: @ for x from 192.0.2.7",
		"pam_unix(sshd:auth): authentication failure; tty=ssh ruser=@ rhost=192.0.2.7 ",
		"reverse mapping checking getaddrinfo for @ [192.0.2.7] failed.",
	}
	for _, n := range []int{4 << 10, 64 << 10} {
		b.Run(strconv.Itoa(n>>10)+"K", func(b *testing.B) {
			stuff := strings.Repeat(" from 1.2.3.4 port 5 port 6: rhost=1 user=a [1] failed for ", n/60)
			p, err := New(Options{})
			if err != nil {
				b.Fatal(err)
			}
			var lines []source.Line
			for _, h := range heads {
				lines = append(lines, source.Line{Text: []byte(sshdHead + strings.ReplaceAll(h, "@", stuff))})
			}
			var ev Event
			b.SetBytes(int64(n))
			for i := 0; b.Loop(); i++ {
				p.Parse(&lines[i%len(lines)], testNow, &ev)
			}
		})
	}
}
