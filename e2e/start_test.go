package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
		// Most of them before the program is executed again without its rights.
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

// TestWallProcessEnds kills the process that sets the firewall's rules: the
// reader must end with an error, so that the supervisor starts both again.
func TestWallProcessEnds(t *testing.T) {
	need(t, "ip", "nft")
	server, _ := newNet(t)
	s := stoplog(t, server, idleRules)
	wall := 0
	for _, f := range children(t, s.cmd.Process.Pid) {
		if strings.Contains(f.cmdline, "\x00wall\x00") {
			wall = f.pid
		}
	}
	if wall == 0 {
		t.Fatal("no wall process")
	}
	if err := syscall.Kill(wall, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.out.waitFor(t, "the wall process ended: signal: killed")
	for range s.out.lines { // until it ends
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("got exit status %d, want 1", code)
	}
}

type child struct {
	pid     int
	cmdline string
}

// children lists the processes that pid started.
func children(t *testing.T, pid int) (all []child) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range tasks {
		b, _ := os.ReadFile(name)
		for _, f := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			line, _ := os.ReadFile(filepath.Join("/proc", f, "cmdline"))
			all = append(all, child{n, string(line)})
		}
	}
	return all
}

// TestLastGoodRules starts with broken rules: with the copy of the last good
// ones when there is one that only root can have written, and else not at all.
func TestLastGoodRules(t *testing.T) {
	need(t, "ip", "nft")
	server, _ := newNet(t)
	dir := scratch(t)
	config := put(t, filepath.Join(dir, "rules.yaml"), "prefix: {ipv4: 27}\n"+idleRules, 0o644)
	good := filepath.Join(dir, "good", "last-good.json")
	check := []string{binary, "check", config, "--last-good", good, "--group", "nogroup"}
	server.run(t, check...)
	put(t, config, "rulez: []\n", 0o644)
	if out, err := server.try(t.Context(), check...); err == nil || !strings.Contains(out, "rulez") {
		t.Errorf("check of broken rules: %v, %s", err, out)
	}
	s := &instance{host: server, dir: dir, config: config, extra: []string{"--last-good", good}}
	s.start(t)
	status := s.ask(t, "status")
	for _, want := range []string{"degraded", "1 mistake", "last good rules"} {
		if !strings.Contains(status, want) {
			t.Errorf("status lacks %q:\n%s", want, status)
		}
	}
	if out, err := server.try(t.Context(), binary, "--socket", s.socket(), "reload"); err == nil {
		t.Errorf("a reload of broken rules: %s", out)
	}
	put(t, config, idleRules, 0o644)
	s.ask(t, "reload")
	if status := s.ask(t, "status"); strings.Contains(status, "degraded") {
		t.Errorf("after the rules were mended:\n%s", status)
	}
	s.kill(t)
	put(t, config, "rulez: []\n", 0o644)
	argv := []string{binary, "run", "--config", config, "--state", filepath.Join(dir, "state"), "--flags", filepath.Join(dir, "flags"),
		"--socket", s.socket(), "--user", "nobody", "--last-good", good}
	for what, spoil := range map[string]func() error{
		"others can write the copy":        func() error { return os.Chmod(good, 0o666) },
		"it belongs to the reader":         func() error { return os.Chown(good, 65534, 65534) },
		"others can replace it":            func() error { return os.Chmod(filepath.Dir(good), 0o777) },
		"the folder belongs to the reader": func() error { return os.Chown(filepath.Dir(good), 65534, -1) },
		"it is cut":                        func() error { return os.Truncate(good, 30) },
		"there is none":                    func() error { return os.Remove(good) },
	} {
		put(t, config, idleRules, 0o644)
		if err := os.RemoveAll(filepath.Dir(good)); err != nil {
			t.Fatal(err)
		}
		server.run(t, check...)
		put(t, config, "rulez: []\n", 0o644)
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		out, err := server.try(t.Context(), argv...)
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 3 || !strings.Contains(out, "no last good rules") {
			t.Errorf("%s: got %v, %s; want exit status 3", what, err, out)
		}
	}
}

// TestInheritedDescriptors: what a shell left open is open in neither process,
// and no descriptor of theirs in the programs that they start.
func TestInheritedDescriptors(t *testing.T) {
	need(t, "unshare", "nft")
	p := newPlain(t, idleRules+"firewall: {backend: nftables}\n")
	left, err := os.Open(p.config)
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	c := exec.Command("unshare", "-n", binary, "run", "--config", p.config, "--state", filepath.Join(p.dir, "state"),
		"--flags", filepath.Join(p.dir, "flags"), "--socket", p.socket(), "--user", "nobody")
	c.ExtraFiles = []*os.File{left, left, left, left}
	p.launch(t, c)
	p.out.waitFor(t, "wall is set up")
	pids := []string{strconv.Itoa(c.Process.Pid)}
	tasks, _ := filepath.Glob("/proc/" + pids[0] + "/task/*/children")
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		pids = append(pids, strings.Fields(string(b))...)
	}
	if len(pids) < 2 {
		t.Fatal("there is no wall process")
	}
	for _, pid := range pids {
		fds, err := os.ReadDir("/proc/" + pid + "/fd")
		if err != nil || len(fds) < 4 {
			t.Fatalf("descriptors of %s: %v, %v", pid, fds, err)
		}
		for _, fd := range fds {
			to, _ := os.Readlink("/proc/" + pid + "/fd/" + fd.Name())
			if to == p.config {
				t.Errorf("process %s: descriptor %s of the shell is open", pid, fd.Name())
			}
			info, err := os.ReadFile("/proc/" + pid + "/fdinfo/" + fd.Name())
			if n, _ := strconv.Atoi(fd.Name()); err != nil || n < 3 {
				continue // closed meanwhile, or standard
			}
			_, flags, _ := strings.Cut(string(info), "flags:")
			f, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(flags, "\n", 2)[0]), 8, 64)
			if err != nil || f&syscall.O_CLOEXEC == 0 {
				t.Errorf("process %s: programs that it starts inherit descriptor %s, %s", pid, fd.Name(), to)
			}
		}
	}
}
