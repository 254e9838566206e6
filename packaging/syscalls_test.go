package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// groups are systemd's sets of system calls, by name, sets within them too.
func groups(t *testing.T) map[string][]string {
	t.Helper()
	all, name := map[string][]string{}, ""
	for _, l := range strings.Split(run(t, "systemd-analyze", "--no-pager", "syscall-filter"), "\n") {
		switch word := strings.TrimSpace(l); {
		case strings.HasPrefix(l, "@"):
			name = word
		case strings.HasPrefix(l, "    ") && word != "" && !strings.HasPrefix(word, "#"):
			all[name] = append(all[name], word)
		}
	}
	return all
}

// apply changes set by one SystemCallFilter= (systemd.exec(5)).
func apply(all map[string][]string, set map[string]bool, name string, on bool) {
	if !strings.HasPrefix(name, "@") {
		set[name] = on
		return
	}
	for _, n := range all[name] {
		apply(all, set, n, on)
	}
}

// filtered are the calls that the unit allows.
func filtered(t *testing.T) map[string]bool {
	t.Helper()
	unit, err := os.ReadFile("stoplog.service")
	if err != nil {
		t.Fatal(err)
	}
	all, set := groups(t), map[string]bool{}
	apply(all, set, "@default", true) // always part of a list of what is allowed
	for _, l := range strings.Split(string(unit), "\n") {
		list, ok := strings.CutPrefix(l, "SystemCallFilter=")
		if !ok {
			continue
		}
		list, not := strings.CutPrefix(list, "~")
		for _, name := range strings.Fields(list) {
			apply(all, set, name, !not)
		}
	}
	return set
}

var callRE = regexp.MustCompile(`^\d+ +([a-z_0-9]+)\(`)

// TestSystemCalls follows a run with a block, a reload and an end, and sees
// that the unit allows each system call of both processes.
func TestSystemCalls(t *testing.T) {
	need(t, true, "strace", "setpriv", "unshare", "systemd-analyze")
	allowed := filtered(t)
	bin := build(t)
	dir := filepath.Dir(bin)
	for _, d := range []string{"state", "run", "flags"} {
		p := filepath.Join(dir, d)
		if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	notify := filepath.Join(dir, "notify")
	sock, trace := filepath.Join(dir, "run", "s.sock"), filepath.Join(dir, "trace")
	// strace follows what setpriv starts; setpriv's own calls come before.
	argv := append([]string{"-n", "strace", "-f", "-qq", "-o", trace}, asUnit(t, "65534", "65534")...)
	argv = append(argv, bin, "run", "--state", filepath.Join(dir, "state"), "--flags", filepath.Join(dir, "flags"), "--socket", sock)
	c := exec.Command("unshare", argv...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + notify, "WATCHDOG_USEC=500000"}
	s := launch(t, c, notify)
	s.trace = trace
	s.await("READY=1")
	run(t, bin, "--socket", sock, "block", "192.0.2.7", "--ttl", "1h")
	run(t, bin, "--socket", sock, "allow", "add", "192.0.2.9")
	run(t, bin, "--socket", sock, "reload")
	s.await("WATCHDOG=1")
	s.stop()
	judge(t, trace, bin, allowed)
}

func judge(t *testing.T, trace, bin string, allowed map[string]bool) {
	t.Helper()
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	_, ours, ok := strings.Cut(string(b), `execve("`+bin+`"`)
	if !ok {
		t.Fatal("the program was not started")
	}
	seen := map[string]bool{}
	for _, l := range strings.Split(ours, "\n") {
		m := callRE.FindStringSubmatch(l)
		if m == nil || seen[m[1]] {
			continue
		}
		seen[m[1]] = true
		if !allowed[m[1]] {
			t.Errorf("the unit does not allow %s", l)
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d kinds of calls were seen", len(seen))
	}
}
