package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	for end := time.Now().Add(patience); !ok(); <-tick.C {
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
	for end := time.Now().Add(patience); ; <-tick.C {
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
	x.see(t, "stoplog is ok, dry run", "NEWEST BLOCKS (0)", "CLOSE TO A BLOCK")
	f, err := os.OpenFile(auth, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 6 {
		fmt.Fprintf(f, "%s host sshd[%d]: Failed password for \x1b[2Jbob from 192.0.2.7 port 4000 ssh2\n", time.Now().Format(time.RFC3339), 100+i)
	}
	x.see(t, "NEWEST BLOCKS (1)", "192.0.2.0/28", "ssh-login")
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
	x.see(t, "allowed 203.0.113.9/32 for 7d", "NEWEST BLOCKS (0)")
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

// status runs a command with this standard input and returns what it printed
// and its exit code.
func (p *plainRun) status(t *testing.T, stdin string, args ...string) (out string, code int) {
	t.Helper()
	c := exec.Command(binary, append([]string{"--socket", p.socket()}, args...)...)
	c.Stdin = strings.NewReader(stdin)
	b, _ := c.CombinedOutput() // the code says how it ended
	return string(b), c.ProcessState.ExitCode()
}

// TestOrders gives orders of several prefixes by the command line.
func TestOrders(t *testing.T) {
	need(t, "tmux")
	auth := put(t, filepath.Join(scratch(t), "auth.log"), "", 0o644)
	p := newPlain(t, fmt.Sprintf(listenRules, auth, "protect: {own: false, ssh_peers: false}"))
	p.start(t)
	p.out.waitFor(t, "caught up")
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		says        []string
	}{
		{"several", "", []string{"block", "192.0.2.7", "2001:db8::/64", "--reason", "loud"}, 0, []string{"192.0.2.7/32", "2001:db8::/64"}},
		{"standard input", "192.0.2.9 # a comment\n\n198.51.100.0/28 198.51.100.16/28\n", []string{"block", "-"}, 0, []string{"192.0.2.9/32", "198.51.100.0/28", "198.51.100.16/28"}},
		{"one is malformed", "203.0.113.1\nhost.example\n", []string{"block", "-"}, 2, []string{"host.example"}},
		{"nothing", "# none\n", []string{"block", "-"}, 2, []string{"no address"}},
		{"nothing was done", "", []string{"explain", "203.0.113.1"}, 0, []string{"203.0.113.1 is not blocked."}},
		{"JSON", "", []string{"block", "203.0.113.9", "--json"}, 0, []string{`{"target":"203.0.113.9","lines":["`}},
		{"a prefix as list prints it", "", []string{"explain", "198.51.100.0/28"}, 0, []string{"198.51.100.0/28 is blocked by", "Blocked nearby, in 198.51.100.0/24: 198.51.100.16/28"}},
		{"a wider one", "", []string{"explain", "192.0.2.0/24"}, 0, []string{"192.0.2.0/24 is not blocked as a whole.", "Blocked inside it:", "192.0.2.7/32", "192.0.2.9/32"}},
		{"its history", "", []string{"history", "192.0.2.0/24"}, 0, []string{"192.0.2.7/32", "192.0.2.9/32"}},
		{"an unknown rule", "", []string{"list", "--rule", "nosuch"}, 2, []string{"no such rule", "ssh-login"}},
		{"a rule without a block", "", []string{"list", "--rule", "ssh-login"}, 0, []string{"no blocks"}},
		{"many, unconfirmed", "", []string{"unblock", "198.51.100.0/24"}, 2, []string{"lifts 2 blocks", "--yes"}},
		{"still blocked", "", []string{"list", "--in", "198.51.100.0/24"}, 0, []string{"198.51.100.0/28", "198.51.100.16/28"}},
		{"many, confirmed", "", []string{"unblock", "--yes", "198.51.100.0/24"}, 0, []string{"lifted 2 blocks"}},
		{"one needs no yes", "", []string{"unblock", "192.0.2.7"}, 0, []string{"lifted 1 block"}},
		{"several allowances", "", []string{"allow", "add", "192.0.2.20", "192.0.2.21", "--ttl", "1h"}, 0, []string{"192.0.2.20/32", "192.0.2.21/32"}},
		{"one of two fails", "", []string{"block", "192.0.2.20", "203.0.113.20"}, 2, []string{"192.0.2.20", "locked 203.0.113.20/32"}},
		{"a flag", "", []string{"flag", "set", "captcha", "--ttl", "1h"}, 0, []string{"1h"}},
		{"a flag, as before", "", []string{"flag", "set", "captcha", "--for", "3h"}, 0, []string{"3h"}},
	} {
		out, code := p.status(t, c.stdin, c.args...)
		if code != c.code {
			t.Errorf("%s: exit %d, want %d\n%s", c.name, code, c.code, out)
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, out)
			}
		}
	}
	p.ask(t, "block", "198.51.100.0/28", "198.51.100.16/28", "--reason", strings.Repeat("a very long reason ", 10))
	x := newTerminal(t, "sh", "-c", binary+" --socket "+p.socket()+" unblock 198.51.100.0/24; echo ended with $?; "+binary+" --socket "+p.socket()+" list; read x")
	x.see(t, "Go on? [y/N]")
	x.do(t, "send-keys", "n", "Enter")
	x.see(t, "nothing was changed", "ended with 1", "198.51.100.16/28", "REASON")
	x.do(t, "send-keys", "Enter")
}

// TestListWatch follows the list until it is interrupted.
func TestListWatch(t *testing.T) {
	need(t, "tmux")
	auth := put(t, filepath.Join(scratch(t), "auth.log"), "", 0o644)
	p := newPlain(t, fmt.Sprintf(listenRules, auth, "protect: {own: false, ssh_peers: false}"))
	p.start(t)
	p.out.waitFor(t, "caught up")
	x := newTerminal(t, "sh", "-c", "trap : INT; "+binary+" --socket "+p.socket()+" list --watch; echo ended with $?; read x")
	x.see(t, "no blocks")
	p.ask(t, "block", "203.0.113.9")
	x.see(t, "203.0.113.9/32", "by hand")
	p.ask(t, "unblock", "203.0.113.9")
	x.see(t, "no blocks")
	x.do(t, "send-keys", "C-c")
	x.see(t, "ended with 0")
}

// openTerminal makes a pseudo-terminal: what a person types goes into hand,
// and what programs write comes out of it (pty(7)).
func openTerminal(t *testing.T) (hand, tty *os.File) {
	t.Helper()
	hand, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { hand.Close() })
	n, err := unix.IoctlGetInt(int(hand.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(hand.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return hand, tty
}

// TestCommandsLeaveTheTerminalAlone runs commands as a person at a terminal
// would who types on meanwhile: no command but top asks the terminal anything
// (an answer would be typed into the shell), and none takes what was typed.
func TestCommandsLeaveTheTerminalAlone(t *testing.T) {
	hand, tty := openTerminal(t)
	for _, args := range [][]string{{"version"}, {"help"}, {"--socket", "/nonexistent", "status"}, {"export", "--format", "none"}} {
		const typed = "ls -l\n"
		if _, err := hand.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c := exec.Command(binary, args...)
		c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
		c.Env = append(os.Environ(), "TERM=xterm-256color", "TMUX=", "TERM_PROGRAM=")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := c.Run(); err != nil && c.ProcessState.ExitCode() < 0 {
			t.Fatalf("%v: %v", args, err)
		}
		// A mark ends what there is to read.
		if _, err := tty.WriteString("\x04"); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 4096); !bytes.HasSuffix(out.Bytes(), []byte{4}); {
			n, err := hand.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(b[:n])
		}
		if bytes.IndexByte(out.Bytes(), 0x1b) >= 0 {
			t.Errorf("stoplog %v writes to the terminal %q", args, out.String())
		}
		line := make([]byte, 100)
		fd := int(tty.Fd())
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
		n, _ := unix.Read(fd, line)
		if got := string(line[:max(0, n)]); got != typed {
			t.Errorf("stoplog %v left of what was typed %q, want %q", args, got, typed)
		}
		if err := unix.SetNonblock(fd, false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWatchOnATerminal: watch shows colours on a terminal and none with
// NO_COLOR, and lets no text of a log reach it unescaped. ^C ends it while its
// pipe is still open.
func TestWatchOnATerminal(t *testing.T) {
	for env, coloured := range map[string]bool{"NO_COLOR=": true, "NO_COLOR=1": false} {
		hand, tty := openTerminal(t)
		lines, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer write.Close()
		c := exec.Command(binary, "watch", "--bell")
		c.Stdin, c.Stdout, c.Stderr = lines, tty, tty
		c.Env = append(os.Environ(), env)
		// The terminal is that of the program, so that ^C reaches it.
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines.Close()
		for _, who := range []string{"root", "\x1b[2J"} {
			if _, err := write.WriteString("Nov 22 16:20:01 host sshd[100]: Failed password for " + who + " from 192.0.2.7 port 5022 ssh2\n"); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		for b := make([]byte, 4096); strings.Count(out.String(), "port 5022") < 2; {
			n, err := hand.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(b[:n])
		}
		if got := strings.Contains(out.String(), "\x1b[31mfailure"); got != coloured {
			t.Errorf("%s: colours %v, want %v: %q", env, got, coloured, out.String())
		}
		if strings.Contains(out.String(), "\x1b[2J") || !strings.Contains(out.String(), `\x1b[2J`) {
			t.Errorf("%s: text of the log reached the terminal: %q", env, out.String())
		}
		if _, err := hand.Write([]byte{3}); err != nil { // ^C
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%s: ^C: %v", env, err)
		}
	}
}
