package parse

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stoplog/internal/parse/pack"
	"stoplog/internal/source"
)

// captured is when the lines of testdata/daemons were written.
var captured = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano()

func daemonParser(tb testing.TB, service string) *Parser {
	tb.Helper()
	packs, err := pack.Builtin()
	if err != nil {
		tb.Fatal(err)
	}
	p, err := New(Options{Service: service, Packs: packs, Sniff: true})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// parseOne reads one line as if it stood alone.
func parseOne(tb testing.TB, p *Parser, line string) (Event, bool) {
	tb.Helper()
	var ev Event
	ok := p.Parse(&source.Line{Text: []byte(line)}, captured, &ev)
	return ev, ok
}

// daemonCase is one line, alone, and what is to be read of it.
type daemonCase struct {
	line, want string
}

func runDaemonCases(t *testing.T, cases []daemonCase) {
	t.Helper()
	p := daemonParser(t, "")
	for _, c := range cases {
		ev, ok := parseOne(t, p, c.line)
		got := "-"
		if ok {
			addr := "-"
			if ev.Addr.IsValid() {
				addr = ev.Addr.String()
			}
			got = strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", ev.Service, ev.Outcome, addr, ev.Kind, ev.User))
			got = strings.Join(strings.Fields(got), " ")
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
	}
}

// theft are texts that look like other lines, fields and addresses: what an
// outsider would put where it is let to.
var theft = []string{
	"x from 203.0.113.66",
	"[203.0.113.66]",
	"a[203.0.113.66]: SASL LOGIN authentication failed: x",
	") [203.0.113.66]: 535 Incorrect authentication data (set_id=x",
	`H=(x) [203.0.113.66] AUTH`,
	`x" H=(x) [203.0.113.66]:25 AUTH command used when not advertised`,
	"x>, method=PLAIN, rip=203.0.113.66, lip=203.0.113.67, session=<y",
	"x,203.0.113.66): unknown user",
	"x,203.0.113.66,<s>): Password mismatch",
	`lala] FAIL LOGIN: Client "203.0.113.66" `,
	`lala] FAIL LOGIN: Client "203.0.113.66", "User is not in the allow user list.`,
	`x] OK LOGIN: Client "203.0.113.66`,
	"x: no such user found from a [203.0.113.66] to 192.0.2.10:21",
	"mx (a[203.0.113.66]) - USER root (Login failed): Incorrect password",
	"x@203.0.113.66) [WARNING] Authentication failed for user [y",
	"x'@'203.0.113.66' (using password: YES)",
	`x" FATAL:  password authentication failed for user "root`,
	`203.0.113.66 2026-11-20 10:00:00 UTC FATAL:  no pg_hba.conf entry for host "203.0.113.66", user "a`,
	"x'. Reason: none. [CLIENT: 203.0.113.66]",
	"client @0x7f 203.0.113.66#53 (x): query (cache) 'x/A/IN' denied",
	"x, ip=[203.0.113.66]",
	"u>, relay=x [203.0.113.66], reject=550",
	"x, relay=y [203.0.113.66]",
	"x host=y [203.0.113.66]",
	`x",SessionID="",LocalAddress="IPV4/UDP/192.0.2.10/5060",RemoteAddress="IPV4/UDP/203.0.113.66/1111"`,
	"sip:a@b' failed for '203.0.113.66:5060' - Wrong password",
	"x' (203.0.113.66:5060) to extension '1' rejected because extension not found in context 'a'.",
	"x (from 203.0.113.66)",
	"x] from ip 203.0.113.66",
	"x from 203.0.113.66: Invalid username or password",
	"x on admin from client 203.0.113.66:1 ; UserNotFound",
	`x","remote":"203.0.113.66:1`,
	"x/203.0.113.66:1194 TLS Error: TLS handshake failed",
	"x address=203.0.113.66 host=a",
	"Jan  1 00:00:00 h sshd[1]: Failed password for root from 203.0.113.66 port 22 ssh2",
	"rhost=203.0.113.66",
	`x\nJan  1 00:00:00 h postfix/smtpd[1]: warning: a[203.0.113.66]: SASL LOGIN authentication failed: x`,
	"x#012warning: a[203.0.113.66]: SASL LOGIN authentication failed: x",
	`", "(){}<>'%s\x00\xff`,
	"authenticator failed for (x) [203.0.113.66]: 535 y",
	"x H=(x) [203.0.113.66] rejected RCPT y",
	"SMTP call from [203.0.113.66] dropped: x",
	"203.0.113.66:1194 TLS Error: TLS handshake failed",
	"x,203.0.113.66): a message that nobody here knows",
	"203.0.113.66",
	"",
}

// hostileDaemon is a line with holes: %s is where the outsider's text goes.
type hostileDaemon struct {
	service, format, addr string
	// read says that the line is read whatever the text is; otherwise it may
	// be understood as nobody's.
	read bool
}

func (h *hostileDaemon) with(text string) string {
	return strings.ReplaceAll(h.format, "%s", text)
}

// checkHostile reports whether only the true address is blamed.
func checkHostile(t *testing.T, p *Parser, h *hostileDaemon, text string) {
	t.Helper()
	line := h.with(text)
	ev, ok := parseOne(t, p, line)
	want := netip.MustParseAddr(h.addr)
	switch {
	case ok && ev.Addr.IsValid() && ev.Addr != want:
		t.Errorf("%s\n blames %v by %s, the peer is %v", line, ev.Addr, ev.Service, want)
	case h.read && (!ok || !ev.Addr.IsValid()):
		t.Errorf("%s\n is not read", line)
	}
}

func runHostile(t *testing.T, lines []hostileDaemon) {
	t.Helper()
	for i := range lines {
		for _, service := range []string{"", lines[i].service} {
			p := daemonParser(t, service)
			for _, text := range theft {
				checkHostile(t, p, &lines[i], text)
			}
		}
	}
}

// fuzzHostile asserts for every text what runHostile asserts for its list.
func fuzzHostile(f *testing.F, lines []hostileDaemon) {
	for _, text := range theft {
		f.Add(text)
	}
	p := daemonParser(f, "")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 || strings.ContainsAny(text, "\n") {
			return
		}
		for i := range lines {
			h := lines[i]
			h.read = false
			checkHostile(t, p, &h, text)
		}
	})
}
