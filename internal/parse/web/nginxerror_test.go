package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/parsetest"
)

func TestNginxError(t *testing.T) {
	n := func(addr string, o event.Outcome, k event.Kind, user string) webWant {
		return webWant{addr: addr, service: "nginx", outcome: o, kind: k, user: user}
	}
	a := "192.0.2.7"
	var cases []webCase
	add := func(msg string, want webWant) {
		cases = append(cases, webCase{parsetest.NginxHead + msg + ", client: 192.0.2.7" + parsetest.NginxTail, want})
	}
	add(`user "alice": password mismatch`, n(a, event.Failure, event.Plain, "alice"))
	add(`user "alice" was not found in "/etc/nginx/htpasswd"`, n(a, event.Failure, event.UnknownUser, "alice"))
	add(`user "" was not found in "/etc/nginx/htpasswd"`, n(a, event.Failure, event.UnknownUser, ""))
	add(`user "a b", client 203.0.113.66" was not found in "/f"`, n(a, event.Failure, event.UnknownUser, `a b", client 203.0.113.66`))
	add(`user "x" was not found in "/f" was not found in "/etc/f"`, n(a, event.Failure, event.UnknownUser, `x" was not found in "/f`))
	add(`no user/password was provided for basic authentication`, n(a, event.Other, event.Plain, ""))
	add(`limiting requests, excess: 1.495 by zone "one"`, n(a, event.Failure, event.Limited, ""))
	add(`limiting requests, dry run, excess: 1.495 by zone "one"`, n(a, event.Other, event.Limited, ""))
	add(`delaying request, excess: 0.850, by zone "req_limit"`, n(a, event.Failure, event.Limited, ""))
	add(`limiting connections by zone "addr"`, n(a, event.Failure, event.Limited, ""))
	add(`access forbidden by rule`, n(a, event.Failure, event.Forbidden, ""))
	add(`directory index of "/srv/www/" is forbidden`, n(a, event.Other, event.Forbidden, ""))
	add(`PAM: user 'alice' - not authenticated: Authentication failure`, n(a, event.Failure, event.Plain, "alice"))
	add(`PAM: user 'alice' - invalid account: Permission denied`, n(a, event.Other, event.Plain, ""))
	add(`open() "/srv/www/x" failed (2: No such file or directory)`, n(a, event.Other, event.Plain, ""))
	add(`"/srv/www/x/index.html" is not found (2: No such file or directory)`, n(a, event.Other, event.Plain, ""))
	add(`client intended to send too large body: 10485761 bytes`, n(a, event.Other, event.Plain, ""))
	add(`connect() failed (111: Connection refused) while connecting to upstream`, n(a, event.Other, event.Plain, ""))
	add(`client SSL certificate verify error: (18:self signed certificate) while reading client request headers`, n(a, event.Failure, event.Plain, ""))
	add(`auth request unexpected status: 502 while sending to client`, n(a, event.Other, event.Plain, ""))
	add(`ModSecurity: Access denied with code 403 (phase 2). Matched "x" [ref "o0"]`, n(a, event.Failure, event.Forbidden, ""))
	add(`ModSecurity: Warning. Matched "x" [ref "o0"]`, n(a, event.Other, event.Plain, ""))
	add(`[client 192.0.2.7] ModSecurity: Access denied with code 403 (phase 2)., client: 203.0.113.66, server: x`, n(a, event.Failure, event.Forbidden, ""))
	add(`FastCGI sent in stderr: "ALERT - tried to register forbidden variable (attacker '203.0.113.66')" while reading response header from upstream`, n(a, event.Failure, event.Forbidden, ""))
	cases = append(cases,
		webCase{parsetest.NginxHead + `SSL_do_handshake() failed (SSL: error:0A00006C:SSL routines::bad key share) while SSL handshaking, client: 2001:db8::7, server: 0.0.0.0:443`, n("2001:db8::7", event.Other, event.Probe, "")},
		webCase{parsetest.NginxHead + `client login failed: "Invalid login" while in http auth state, client: 192.0.2.7, server: 0.0.0.0:25, login: "bob", client: 203.0.113.66"`, n(a, event.Failure, event.Plain, `bob", client: 203.0.113.66`)},
		webCase{parsetest.NginxHead + `client 192.0.2.7:53044 connected to 0.0.0.0:25`, n(a, event.Other, event.Probe, "")},
		webCase{parsetest.NginxHead + `client 192.0.2.7 closed keepalive connection`, n(a, event.Other, event.Probe, "")},
		webCase{parsetest.NginxHead + `access forbidden by rule, client: unix:, server: x, request: "GET / HTTP/1.1"`, n("", event.Failure, event.Forbidden, "")},
		webCase{`2026/10/10 13:55:36 [notice] 2865#2865: signal process started`, n("", event.Other, event.Plain, "")},
		webCase{`2026/10/10 13:55:36 [error] not nginx at all`, webWant{}},
		webCase{`2026/10/10 13:55:36 something else`, webWant{}},
	)
	runWeb(t, Options{}, (*Reader).nginxTagged, cases)
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
			var ev event.Event
			line := parsetest.NginxHead + head + ", client: 192.0.2.7" + c.tail
			if !webParser(t, Options{}).read((*Reader).nginxError, []byte(line), &ev) {
				t.Errorf("%s: not understood", name)
			}
			got := ""
			if ev.Addr.IsValid() {
				got = ev.Addr.String()
			}
			if !slices.Contains(strings.Split(c.want, "|"), got) {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
			if ev.Outcome == event.Failure && got == "" {
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
		var ev event.Event
		webParser(t, Options{}).read((*Reader).nginxError, []byte(parsetest.NginxHead+c.line), &ev)
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
		var ev event.Event
		webParser(t, Options{}).read((*Reader).nginxError, []byte(parsetest.NginxHead+c.msg), &ev)
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
	p := webParser(t, Options{})
	p.m.Loc = time.FixedZone("there", 3600)
	var ev event.Event
	line := parsetest.NginxHead + `limiting requests, excess: 1.495 by zone "one", client: 192.0.2.7` + parsetest.NginxTail
	if !p.read((*Reader).nginxError, []byte(line), &ev) {
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
	runWeb(t, o, (*Reader).nginxError, []webCase{
		{parsetest.NginxHead + `access forbidden by rule, client: 192.0.2.7, server: s`, webWant{service: "nginx", outcome: event.Failure, kind: event.Forbidden}},
		{parsetest.NginxHead + `access forbidden by rule, client: 198.51.100.7, server: s`, webWant{addr: "198.51.100.7", service: "nginx", outcome: event.Failure, kind: event.Forbidden}},
	})
}

func TestNginxWithoutAStamp(t *testing.T) {
	runWeb(t, Options{}, (*Reader).nginxTagged, []webCase{
		{`[error] 1#1: *7 user "bob": password mismatch, client: 192.0.2.7` + parsetest.NginxTail, webWant{addr: "192.0.2.7", service: "nginx", outcome: event.Failure, user: "bob"}},
		{`[notice] 1#1: signal process started`, webWant{service: "nginx"}},
		{`[error] 1: *7 no thread's number`, webWant{}},
		{`[error] x#1: *7 no process's number`, webWant{}},
		{`[error no end`, webWant{}},
	})
}
