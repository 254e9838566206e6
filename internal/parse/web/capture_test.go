package web

import (
	"strings"
	"testing"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/parsetest"
)

// The lines that real servers wrote (hack/capture/web.sh): 127.0.0.9 failed
// these logins, and nobody else is ever named.
func TestCapturedLines(t *testing.T) {
	for _, c := range []struct {
		file     string
		read     reader
		failures int
		users    string // of the failures, in order
	}{
		{"nginx-access.log", (*Reader).Any, 6, "alice|nobody|a b] [client 203.0.113.66] user root not found|x\\x22, client 203.0.113.66, server|root, IP|alice"},
		{"nginx-main.log", (*Reader).Any, 6, "alice|nobody|a b] [client 203.0.113.66] user root not found|x\\x22, client 203.0.113.66, server|root, IP|alice"},
		{"nginx-json.log", (*Reader).Any, 6, "alice|nobody|a b] [client 203.0.113.66] user root not found|x\", client 203.0.113.66, server|root, IP|alice"},
		{"nginx-error.log", (*Reader).Any, 9, "alice|nobody|a b] [client 203.0.113.66] user root not found|x\", client 203.0.113.66, server|root, IP||||alice"},
		{"apache-access.log", (*Reader).Any, 7, "alice|nobody|a b] [client 203.0.113.66] user root not found|x\\\", client 203.0.113.66, server|root, IP|alice|nobody"},
		{"apache-vhost.log", (*Reader).Any, 7, "alice|nobody|a b] [client 203.0.113.66] user root not found|x\\\", client 203.0.113.66, server|root, IP|alice|nobody"},
		{"apache-error.log", (*Reader).Any, 11, "alice|nobody|a b] [client 203.0.113.66] user root not found|x\", client 203.0.113.66, server|root, IP|alice|nobody||||"},
		{"haproxy.log", (*Reader).haproxyAny, 10, ""},
		{"lighttpd-error.log", (*Reader).Any, 6, "alice|nobody|a b] [client 203.0.113.66] user root not found|x\", client 203.0.113.66, server|root, IP|alice"},
		{"lighttpd-access.log", (*Reader).Any, 0, ""},
		{"squid-access.log", (*Reader).Any, 1, ""},
	} {
		p := webParser(t, Options{})
		failures, users, unknown := 0, []string{}, 0
		for _, line := range webLines(t, c.file) {
			var ev event.Event
			if !p.read(c.read, []byte(line), &ev) {
				unknown++
				continue
			}
			switch a := ev.Addr.String(); a {
			case "127.0.0.9", "127.0.0.1", "::1", "invalid IP":
			default:
				t.Errorf("%s: blames %s: %s", c.file, a, line)
			}
			if ev.Outcome == event.Failure {
				failures++
				users = append(users, string(ev.User))
			}
		}
		got := strings.Join(users, "|")
		if c.users == "" {
			got = ""
		}
		if failures != c.failures || got != c.users {
			t.Errorf("%s: got %d failures of %s, want %d of %s", c.file, failures, got, c.failures, c.users)
		}
		if unknown > 0 {
			t.Errorf("%s: %d lines not understood", c.file, unknown)
		}
	}
}

// A line that is cut anywhere names the client of the whole line or nobody:
// never one whose address begins like its own. lighttpd's ends with it, and a
// logfmt line may.
func TestCutWebLines(t *testing.T) {
	p := webParser(t, Options{})
	for _, h := range parsetest.WebLines() {
		if h.Name == "lighttpd" || h.Name == "logfmt" {
			continue
		}
		line := strings.Replace(h.Line("name"), "192.0.2.7", "192.0.2.77", 1)
		for n := range len(line) {
			var ev event.Event
			if p.read(families[h.Family], []byte(line[:n]), &ev) && ev.Addr.IsValid() && ev.Addr.String() != "192.0.2.77" {
				t.Errorf("%s: cut after %d: %v", h.Name, n, ev.Addr)
			}
		}
	}
}
