package session

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"stoplog/internal/parse"
	"stoplog/internal/parse/pack"
	"stoplog/internal/source"
	"strings"
	"testing"
	"time"
)

// captured is when the lines of ../parse/testdata/daemons were written.
var captured = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano()

var update = flag.Bool("update-daemons", false, "write the events of ../parse/testdata/daemons again")

func daemonParser(tb testing.TB, service string) *parse.Parser {
	tb.Helper()
	packs, err := pack.Builtin()
	if err != nil {
		tb.Fatal(err)
	}
	p, err := parse.New(parse.Options{Service: service, Packs: packs, Sniff: true})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// parseOne reads one line as if it stood alone.
func parseOne(tb testing.TB, p *parse.Parser, line string) (parse.Event, bool) {
	tb.Helper()
	var ev parse.Event
	ok := p.Parse(&source.Line{Text: []byte(line)}, captured, &ev)
	return ev, ok
}

// say prints what matters of an event.
func sayEvent(ev *parse.Event, ok bool) string {
	if !ok {
		return "-"
	}
	addr := "-"
	if ev.Addr.IsValid() {
		addr = ev.Addr.String()
	}
	return fmt.Sprintf("%s %s %s kind=%s user=%q count=%d", ev.Service, ev.Outcome, addr, ev.Kind, ev.User, ev.Count)
}

func diffLines(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, b := "", ""
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Errorf("line %d: got %s, want %s", i+1, a, b)
		}
	}
}

// TestCapturedDaemons reads what hack/capture/daemons.sh captured from real
// daemons, lines joined, and compares with the events that were checked by
// hand. The client was 198.51.100.7, 198.51.100.66, 192.0.2.10 or 2001:db8::7;
// 192.0.2.98 and .99 only ever stand in hostile text.
func TestCapturedDaemons(t *testing.T) {
	files, err := filepath.Glob("../parse/testdata/daemons/*.log")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captured logs: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got := capturedEvents(t, file)
			want := strings.TrimSuffix(file, ".log") + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			b, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			diffLines(t, got, string(b))
		})
	}
}

func capturedEvents(t *testing.T, file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, s := daemonParser(t, ""), New(100)
	origin := &source.Origin{Name: file}
	var out strings.Builder
	for i, line := range bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) {
		ev, ok := parseOne(t, p, string(line))
		if ok {
			s.Join(&ev, origin)
		}
		if a := ev.Addr.String(); a == "192.0.2.99" || a == "192.0.2.98" {
			t.Errorf("line %d blames %s, which stands in the client's text: %s", i+1, a, line)
		}
		if bytes.Contains(line, []byte("pam_unix(")) {
			continue // joined, but PAM's own tests say what it is
		}
		fmt.Fprintf(&out, "%d %s\n", i+1, sayEvent(&ev, ok))
	}
	return out.String()
}

// TestDaemonSessions joins the lines of one connection.
func TestDaemonSessions(t *testing.T) {
	const at = "Nov 20 10:31:48 mx "
	tests := []struct {
		name  string
		lines []string
		want  string // of the last line
	}{
		{"slapd", []string{
			at + "slapd[9]: conn=1022 fd=21 ACCEPT from IP=192.0.2.1:45011 (IP=0.0.0.0:636)",
			at + `slapd[9]: conn=1022 op=1 BIND dn="uid=u,dc=example" method=128`,
			at + "slapd[9]: conn=1022 op=1 RESULT tag=97 err=49 text=",
		}, `slapd failure 192.0.2.1 kind= user="uid=u,dc=example" count=1`},
		{"slapd, another process", []string{
			at + "slapd[9]: conn=1022 fd=21 ACCEPT from IP=192.0.2.1:45011 (IP=0.0.0.0:636)",
			at + "slapd[10]: conn=1022 op=1 RESULT tag=97 err=49 text=",
		}, `slapd failure - kind= user="" count=0`},
		{"opensmtpd", []string{
			at + "smtpd[9]: 88166f7f21c951f4 smtp connected address=192.0.2.1 host=<unknown>",
			at + "smtpd[9]: 88166f7f21c951f4 smtp authentication user=u result=permfail",
			at + `smtpd[9]: 88166f7f21c951f4 smtp failed-command command="AUTH PLAIN" result="535 Authentication failed"`,
		}, `opensmtpd failure 192.0.2.1 kind= user="" count=0`},
		{"mongodb", []string{
			"2016-11-20T12:54:02.370+0100 [initandlisten] connection accepted from 192.0.2.1:58774 #2261 (1 connection now open)",
			"2016-11-20T12:54:02.470+0100 [conn2261] Failed to authenticate u@admin with mechanism MONGODB-CR: AuthenticationFailed key mismatch",
		}, `mongodb failure 192.0.2.1 kind= user="u@admin" count=1`},
		{"charon", []string{
			at + "charon: 05[NET] <84> received packet: from 192.0.2.1[28808] to 192.0.2.2[4500] (144 bytes)",
			at + "charon: 06[IKE] <con1|84> EAP-MS-CHAPv2 verification failed, retry (1)",
		}, `charon failure 192.0.2.1 kind= user="" count=1`},
		{"openvpn, a reset after rubbish", []string{
			at + "ovpn-s[9]: 192.0.2.1:4711 WARNING: Bad encapsulated packet length from peer (5635), which must be > 0 and <= 1626",
			at + "ovpn-s[9]: 192.0.2.1:4711 SIGUSR1[soft,connection-reset] received, client-instance restarting",
		}, `openvpn failure 192.0.2.1 kind=forbidden user="" count=0`},
		{"openvpn, a reset alone", []string{
			at + "ovpn-s[9]: 192.0.2.1:4711 SIGUSR1[soft,connection-reset] received, client-instance restarting",
		}, `openvpn failure - kind=forbidden user="" count=0`},
		{"postgres", []string{
			"2026-11-20 10:31:48.428 UTC [77] [unknown]@[unknown] LOG:  connection received: host=192.0.2.1 port=1",
			`2026-11-20 10:31:48.428 UTC [77] u@d FATAL:  password authentication failed for user "u"`,
		}, `postgres failure 192.0.2.1 kind= user="u" count=1`},
		{"dovecot, auth and login process", []string{
			at + "dovecot: auth: passwd-file(u,192.0.2.1,<abc>): Password mismatch",
			at + "dovecot: imap-login: Disconnected (auth failed, 2 attempts in 4 secs): user=<u>, method=PLAIN, rip=192.0.2.1, lip=192.0.2.2, session=<abc>",
		}, `dovecot failure 192.0.2.1 kind= user="u" count=1`},
		{"postfix, the next connection of the process", []string{
			at + "postfix/smtpd[9]: connect from a.example[192.0.2.1]",
			at + "postfix/smtpd[9]: warning: a.example[192.0.2.1]: SASL LOGIN authentication failed: x",
			at + "postfix/smtpd[9]: disconnect from a.example[192.0.2.1] ehlo=1 auth=0/1 commands=1/2",
			at + "postfix/smtpd[9]: connect from a.example[192.0.2.1]",
			at + "postfix/smtpd[9]: warning: a.example[192.0.2.1]: SASL LOGIN authentication failed: x",
		}, `postfix failure 192.0.2.1 kind= user="" count=1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, s, origin := daemonParser(t, ""), New(10), &source.Origin{Name: "x"}
			var ev parse.Event
			ok := false
			for _, l := range tt.lines {
				if ev, ok = parseOne(t, p, l); ok {
					s.Join(&ev, origin)
				}
			}
			if got := sayEvent(&ev, ok); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
