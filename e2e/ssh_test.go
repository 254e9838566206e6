package e2e

import (
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

const sshTTL = 12 * time.Second

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
	s := stoplog(t, server, sshRules(log, backend))
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			breakIn(t, s, others, dir, f)
			closed(t, server, others, f)
			// Open again by the daemon.
			s.out.waitFor(t, "unblock", f.prefix, "expired")
			if !others.reaches(f.attacker, f.server, "22", deadline(0)) {
				t.Errorf("the block of %s ended and still holds", f.prefix)
			}
		})
	}
	t.Run("dead", func(t *testing.T) {
		f := families[0]
		breakIn(t, s, others, dir, f)
		s.kill(t)
		if others.reaches(f.attacker, f.server, "22", 2) {
			t.Error("the block went with its daemon")
		}
		// The kernel ends it alone: this connection waits for that.
		if !others.reaches(f.attacker, f.server, "22", deadline(sshTTL)) {
			t.Error("a dead stoplog's block outlived its TTL")
		}
	})
}

// breakIn fails six logins and waits for the block.
func breakIn(t *testing.T, s *instance, others host, dir string, f family) {
	t.Helper()
	for i := range 6 {
		if out, err := sshTry(others, dir, f.attacker, f.server, fmt.Sprintf("intruder%d", i), "guess"); err == nil {
			t.Fatalf("the intruder is in: %s", out)
		}
	}
	l := s.out.waitFor(t, "msg=block", "prefix="+f.prefix)
	if !strings.Contains(l, "count=6") {
		t.Errorf("the block is not of the sixth failure: %s", l)
	}
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
		if got := others.reaches(c.src, f.server, "22", 2); got != c.want {
			t.Errorf("%s (%s) reaches the server: %v, want %v", c.who, c.src, got, c.want)
		}
	}
	if f.name == "ipv4" && !others.reaches(Friend, f.server, "22", deadline(0)) {
		t.Errorf("an allowed address inside the blocked prefix is shut out")
	}
	// Replies to our own connections pass.
	_, out := start(t, others, "nc", "-lk", "-s", f.attacker, "2222")
	waitListening(t, others, "2222", out)
	if !server.reaches(f.server, f.attacker, "2222", deadline(0)) {
		t.Errorf("our own connection into the blocked prefix fails")
	}
}
