package web

import (
	"testing"
	"time"

	"stoplog/internal/parse/event"
)

func TestApacheError(t *testing.T) {
	const old = `[Sat Oct 10 13:55:36 2026] [error] [client 192.0.2.7] `
	const head = `[Sat Oct 10 13:55:36.123456 2026] [core:error] [pid 1:tid 2] [client 192.0.2.7:51548] `
	a := func(o event.Outcome, k event.Kind, user string) webWant {
		return webWant{addr: "192.0.2.7", service: "apache", outcome: o, kind: k, user: user}
	}
	nobody := webWant{service: "apache"}
	var cases []webCase
	both := func(code, msg string, want webWant) {
		cases = append(cases, webCase{old + msg, want}, webCase{head + code + msg, want})
	}
	both("AH01617: ", `user alice: authentication failure for "/x": Password Mismatch`, a(event.Failure, event.Plain, "alice"))
	both("AH01618: ", `user alice not found: /x`, a(event.Failure, event.UnknownUser, "alice"))
	both("AH01618: ", `user  not found: /x`, a(event.Failure, event.UnknownUser, ""))
	both("", `user alice not found`, a(event.Failure, event.UnknownUser, "alice"))
	both("AH01631: ", `user alice: authorization failure for "/x": `, a(event.Failure, event.Plain, "alice"))
	both("AH01807: ", `user 'alice': authentication failure for "/x": password Mismatch`, a(event.Failure, event.Plain, "alice"))
	both("AH01614: ", `client used wrong authentication scheme: /x`, a(event.Failure, event.Plain, ""))
	both("AH01637: ", `Authorization of user alice to access /x failed, reason: file owner dan does not match.`, a(event.Failure, event.Forbidden, "alice"))
	both("AH01664: ", `access to /x failed, reason: verification of user id 'alice' not configured`, a(event.Failure, event.Forbidden, ""))
	both("AH00035: ", `access to /x denied because search permissions are missing`, a(event.Other, event.Plain, ""))
	both("AH01630: ", `client denied by server configuration: /srv/x`, a(event.Failure, event.Forbidden, ""))
	both("AH01794: ", `user alice: password mismatch: /x`, a(event.Failure, event.Plain, "alice"))
	both("AH01790: ", "user `alice' in realm `area' not found: /x", a(event.Failure, event.UnknownUser, "alice"))
	both("AH01791: ", "user `alice' in realm `area' denied by provider: /x", a(event.Failure, event.Plain, "alice"))
	both("AH01697: ", `auth_ldap authenticate: user alice authentication failed; URI /x [User not found][No such object]`, a(event.Failure, event.UnknownUser, "alice"))
	both("AH01697: ", `auth_ldap authenticate: user alice authentication failed; URI /x [ldap_simple_bind() failed][Invalid credentials]`, a(event.Failure, event.Plain, "alice"))
	both("AH02031: ", `Hostname h provided via SNI, but no hostname provided in HTTP request`, a(event.Failure, event.Forbidden, ""))
	both("AH02033: ", `No hostname was provided via SNI for a name based virtual host`, a(event.Failure, event.Forbidden, ""))
	both("", `ModSecurity: Access denied with code 403 (phase 2). Pattern match "x"`, a(event.Failure, event.Forbidden, ""))
	both("", `ModSecurity: [file "/f"] [line "1"] Access denied with code 403 (phase 2). x`, a(event.Failure, event.Forbidden, ""))
	both("", `ModSecurity: Warning. Pattern match "x"`, a(event.Other, event.Plain, ""))
	both("", `mod_qos(010): access denied, QS_LocRequestLimit* rule: /x(1), concurrent requests=2, c=192.0.2.7, id=x`, a(event.Failure, event.Limited, ""))
	both("AH01215: ", "/bin/bash: error importing function definition for `HTTP_TEST'", a(event.Failure, event.Forbidden, ""))
	both("AH00126: ", `Invalid URI in request GET /../../etc/passwd HTTP/1.1`, a(event.Failure, event.Forbidden, ""))
	both("AH10244: ", `invalid URI path (/cgi-bin/.%2e/x)`, a(event.Failure, event.Forbidden, ""))
	both("", `ALERT - tried to register forbidden variable (attacker '192.0.2.7', file '/x')`, a(event.Failure, event.Forbidden, ""))
	for _, m := range []string{`File does not exist: /srv/x`, `script '/srv/x.php' not found or unable to stat`, `Invalid method in request NOOP`,
		`request failed: URI too long (longer than 8190)`, `PHP Notice:  user x not found`} {
		both("", m, a(event.Other, event.Plain, ""))
	}
	cases = append(cases,
		webCase{head + "AH01788: realm mismatch - got `a' but expected `b'", a(event.Failure, event.Plain, "")},
		webCase{head + "realm mismatch - got `a' but expected `b'", a(event.Other, event.Plain, "")}, // anybody's text
		webCase{old + "Digest: realm mismatch - got `a' but expected `b'", a(event.Failure, event.Plain, "")},
		webCase{`[Sat Oct 10 13:55:36 2026] [error] [client 192.0.2.7] Digest: user alice: password mismatch: /x`, a(event.Failure, event.Plain, "alice")},
		webCase{`[Sat Oct 10 13:55:36 2026] [error] [client 192.0.2.7] Digest: invalid nonce x received - hash is not y`, a(event.Other, event.Plain, "")},
		webCase{`[Sat Oct 10 13:55:36 2026] [error] [client 192.0.2.7] Digest: invalid nonce x received - user attempted time travel`, a(event.Failure, event.Plain, "")},
		webCase{`[Sat Oct 10 13:55:36.1 2026] [x:error] [pid 1] [client [2001:db8::7]:443] AH01618: user a not found: /`, webWant{addr: "2001:db8::7", service: "apache", outcome: event.Failure, kind: event.UnknownUser, user: "a"}},
		webCase{`[Sat Oct 10 13:55:36.1 2026] [core:error] [pid 1] (36)File name too long: [client 192.0.2.7:1] AH00036: access to /x failed`, a(event.Other, event.Plain, "")},
		webCase{`[Sat Oct 10 13:55:36.1 2026] [core:trace1] [pid 1] core.c(12): (2)No such file: [client 192.0.2.7:1] AH01618: user a not found: /`, a(event.Failure, event.UnknownUser, "a")},
		webCase{`[Sat Oct 10 13:55:36.1 2026] [proxy:error] [pid 1] [remote 10.0.0.9:80] [client 192.0.2.7:1] AH01618: user a not found: /`, a(event.Failure, event.UnknownUser, "a")},
		webCase{`[Sat Oct 10 13:55:36.1 2026] [evasive20:error] [pid 1] [client 192.0.2.7:1] client denied by server configuration: /x`, a(event.Failure, event.Limited, "")},
		webCase{`[Sat Oct 10 13:55:36.1 2026] [:error] [pid 1] [client 192.0.2.7:1] [client 192.0.2.7] ModSecurity: Access denied with code 401 (phase 2).`, a(event.Failure, event.Forbidden, "")},
		webCase{`[Sat Oct 10 13:55:36.1 2026] [mpm_event:notice] [pid 1] AH00489: Apache/2.4.71 configured`, nobody},
		webCase{`[Sat Oct 10 13:55:36.1 2026] [core:error] [pid 1] AH1: text [client 203.0.113.66] user root not found`, nobody},
		webCase{`[Sat Oct 10 13:55:36.1 2026] [core:error] [pid 1] [client host.example.org] user root not found`, nobody},
		webCase{`[Sat Oct 10 13:55:36 2026] not a level: [client 203.0.113.66] user root not found`, webWant{}},
		// CVE-2013-2178's way
		webCase{old + `File does not exist: /srv/http/site/[client 203.0.113.66] user root not found`, a(event.Other, event.Plain, "")},
		webCase{old + `user [client 203.0.113.66] user root not found: /x`, a(event.Failure, event.UnknownUser, `[client 203.0.113.66] user root`)},
	)
	runWeb(t, Options{}, (*Reader).apacheError, cases)
}

func TestApacheTagged(t *testing.T) {
	want := webWant{addr: "192.0.2.7", service: "apache", outcome: event.Failure, kind: event.Forbidden}
	runWeb(t, Options{}, (*Reader).apacheAny, []webCase{
		{`[authz_core:error] [pid 22034] [client 192.0.2.7:58585] AH01630: client denied by server configuration: /x`, want},
		{`[:error] [pid 18154:tid 140680873617152] [client 192.0.2.7:48154] AH01630: client denied by server configuration: /x`, want},
		{`192.0.2.7 - alice [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5`, webWant{addr: "192.0.2.7", service: "http", outcome: event.Failure, user: "alice"}},
		{`something else entirely`, webWant{}},
	})
	runWeb(t, Options{}, (*Reader).evasiveLog, []webCase{
		{`Blacklisting address 192.0.2.7: possible DoS attack.`, webWant{addr: "192.0.2.7", service: "apache", outcome: event.Failure, kind: event.Limited}},
		{`Blacklisting address host: possible DoS attack.`, webWant{service: "apache"}},
		{`Couldn't open logfile`, webWant{}},
	})
}

func TestApacheStamp(t *testing.T) {
	p := webParser(t, Options{})
	p.m.Loc = time.FixedZone("there", -3600)
	for line, want := range map[string]string{
		`[Sat Oct 10 13:55:36.123456 2026] [error] [client 192.0.2.7] x`:  "2026-10-10T14:55:36.123456Z",
		`[Sat Oct 10 13:55:36 2026] [error] [client 192.0.2.7] message x`: "2026-10-10T14:55:36Z",
	} {
		if got := webTime(t, p, (*Reader).apacheError, line).Format(time.RFC3339Nano); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}
