package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// family is one IP version's cast.
type family struct {
	name                                  string
	server, attacker, neighbour, outsider string
	prefix                                string
}

var families = []family{
	{"ipv4", Server, Attacker, Neighbour, Outsider, "192.0.2.16/28"},
	{"ipv6", Server6, Attacker6, Neighbour6, Outsider6, "2001:db8:2::/64"},
}

const sshTTL = 10 * time.Minute

func sshRules(log, backend string) string {
	return fmt.Sprintf(`
use: []
sources:
  - file: %s
    service: sshd
allow: ["%s"]
protect: {own: false}
block: {ttl: %s, multiply: 1}
firewall: {backend: %s}
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    bucket: {capacity: 5, leak: 1m}
`, log, Friend, sshTTL, backend)
}

// TestSSH is the main job, end to end, on every wall that stands in the
// kernel's way: the sixth failure closes the door on the prefix and on
// nobody else, and the door opens again with and without us.
func TestSSH(t *testing.T) {
	need(t, "sshd", "ssh", "sshpass", "rsyslogd", "iptables", "nc", "ss", "ssh-keygen")
	for _, wall := range []struct{ backend, template string }{
		{"iptables", "RSYSLOG_TraditionalFileFormat"},
		{"auto", "RSYSLOG_FileFormat"},
	} {
		t.Run(wall.backend, func(t *testing.T) { testSSH(t, wall.backend, wall.template) })
	}
}

func testSSH(t *testing.T, backend, template string) {
	server, others := newNet(t)
	dir := scratch(t)
	log := sshServer(t, server, dir, template)
	s := stoplog(t, server, sshRules(log, backend), "-v")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("stoplog said:\n%s", s.out.all.String())
		}
	})
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			breakIn(t, s, others, dir, f)
			closed(t, server, others, f)
			s.ask(t, "unblock", f.attacker)
			s.out.waitFor(t, "msg=lifted", "prefix="+f.prefix)
			if !others.reaches(f.attacker, f.server, "22", deadline(0)) {
				t.Error("unblocked and still shut out")
			}
		})
	}
	t.Run("expiry", func(t *testing.T) {
		blockFor(t, s, 6*time.Second) // long enough to see it held on a busy machine
		s.out.waitFor(t, "msg=unblock", "prefix="+Attacker+"/32", "why=expired")
		if !others.reaches(Attacker, Server, "22", deadline(0)) {
			t.Error("the block ended and still holds")
		}
	})
	t.Run("dead", func(t *testing.T) {
		blockFor(t, s, 20*time.Second)
		s.kill(t)
		if others.reaches(Attacker, Server, "22", 1) {
			t.Error("the block went with its daemon")
		}
		// The kernel ends it alone: this connection waits for that.
		if !others.reaches(Attacker, Server, "22", deadline(20*time.Second)) {
			t.Error("a dead stoplog's block outlived its TTL")
		}
	})
}

// blockFor blocks the attacker's address by hand and waits for the wall.
func blockFor(t *testing.T, s *instance, ttl time.Duration) {
	t.Helper()
	s.ask(t, "block", Attacker, "--ttl", ttl.String())
	s.out.waitFor(t, "msg=held", "prefix="+Attacker+"/32")
}

// breakIn fails six logins and waits for the block. The sixth is cut off
// while it lasts: nobody waits for its end.
func breakIn(t *testing.T, s *instance, others host, dir string, f family) {
	t.Helper()
	for i := range 5 {
		if out, err := sshTry(others, dir, f.attacker, f.server, fmt.Sprintf("intruder%d", i), "guess"); err == nil {
			t.Fatalf("the intruder is in: %s", out)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = sshTryContext(ctx, others, dir, f.attacker, f.server, "intruder5", "guess")
	}()
	defer func() { cancel(); <-done }()
	l := s.out.waitFor(t, "msg=block", "prefix="+f.prefix)
	if !strings.Contains(l, "count=6") {
		t.Errorf("the block is not of the sixth failure: %s", l)
	}
	s.out.waitFor(t, "msg=held", "prefix="+f.prefix)
}

// closed looks who reaches the server while the attacker's prefix is blocked.
func closed(t *testing.T, server, others host, f family) {
	t.Helper()
	for _, c := range []struct {
		who, src string
		want     bool
	}{
		{"the attacker", f.attacker, false},
		{"a neighbour in its prefix", f.neighbour, false},
		{"somebody outside", f.outsider, true},
	} {
		seconds := 2 // one that gets through has the time that a busy machine needs
		if c.want {
			seconds = deadline(0)
		}
		if got := others.reaches(c.src, f.server, "22", seconds); got != c.want {
			t.Errorf("%s (%s) reaches the server: %v, want %v", c.who, c.src, got, c.want)
		}
	}
	if f.name == "ipv4" && !others.reaches(Friend, f.server, "22", deadline(0)) {
		t.Errorf("an allowed address inside the blocked prefix is shut out")
	}
	// Replies to our own connections pass.
	_, out := start(t, others, "nc", "-lk", f.attacker, "2222")
	waitListening(t, others, "2222", out)
	if !server.reaches(f.server, f.attacker, "2222", deadline(0)) {
		t.Errorf("our own connection into the blocked prefix fails")
	}
}
