package parse

import (
	"testing"

	"stoplog/internal/parse/pack"
	"stoplog/internal/source"
)

// BenchmarkDaemons reads one line of each of the busiest families, from its
// envelope to its event.
func BenchmarkDaemons(b *testing.B) {
	packs, err := pack.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct{ name, line string }{
		{"postfix", "Nov 20 10:31:23 mx postfix/smtpd[149]: warning: unknown[198.51.100.7]: SASL LOGIN authentication failed: (reason unavailable), sasl_username=admin"},
		{"postfix-reject", "Nov 20 10:31:48 mx postfix/smtpd[177]: NOQUEUE: reject: RCPT from unknown[198.51.100.7]: 504 5.5.2 <localname>: Helo command rejected: need fully-qualified hostname; from=<a@example.net> to=<imapuser@example.org> proto=ESMTP helo=<localname>"},
		{"dovecot-login", "Nov 20 10:32:02 mx dovecot: imap-login: Disconnected: Connection closed (auth failed, 2 attempts in 4 secs): user=<imapuser>, method=PLAIN, rip=198.51.100.7, lip=192.0.2.10, session=<CEH6wLJgH57GM2QH>"},
		{"dovecot-auth", "Nov 20 10:31:58 mx dovecot: auth: passwd-file(admin,198.51.100.7,<CEH6wLJgH57GM2QH>): unknown user"},
		{"exim", "2026-11-20 10:27:38 [48] login_server authenticator failed for (a.example) [198.51.100.7]:35983 I=[192.0.2.10]:25: 535 Incorrect authentication data (set_id=admin)"},
		{"vsftpd", `Fri Nov 20 10:23:48 2026 [pid 55] [ftpuser] FAIL LOGIN: Client "198.51.100.7"`},
		{"mysql", "2026-11-20 10:32:32 4 [Warning] Access denied for user 'root'@'192.0.2.10' (using password: YES)"},
		{"postgres", `198.51.100.7 2026-11-20 10:25:03.620 UTC [284] app@postgres FATAL:  password authentication failed for user "app"`},
		{"named", "20-Nov-2026 10:24:20.087 security: info: client @0x7fd265966c98 198.51.100.7#41153 (example.com): query (cache) 'example.com/ANY/IN' denied (allow-query-cache did not match)"},
		{"unknown-bare", "2026-11-20 10:24:20,087 INFO  [main] o.e.App - Started the worker 7 of the pool for project alpha in 3.25 seconds"},
		{"unknown-text", "the quick brown fox jumps over the lazy dog and says something about the weather in spring"},
		{"unknown", "Nov 20 10:31:23 mx postfix/qmgr[149]: 4QfV7x3Gz5z9rxG: from=<a@example.net>, size=1234, nrcpt=1 (queue active)"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p := daemonParser(b, "")
			p.opt.Packs = packs
			line := source.Line{Text: []byte(bb.line)}
			var ev Event
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.line)))
			for b.Loop() {
				p.Parse(&line, captured, &ev)
			}
		})
	}
}

// BenchmarkDaemonsLong shows that a line as long as the limit costs its length
// and no more: the text would end an identity at each byte.
func BenchmarkDaemonsLong(b *testing.B) {
	for _, n := range []int{1 << 12, 1 << 14, 1 << 16} {
		b.Run(sizeName(n), func(b *testing.B) {
			text := []byte("Nov 20 10:31:58 mx dovecot: auth: passwd-file(")
			for len(text) < n {
				text = append(text, "a,b): unknown user"...)
			}
			p := daemonParser(b, "")
			line := source.Line{Text: text}
			var ev Event
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				p.Parse(&line, captured, &ev)
			}
		})
	}
}

func sizeName(n int) string { return map[int]string{1 << 12: "4K", 1 << 14: "16K", 1 << 16: "64K"}[n] }

// TestDaemonsAllocateNothing reads a line of each family; packs may allocate.
func TestDaemonsAllocateNothing(t *testing.T) {
	for _, list := range [][]hostileDaemon{hostileMail, hostileStores, hostileNet} {
		for i := range list {
			if familyOf([]byte(list[i].service)) == "" {
				continue
			}
			line := source.Line{Text: []byte(list[i].with("user"))}
			p := daemonParser(t, "")
			var ev Event
			if n := testing.AllocsPerRun(20, func() { p.Parse(&line, captured, &ev) }); n != 0 {
				t.Errorf("%s\n allocates %v times", line.Text, n)
			}
		}
	}
}
