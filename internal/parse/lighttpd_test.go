package parse

import (
	"strings"
	"testing"
)

func TestLighttpd(t *testing.T) {
	l := func(o Outcome, k Kind, user string) webWant {
		return webWant{addr: "192.0.2.7", service: "lighttpd", outcome: o, kind: k, user: user}
	}
	none := webWant{service: "lighttpd"}
	const head = "2026-10-10 13:55:36: (mod_auth.c.525) "
	runWeb(t, Options{}, bareAny, []webCase{
		{head + `password doesn't match for /x username: bob, IP: 192.0.2.7`, l(Failure, Plain, "bob")},
		{head + `password doesn't match for /x username: bob IP: 192.0.2.7`, l(Failure, Plain, "bob")},
		{head + `password doesn't match for /x username: b, IP: 203.0.113.66 IP: 192.0.2.7`, l(Failure, Plain, "b, IP: 203.0.113.66")},
		{head + `digest: auth failed for  bob : wrong password, IP: 192.0.2.7`, l(Failure, Plain, "bob")},
		{head + `digest: auth failed: uri mismatch (/a != /b), IP: 192.0.2.7`, l(Failure, Plain, "")},
		{head + `get_password failed, IP: 192.0.2.7`, l(Failure, UnknownUser, "")},
		{head + `something else, IP: 192.0.2.7`, none},
		{head + `password doesn't match for /x username: bob, IP: 192.0.2.7 and more`, none},
		{head + `password doesn't match for /x username: bob, IP: 192.0.2.7.example.org`, none},
		{head + `password doesn't match for /x username: ` + strings.Repeat("b", 1000) + ` IP: 203.0.113.66`, none},
		{`2026-10-10 13:55:36: (mod_evasive.c.183) 192.0.2.7 turned away. Too many connections.`, l(Failure, Limited, "")},
		{`2026-10-10 13:55:36: (server.c.1704) server started (lighttpd/1.4.69)`, none},
		{`2026-10-10 13:55:36: no source file here`, webWant{}},
	})
	runWeb(t, Options{}, lighttpdAny, []webCase{
		{`(mod_auth.c.853) password doesn't match for / username: bob IP: 192.0.2.7`, l(Failure, Plain, "bob")},
		{`(mod_fastcgi.c.2676) FastCGI-stderr: ALERT - dropped variable 'x' (attacker '192.0.2.7', file '/srv/x.php')`, l(Failure, Forbidden, "")},
	})
}

func TestSuhosin(t *testing.T) {
	s := webWant{addr: "192.0.2.7", service: "suhosin", outcome: Failure, kind: Forbidden}
	none := webWant{service: "suhosin"}
	runWeb(t, Options{}, suhosinLog, []webCase{
		{`ALERT - dropped variable 'x' (attacker '192.0.2.7', file '/srv/x.php')`, s},
		{`ALERT - dropped variable 'x' (attacker '192.0.2.7', file '/srv/x.php', line 161)`, s},
		{`ALERT-SIMULATION - dropped variable 'x' (attacker '192.0.2.7', file '/srv/x.php')`, s},
		{`ALERT - dropped variable 'x (attacker '203.0.113.66', file 'y')' (attacker '192.0.2.7', file '/srv/x.php')`, s},
		{`ALERT - dropped variable 'x' (attacker '192.0.2.7', file '/srv/x.php') and more`, none},
		{`ALERT - dropped variable 'x' (attacker 'REMOTE_ADDR not set', file '/srv/x.php')`, none},
		{`ALERT - dropped variable '` + strings.Repeat("x", 4000) + ` (attacker '203.0.113.66', file 'y')`, none},
		{`some other message of PHP`, webWant{}},
	})
}

// TestLighttpdIsNoOthersAccessLog: request headers that lighttpd logs are no
// line of a proxy that it may resemble.
func TestLighttpdIsNoOthersAccessLog(t *testing.T) {
	p, err := New(Options{Service: "lighttpd"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`2026-11-22 08:59:20: (request.c.1344) rqst: Referer: x 2026/10/10 13:55:36 [2026-10-10 13:55:36.417736] [router:host-http] [origin:example.org] [client: 192.0.2.7] [useragent: a] GET /x 404`,
		`[22/Nov/2026:08:59:20 +0000] - 401 401 - GET https example.org "/" [Client 192.0.2.7] [Length 0] [Gzip -] [Sent-to 10.0.0.1] "a" "-"`,
	} {
		if ev, ok := parseOne(t, p, line); ok && ev.Addr.IsValid() {
			t.Errorf("blames %s: %s", ev.Addr, line)
		}
	}
}
