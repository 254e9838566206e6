package e2e

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const idleRules = "use: []\nprotect: {own: false, ssh_peers: false}\nsources: [{file: /nowhere/auth.log, service: sshd}]\n" +
	"rules: [{name: ssh-login, match: {service: sshd, outcome: failure}, bucket: {capacity: 5, leak: 1m}}]\n"

// TestSignalDuringStart ends the program at instants of its start that chance
// chooses: it must never go on as if nobody had asked.
func TestSignalDuringStart(t *testing.T) {
	p := newPlain(t, idleRules)
	for i := range 200 {
		p.start(t)
		// Most of them before the program is executed anew without its rights.
		longest := 12 * time.Millisecond
		if i%10 == 0 {
			longest = 60 * time.Millisecond
		}
		delay := time.Millisecond + rand.N(longest)
		time.Sleep(delay) // not to wait for anything: the instant is the test's input
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(patience):
			_ = p.cmd.Process.Signal(syscall.SIGQUIT) // it tells where it is
			for l := range p.out.lines {
				t.Log(l)
			}
			t.Fatalf("try %d: still running after a SIGTERM %s after its start", i, delay)
		}
	}
	// A reload asked for that early must not end it.
	p.start(t)
	p.out.waitFor(t, "caught up")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.out.waitFor(t, "msg=reloaded")
}

// TestTwoDaemons starts a second one on the socket, and on the state folder,
// of the first.
func TestTwoDaemons(t *testing.T) {
	p := newPlain(t, idleRules)
	p.start(t)
	p.out.waitFor(t, "caught up")
	for name, c := range map[string]struct{ state, socket, want string }{
		"the socket": {filepath.Join(p.dir, "other"), p.socket(), "another stoplog is running"},
		"the state":  {filepath.Join(p.dir, "state"), filepath.Join(p.dir, "o", "o.sock"), "in use by another stoplog"},
	} {
		args := append(p.cmd.Args[1:len(p.cmd.Args):len(p.cmd.Args)], "--state", c.state, "--socket", c.socket)
		out, err := exec.Command(binary, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("a second daemon on %s: %v, %s, want a word of %q", name, err, out, c.want)
		}
	}
	if s := p.ask(t, "status"); !strings.Contains(s, " is ok") {
		t.Errorf("the first one suffered:\n%s", s)
	}
	// What a killed one left behind keeps nobody out.
	p.kill()
	p.start(t)
	p.out.waitFor(t, "caught up")
}
