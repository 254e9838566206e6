package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// instance is one running stoplog with files of its own.
type instance struct {
	host
	dir    string
	config string
	cmd    *exec.Cmd
	out    *output
	extra  []string
}

// stoplog starts the program in h with these rules and waits until its walls
// stand.
func stoplog(t *testing.T, h host, rules string, extra ...string) *instance {
	t.Helper()
	s := &instance{host: h, dir: scratch(t), extra: extra}
	s.config = put(t, filepath.Join(s.dir, "rules.yaml"), rules, 0o644)
	s.start(t)
	return s
}

func (s *instance) start(t *testing.T) {
	t.Helper()
	argv := append([]string{binary, "run", "--config", s.config, "--state", filepath.Join(s.dir, "state"),
		"--flags", filepath.Join(s.dir, "flags"), "--socket", s.socket(), "--user", "nobody"}, s.extra...)
	s.cmd, s.out = start(t, s.host, argv...)
	s.out.waitFor(t, "wall is set up")
}

func (s *instance) socket() string { return filepath.Join(s.dir, "run", "stoplog.sock") }

// ask runs a command of the administrator.
func (s *instance) ask(t *testing.T, args ...string) string {
	t.Helper()
	return s.run(t, append([]string{binary, "--socket", s.socket()}, args...)...)
}

// kill ends it as an accident would and waits until it is gone; the wall
// process ends by itself.
func (s *instance) kill(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// The process that reads is the one that `ip netns exec` became.
	if err := s.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range s.out.lines {
		if ctx.Err() != nil {
			t.Fatal("it did not end")
		}
	}
}

// deadline is when something that lasts for d from now must be over, with
// room for a slow machine.
func deadline(d time.Duration) int { return int(d.Seconds()) + 20 }
