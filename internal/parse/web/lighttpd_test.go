package web

import (
	"strings"
	"testing"

	"stoplog/internal/parse/event"
)

func TestLighttpd(t *testing.T) {
	l := func(o event.Outcome, k event.Kind, user string) webWant {
		return webWant{addr: "192.0.2.7", service: "lighttpd", outcome: o, kind: k, user: user}
	}
	none := webWant{service: "lighttpd"}
	const head = "2026-10-10 13:55:36: (mod_auth.c.525) "
	runWeb(t, Options{}, (*Reader).Any, []webCase{
		{head + `password doesn't match for /x username: bob, IP: 192.0.2.7`, l(event.Failure, event.Plain, "bob")},
		{head + `password doesn't match for /x username: bob IP: 192.0.2.7`, l(event.Failure, event.Plain, "bob")},
		{head + `password doesn't match for /x username: b, IP: 203.0.113.66 IP: 192.0.2.7`, l(event.Failure, event.Plain, "b, IP: 203.0.113.66")},
		{head + `digest: auth failed for  bob : wrong password, IP: 192.0.2.7`, l(event.Failure, event.Plain, "bob")},
		{head + `digest: auth failed: uri mismatch (/a != /b), IP: 192.0.2.7`, l(event.Failure, event.Plain, "")},
		{head + `get_password failed, IP: 192.0.2.7`, l(event.Failure, event.UnknownUser, "")},
		{head + `something else, IP: 192.0.2.7`, none},
		{head + `password doesn't match for /x username: bob, IP: 192.0.2.7 and more`, none},
		{head + `password doesn't match for /x username: bob, IP: 192.0.2.7.example.org`, none},
		{head + `password doesn't match for /x username: ` + strings.Repeat("b", 1000) + ` IP: 203.0.113.66`, none},
		{`2026-10-10 13:55:36: (mod_evasive.c.183) 192.0.2.7 turned away. Too many connections.`, l(event.Failure, event.Limited, "")},
		{`2026-10-10 13:55:36: (server.c.1704) server started (lighttpd/1.4.69)`, none},
		{`2026-10-10 13:55:36: no source file here`, webWant{}},
	})
	runWeb(t, Options{}, (*Reader).lighttpdAny, []webCase{
		{`(mod_auth.c.853) password doesn't match for / username: bob IP: 192.0.2.7`, l(event.Failure, event.Plain, "bob")},
		{`(mod_fastcgi.c.2676) FastCGI-stderr: ALERT - dropped variable 'x' (attacker '192.0.2.7', file '/srv/x.php')`, l(event.Failure, event.Forbidden, "")},
	})
}

func TestSuhosin(t *testing.T) {
	s := webWant{addr: "192.0.2.7", service: "suhosin", outcome: event.Failure, kind: event.Forbidden}
	none := webWant{service: "suhosin"}
	runWeb(t, Options{}, (*Reader).suhosinLog, []webCase{
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
