package web

import (
	"testing"

	"stoplog/internal/parse/event"
)

func TestHAProxy(t *testing.T) {
	h := func(addr string, o event.Outcome, k event.Kind) webWant {
		return webWant{addr: addr, service: "haproxy", outcome: o, kind: k}
	}
	const stamp = " [14/Nov/2015:22:45:25.439] "
	runWeb(t, Options{}, (*Reader).haproxyLog, []webCase{
		{`192.0.2.7:58444` + stamp + `main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("192.0.2.7", event.Other, event.Plain)},
		{`192.0.2.7:58444` + stamp + `main app/s1 19/0/1/0/40 403 51 - - ---- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("192.0.2.7", event.Other, event.Forbidden)},
		{`192.0.2.7:58444` + stamp + `main main/<NOSRV> 0/-1/-1/-1/0 403 51 - - PR-- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("192.0.2.7", event.Failure, event.Forbidden)},
		{`192.0.2.7:58444` + stamp + `main main/<NOSRV> 0/-1/-1/-1/0 401 51 - - PR-- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("192.0.2.7", event.Failure, event.Plain)},
		{`192.0.2.7:58444` + stamp + `main main/<NOSRV> 0/-1/-1/-1/0 401 51 - - LR-- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("192.0.2.7", event.Failure, event.Plain)},
		{`192.0.2.7:58444` + stamp + `main main/<NOSRV> 0/-1/-1/-1/0 429 51 - - PR-- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("192.0.2.7", event.Failure, event.Limited)},
		{`192.0.2.7:58444` + stamp + `main main/<NOSRV> 0/-1/-1/-1/100 500 51 - - PT-- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("192.0.2.7", event.Failure, event.Forbidden)},
		{`192.0.2.7:58444` + stamp + `main main/<NOSRV> -1/-1/-1/-1/0 400 51 - - PR-- 3/3/0/0/0 0/0 "<BADREQ>"`, h("192.0.2.7", event.Other, event.Plain)},
		{`2001:db8::7:58444` + stamp + `main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("2001:db8::7", event.Other, event.Plain)},
		{`2001:db8::7:443` + stamp + `main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("2001:db8::7", event.Other, event.Plain)},
		{`::ffff:192.0.2.7:443` + stamp + `main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, h("192.0.2.7", event.Other, event.Plain)},
		{`192.0.2.7:58444` + stamp + `tcp app/s1 0/0/50 212 -- 3/3/0/0/0 0/0`, h("192.0.2.7", event.Other, event.Probe)},
		{`192.0.2.7:58444` + stamp + `tcp app/<NOSRV> -1/-1/0 0 PR 3/3/0/0/0 0/0`, h("192.0.2.7", event.Failure, event.Forbidden)},
		{`192.0.2.7:58444` + stamp + `main/1: SSL handshake failure`, h("192.0.2.7", event.Other, event.Probe)},
		{`unix:1` + stamp + `main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, webWant{}},
		{`192.0.2.7` + stamp + `main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`, webWant{}},
		{`Proxy main started.`, webWant{}},
	})
}

// Without a tag HAProxy's line must not pass for an access log's.
func TestHAProxyBare(t *testing.T) {
	const rest = ` [14/Nov/2015:22:45:25.439] main main/<NOSRV> 0/-1/-1/-1/0 403 51 - - PR-- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`
	for addr, want := range map[string]string{"192.0.2.7:443": "192.0.2.7", "2001:db8::7:443": "2001:db8::7"} {
		runWeb(t, Options{}, (*Reader).Any, []webCase{{addr + rest, webWant{addr: want, service: "haproxy", outcome: event.Failure, kind: event.Forbidden}}})
	}
}

func TestHAProxyFields(t *testing.T) {
	p := webParser(t, Options{})
	var ev event.Event
	line := `198.51.100.9:58444 [14/Nov/2015:22:45:25.439] main app/s1 19/0/1/0/40 404 51 - - ---- 3/3/0/0/0 0/0 {203.0.113.66|agent} "POST /a?b HTTP/1.1"`
	if !p.read((*Reader).haproxyLog, []byte(line), &ev) {
		t.Fatal("not understood")
	}
	if ev.Addr.String() != "198.51.100.9" || ev.Status != 404 || string(ev.Path) != "/a" || string(ev.Query) != "b" {
		t.Errorf("got %v %d %s %s", ev.Addr, ev.Status, ev.Path, ev.Query)
	}
}

func TestHAProxyBehindAProxy(t *testing.T) {
	o := Options{Client: ClientOptions{Header: "x-forwarded-for", Trusted: prefixes("10.0.0.0/8")}}
	line := `10.0.0.1:58444 [14/Nov/2015:22:45:25.439] main app/s1 19/0/1/0/40 404 51 - - ---- 3/3/0/0/0 0/0 {203.0.113.66} "GET / HTTP/1.1"`
	runWeb(t, o, (*Reader).haproxyLog, []webCase{{line, webWant{service: "haproxy"}}})
}
