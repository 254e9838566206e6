package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestWeb fails HTTP logins at a real nginx until the door closes.
func TestWeb(t *testing.T) {
	need(t, "nginx", "curl", "iptables", "nc", "ss")
	server, others := newNet(t)
	dir := scratch(t)
	log := webServer(t, server, dir)
	s := stoplog(t, server, fmt.Sprintf(`
use: []
sources: [{file: %s, service: nginx}]
protect: {own: false}
rules:
  - name: web-login
    match: {status: 401, outcome: failure}
    bucket: {capacity: 5, leak: 1m}
`, log), "-v")
	get := func(src, user string) string {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		out, _ := others.try(ctx, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", "--interface", src, "-u", user, "http://"+Server+"/")
		return strings.TrimSpace(out)
	}
	if code := get(Outsider, "alice:right"); code != "200" {
		t.Fatalf("a right password got %s", code)
	}
	for range 6 {
		if code := get(Attacker, "alice:wrong"); code != "401" {
			t.Fatalf("a wrong password got %s", code)
		}
	}
	s.out.waitFor(t, "msg=block", "prefix=192.0.2.16/28", "rule=web-login")
	s.out.waitFor(t, "msg=held", "prefix=192.0.2.16/28")
	if others.reaches(Attacker, Server, "80", 2) {
		t.Error("the attacker still reaches the server")
	}
	if code := get(Outsider, "alice:right"); code != "200" {
		t.Errorf("somebody outside gets %s", code)
	}
	// The administrator changes his mind.
	s.ask(t, "unblock", Attacker)
	s.out.waitFor(t, "msg=lifted", "prefix=192.0.2.16/28")
	if code := get(Attacker, "alice:right"); code != "200" {
		t.Errorf("after unblock the address gets %s", code)
	}
}
