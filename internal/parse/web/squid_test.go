package web

import (
	"testing"
	"time"

	"stoplog/internal/parse/event"
)

func TestSquid(t *testing.T) {
	s := func(o event.Outcome, k event.Kind, user string) webWant {
		return webWant{addr: "192.0.2.7", service: "squid", outcome: o, kind: k, user: user}
	}
	runWeb(t, Options{}, (*Reader).squidAny, []webCase{
		{`1386543323.000      4 192.0.2.7 TCP_DENIED/403 4099 GET http://e.example/x - HIER_NONE/- text/html`, s(event.Failure, event.Forbidden, "")},
		{`1386543323.000      4 192.0.2.7 TCP_DENIED/407 4099 GET http://e.example/x - HIER_NONE/- text/html`, s(event.Other, event.Plain, "")},
		{`1386543323.000      4 192.0.2.7 TCP_DENIED/407 4099 GET http://e.example/x bob HIER_NONE/- text/html`, s(event.Failure, event.Plain, "bob")},
		{`1386543323.000      4 192.0.2.7 NONE/405 3364 CONNECT error:method-not-allowed - HIER_NONE/- text/html`, s(event.Failure, event.Forbidden, "")},
		{`1386543323.000      4 192.0.2.7 NONE_NONE/400 3364 HELP error:invalid-request - HIER_NONE/- text/html`, s(event.Other, event.Plain, "")},
		{`1386543323.000      4 192.0.2.7 TCP_MISS/200 331 GET http://e.example/x bob HIER_DIRECT/10.0.0.1 text/html`, s(event.Other, event.Plain, "bob")},
		{`1386543323.000      4 host.example TCP_DENIED/403 331 GET http://e.example/x - HIER_NONE/- -`, webWant{service: "squid", outcome: event.Failure, kind: event.Forbidden}},
		{`1386543323.000      4 192.0.2.7 not squid at all, though it begins so`, webWant{}},
		{`1386543323.000      4 19 TCP_DENIED/403 331 GET http://e.example/x - HIER_NONE/- -`, webWant{service: "squid", outcome: event.Failure, kind: event.Forbidden}},
		{`1386543323.000 and no more`, webWant{}},
	})
	line := `1386543323.250      4 192.0.2.7 TCP_MISS/200 331 GET http://e.example/x?y bob HIER_DIRECT/10.0.0.1 text/html`
	if got := webTime(t, webParser(t, Options{}), (*Reader).squidLog, line).Format(time.RFC3339Nano); got != "2013-12-08T22:55:23.25Z" {
		t.Errorf("time: got %s", got)
	}
}
