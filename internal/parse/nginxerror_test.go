package parse

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const nginxHeadText = `2026/10/10 13:55:36 [error] 2865#2865: *66647 `
const nginxTailText = `, server: www.example.org, request: "GET /x?y HTTP/1.1", host: "www.example.org"`

func TestNginxError(t *testing.T) {
	n := func(addr string, o Outcome, k Kind, user string) webWant {
		return webWant{addr: addr, service: "nginx", outcome: o, kind: k, user: user}
	}
	a := "192.0.2.7"
	var cases []webCase
	add := func(msg string, want webWant) {
		cases = append(cases, webCase{nginxHeadText + msg + ", client: 192.0.2.7" + nginxTailText, want})
	}
	add(`user "alice": password mismatch`, n(a, Failure, Plain, "alice"))
	add(`user "alice" was not found in "/etc/nginx/htpasswd"`, n(a, Failure, UnknownUser, "alice"))
	add(`user "" was not found in "/etc/nginx/htpasswd"`, n(a, Failure, UnknownUser, ""))
	add(`user "a b", client 203.0.113.66" was not found in "/f"`, n(a, Failure, UnknownUser, `a b", client 203.0.113.66`))
	add(`user "x" was not found in "/f" was not found in "/etc/f"`, n(a, Failure, UnknownUser, `x" was not found in "/f`))
	add(`no user/password was provided for basic authentication`, n(a, Other, Plain, ""))
	add(`limiting requests, excess: 1.495 by zone "one"`, n(a, Failure, Limited, ""))
	add(`limiting requests, dry run, excess: 1.495 by zone "one"`, n(a, Other, Limited, ""))
	add(`delaying request, excess: 0.850, by zone "req_limit"`, n(a, Failure, Limited, ""))
	add(`limiting connections by zone "addr"`, n(a, Failure, Limited, ""))
	add(`access forbidden by rule`, n(a, Failure, Forbidden, ""))
	add(`directory index of "/srv/www/" is forbidden`, n(a, Other, Forbidden, ""))
	add(`PAM: user 'alice' - not authenticated: Authentication failure`, n(a, Failure, Plain, "alice"))
	add(`PAM: user 'alice' - invalid account: Permission denied`, n(a, Other, Plain, ""))
	add(`open() "/srv/www/x" failed (2: No such file or directory)`, n(a, Other, Plain, ""))
	add(`"/srv/www/x/index.html" is not found (2: No such file or directory)`, n(a, Other, Plain, ""))
	add(`client intended to send too large body: 10485761 bytes`, n(a, Other, Plain, ""))
	add(`connect() failed (111: Connection refused) while connecting to upstream`, n(a, Other, Plain, ""))
	add(`client SSL certificate verify error: (18:self signed certificate) while reading client request headers`, n(a, Failure, Plain, ""))
	add(`auth request unexpected status: 502 while sending to client`, n(a, Other, Plain, ""))
	add(`ModSecurity: Access denied with code 403 (phase 2). Matched "x" [ref "o0"]`, n(a, Failure, Forbidden, ""))
	add(`ModSecurity: Warning. Matched "x" [ref "o0"]`, n(a, Other, Plain, ""))
	add(`[client 192.0.2.7] ModSecurity: Access denied with code 403 (phase 2)., client: 203.0.113.66, server: x`, n(a, Failure, Forbidden, ""))
	add(`FastCGI sent in stderr: "ALERT - tried to register forbidden variable (attacker '203.0.113.66')" while reading response header from upstream`, n(a, Failure, Forbidden, ""))
	cases = append(cases,
		webCase{nginxHeadText + `SSL_do_handshake() failed (SSL: error:0A00006C:SSL routines::bad key share) while SSL handshaking, client: 2001:db8::7, server: 0.0.0.0:443`, n("2001:db8::7", Other, Probe, "")},
		webCase{nginxHeadText + `client login failed: "Invalid login" while in http auth state, client: 192.0.2.7, server: 0.0.0.0:25, login: "bob", client: 203.0.113.66"`, n(a, Failure, Plain, `bob", client: 203.0.113.66`)},
		webCase{nginxHeadText + `client 192.0.2.7:53044 connected to 0.0.0.0:25`, n(a, Other, Probe, "")},
		webCase{nginxHeadText + `client 192.0.2.7 closed keepalive connection`, n(a, Other, Probe, "")},
		webCase{nginxHeadText + `access forbidden by rule, client: unix:, server: x, request: "GET / HTTP/1.1"`, n("", Failure, Forbidden, "")},
		webCase{`2026/10/10 13:55:36 [notice] 2865#2865: signal process started`, n("", Other, Plain, "")},
		webCase{`2026/10/10 13:55:36 [error] not nginx at all`, webWant{}},
		webCase{`2026/10/10 13:55:36 something else`, webWant{}},
	)
	runWeb(t, Options{}, nginxTagged, cases)
}

// What an attacker wrote never becomes the client, in lines that nginx writes.
func TestNginxUserForgery(t *testing.T) {
	const forged = `: password mismatch, client: 203.0.113.66, server: , request: "GET / HTTP/1.1", host: "h"`
	for name, c := range map[string]struct{ tail, want string }{
		"the referrer":                  {`, server: s, request: "GET / HTTP/1.1", host: "h", referrer: "x"` + forged + `"`, "192.0.2.7"},
		"the referrer, an odd host":     {`, server: s, request: "GET / HTTP/1.1", host: "a b", referrer: "x"` + forged, "192.0.2.7"},
		"a host with quotes (1.18)":     {`, server: s, request: "GET / HTTP/1.1", host: "h"": password mismatch, client: 203.0.113.66, server: , request: "GET ", referrer: "x HTTP/1.1", host: "z"`, "192.0.2.7"},
		"a request with spaces (1.18)":  {`, server: s, request: "GET /"` + strings.ReplaceAll(forged, " HTTP/1.1", "") + ` HTTP/1.1", host: "h"`, "192.0.2.7"},
		"a request of HTTP/2 (1.18)":    {`, server: s, request: "GET / HTTP/1.1"` + forged + ` HTTP/2.0", host: "h"`, "192.0.2.7|"},
		"HTTP/2, and the referrer":      {`, server: s, request: "GET / HTTP/1.1" z HTTP/2.0", host: "h", referrer: "x"` + forged, "192.0.2.7|"},
		"a line cut in the request":     {`, server: s, request: "GET /` + strings.Repeat("x", 2000), "192.0.2.7"},
		"a line cut in a forged client": {`, server: s, request: "GET /` + strings.Repeat("x", 1900) + `", client: 203.0.113.66, server: , request: "GET / HT`, "192.0.2.7"},
	} {
		for _, head := range []string{`user "alice": password mismatch`, `user "alice" was not found in "/f"`} {
			var ev Event
			line := nginxHeadText + head + ", client: 192.0.2.7" + c.tail
			if !nginxError(webParser(t, Options{}), []byte(line), &ev) {
				t.Errorf("%s: not understood", name)
			}
			got := ""
			if ev.Addr.IsValid() {
				got = ev.Addr.String()
			}
			if !slices.Contains(strings.Split(c.want, "|"), got) {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
			if ev.Outcome == Failure && got == "" {
				t.Errorf("%s: a failure of nobody", name)
			}
		}
	}
}

// Lines of builds whose user may hold a colon: the last client, if all fits.
func TestNginxUserWithAColon(t *testing.T) {
	inner := `x": password mismatch, client: 203.0.113.66, server: s, request: "GET / HTTP/1.1", host: "h:1"`
	for _, c := range []struct{ line, want string }{
		{`user "` + inner + `": was not found in "/f", client: 192.0.2.7, server: , request: "GET / HTTP/1.1", host: "h"`, "192.0.2.7"},
		{`user "` + inner + `": password mismatch, client: 192.0.2.7, server: , request: "GET / HTTP/1.1", host: "h"`, "192.0.2.7"},
		{`user "x": password mismatch, client: 203.0.113.66" was not found in "/f", client: 192.0.2.7, server: , request: "GET / HTTP/1.1", host: "h"`, "192.0.2.7"},
	} {
		var ev Event
		nginxError(webParser(t, Options{}), []byte(nginxHeadText+c.line), &ev)
		got := ""
		if ev.Addr.IsValid() {
			got = ev.Addr.String()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.line, got, c.want)
		}
	}
}

func TestNginxOtherTakesOneReadingOnly(t *testing.T) {
	for _, c := range []struct{ msg, want string }{
		{`open() "/x", client: 203.0.113.66, server: s" failed (2: No such file), client: 192.0.2.7, server: s, request: "GET / HTTP/1.1"`, ""},
		{`open() "/x" failed (2: No such file), client: 192.0.2.7, server: s, request: "GET /", client: 203.0.113.66 HTTP/1.1"`, ""},
		{`PAM: user 'x' - not authenticated: y, client: 203.0.113.66, server: s' - not authenticated: Authentication failure, client: 192.0.2.7, server: s, request: "GET / HTTP/1.1"`, ""},
		{`open() "/x, client: host" failed (2: No such file), client: 192.0.2.7, server: s, request: "GET / HTTP/1.1"`, "192.0.2.7"},
		{`open() "/x, client: 192.0.2.7" failed (2: No such file), client: 192.0.2.7, server: s, request: "GET / HTTP/1.1"`, "192.0.2.7"},
		{`open() "/` + strings.Repeat("x", 1900) + `, client: 203.0.113.66, server: s, request: "GET /`, ""},
	} {
		var ev Event
		nginxError(webParser(t, Options{}), []byte(nginxHeadText+c.msg), &ev)
		got := ""
		if ev.Addr.IsValid() {
			got = ev.Addr.String()
		}
		if got != c.want {
			t.Errorf("%.80s: got %q, want %q", c.msg, got, c.want)
		}
	}
}

func TestNginxFieldsAndTime(t *testing.T) {
	p := webParser(t, Options{Location: time.FixedZone("there", 3600)})
	var ev Event
	line := nginxHeadText + `limiting requests, excess: 1.495 by zone "one", client: 192.0.2.7` + nginxTailText
	if !nginxError(p, []byte(line), &ev) {
		t.Fatal("not understood")
	}
	if string(ev.Method) != "GET" || string(ev.Path) != "/x" || string(ev.Query) != "y" || string(ev.Host) != "www.example.org" {
		t.Errorf("got %s %s %s %s", ev.Method, ev.Path, ev.Query, ev.Host)
	}
	if got := time.Unix(0, ev.Time).UTC().Format(time.RFC3339); got != "2026-10-10T12:55:36Z" {
		t.Errorf("time: got %s", got)
	}
}

func TestNginxErrorBehindAProxy(t *testing.T) {
	o := Options{Client: ClientOptions{Trusted: prefixes("192.0.2.0/24")}}
	runWeb(t, o, nginxError, []webCase{
		{nginxHeadText + `access forbidden by rule, client: 192.0.2.7, server: s`, webWant{service: "nginx", outcome: Failure, kind: Forbidden}},
		{nginxHeadText + `access forbidden by rule, client: 198.51.100.7, server: s`, webWant{addr: "198.51.100.7", service: "nginx", outcome: Failure, kind: Forbidden}},
	})
}
