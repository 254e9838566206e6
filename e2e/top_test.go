package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// waitGone waits until a file is no more.
func waitGone(t *testing.T, path string) {
	t.Helper()
	until(t, path+" is still there", func() bool { _, err := os.Stat(path); return err != nil })
}

// until waits for what can only be looked at.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience / 2); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// terminal is a tmux of its own that runs one command.
type terminal struct{ name string }

func newTerminal(t *testing.T, argv ...string) terminal {
	t.Helper()
	x := terminal{filepath.Join(t.TempDir(), "tmux")}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", x.name, "kill-server").Run() })
	x.do(t, append([]string{"-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30"}, argv...)...)
	return x
}

func (x terminal) do(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.Command("tmux", append([]string{"-S", x.name}, args...)...)
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// see waits until the screen holds all words.
func (x terminal) see(t *testing.T, words ...string) {
	t.Helper()
	screen := ""
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience / 2); ; <-tick.C {
		screen = x.do(t, "capture-pane", "-p")
		if holds(screen, words) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the screen never held %q:\n%s", words, screen)
		}
	}
}

// TestTop works on the live screen by keys, in a real terminal.
func TestTop(t *testing.T) {
	need(t, "tmux")
	p := newPlain(t, "")
	auth := put(t, filepath.Join(scratch(t), "auth.log"), "", 0o644)
	put(t, p.config, fmt.Sprintf(listenRules, auth, "protect: {own: false, ssh_peers: false}"), 0o644)
	p.start(t)
	p.out.waitFor(t, "caught up")
	x := newTerminal(t, binary, "--socket", p.socket(), "top")
	x.see(t, "stoplog is ok, dry run", "NEWEST BLOCKS (0)", "FULLEST BUCKETS")
	f, err := os.OpenFile(auth, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 6 {
		fmt.Fprintf(f, "%s host sshd[%d]: Failed password for \x1b[2Jbob from 192.0.2.7 port 4000 ssh2\n", time.Now().Format(time.RFC3339), 100+i)
	}
	x.see(t, "NEWEST BLOCKS (1)", "192.0.2.0/28", "ssh-login", "6 of 5")
	x.do(t, "send-keys", "u")
	x.see(t, "unblock: 192.0.2.0/28")
	x.do(t, "send-keys", "Enter")
	x.see(t, "lifted 1 block", "NEWEST BLOCKS (0)")
	x.do(t, "send-keys", "b")
	x.do(t, "send-keys", "-l", "203.0.113.9 1h too loud")
	x.do(t, "send-keys", "Enter")
	x.see(t, "blocked 203.0.113.9/32 for 1h", "NEWEST BLOCKS (1)", "by hand", "too loud")
	x.do(t, "send-keys", "a")
	x.see(t, "allow: 203.0.113.9/32 7d")
	x.do(t, "send-keys", "Enter")
	x.see(t, "allowed 203.0.113.9/32 for 1w", "NEWEST BLOCKS (0)")
	if h := p.ask(t, "history", "203.0.113.9"); strings.Count(h, "too loud") != 1 || !strings.Contains(h, "allow") {
		t.Errorf("the audit trail:\n%s", h)
	}
	x.do(t, "send-keys", "q")

	line := "Failed password for bob from %s port 4000 ssh2"
	for addr, want := range map[string]string{"203.0.113.9": "203.0.113.9, allowed", "192.0.2.9": "bucket: 0 of 5 held; this adds 1"} {
		if w := p.ask(t, "explain", "--service", "sshd", "--line", fmt.Sprintf(line, addr)); !strings.Contains(w, "with the buckets of the running daemon") || !strings.Contains(w, want) {
			t.Errorf("explain --line does not say %q:\n%s", want, w)
		}
	}
	if r := p.ask(t, "report", "--since", "1d"); !strings.Contains(r, "2 blocks, 1 of them by hand") || !strings.Contains(r, "203.0.0.0/16") {
		t.Errorf("the report:\n%s", r)
	}
}

// TestListWatch follows the list until it is interrupted.
func TestListWatch(t *testing.T) {
	need(t, "tmux")
	auth := put(t, filepath.Join(scratch(t), "auth.log"), "", 0o644)
	p := newPlain(t, fmt.Sprintf(listenRules, auth, "protect: {own: false, ssh_peers: false}"))
	p.start(t)
	p.out.waitFor(t, "caught up")
	x := newTerminal(t, "sh", "-c", "trap : INT; "+binary+" --socket "+p.socket()+" list --watch; echo ended with $?; read x")
	x.see(t, "nothing is blocked")
	p.ask(t, "block", "203.0.113.9")
	x.see(t, "203.0.113.9/32", "by hand")
	p.ask(t, "unblock", "203.0.113.9")
	x.see(t, "nothing is blocked")
	x.do(t, "send-keys", "C-c")
	x.see(t, "ended with 0")
}
