package parse

import (
	"os"
	"strings"
	"testing"
)

// TestWritten reads lines written from programs' sources and manuals, each
// below what it tells: service, outcome, kind, address and user. Nobody names
// the service.
func TestWritten(t *testing.T) {
	data, err := os.ReadFile("testdata/written.log")
	if err != nil {
		t.Fatal(err)
	}
	p := daemonParser(t, "")
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) < 400 {
		t.Fatalf("only %d lines", len(lines))
	}
	for i := 0; i+1 < len(lines); i += 2 {
		line := strings.TrimPrefix(lines[i+1], "\t")
		ev, ok := parseOne(t, p, line)
		got := "-"
		if ok {
			got = ev.Service + " " + brief(&ev, ok)
		}
		if got != lines[i] {
			t.Errorf("%s\n got %s\nwant %s", line, got, lines[i])
		}
		p.Reset()
	}
}

func TestCutByFormat(t *testing.T) {
	const head = "192.0.2.7 - - [20/Nov/2026:09:23:10 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \""
	for _, c := range []struct{ format, line, want string }{
		{"", head + "aaaa", "192.0.2.7"},
		{"combined", head + "aaaa", "192.0.2.7"},
		{`$remote_addr "$request" $status`, "192.0.2.7 \"GET /aaaa", "192.0.2.7"},
		{`$http_x_real_ip "$request" $remote_addr`, "203.0.113.66 \"GET /aaaa\" 203.0.113.67", ""},
		{"", "2026-11-20 09:23:10: (mod_auth.c.850) password doesn't match for /x username: x IP: 203.0.113.66", ""},
		{"", "user=x remote_addr=203.0.113.66 msg=\"login failed\"", ""},
	} {
		ev, ok := parseCut(t, Options{Format: c.format}, c.line, true)
		if got := ev.Addr.IsValid() && ok; got != (c.want != "") || got && ev.Addr.String() != c.want {
			t.Errorf("%s as %q: %v %v, want %q", c.line, c.format, ok, ev.Addr, c.want)
		}
	}
}
