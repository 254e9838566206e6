// Package packaging tests the packages and the unit that systemd runs.
package packaging

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"stoplog/internal/testkit"
)

// need skips a test that cannot run here.
func need(t *testing.T, root bool, programs ...string) {
	t.Helper()
	if root {
		testkit.NeedRoot(t)
	}
	testkit.Need(t, programs...)
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// build makes the program where any user may reach it.
func build(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stoplog-packaging-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "stoplog")
	c := exec.Command("go", "build", "-o", bin, "stoplog")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	return bin
}

var exposureRE = regexp.MustCompile(`Overall exposure level for \S+: ([\d.]+)`)

// TestExposure holds the unit, with each of the drop-ins for the network's
// other ways too, to what it promises.
func TestExposure(t *testing.T) {
	need(t, false, "systemd-analyze")
	unit, err := os.ReadFile("stoplog.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dropIn string
		most   float64
	}{{"", 2.0}, {"logs-in-homes.conf", 2.0}, {"exports.conf", 2.0}, {"hosts-deny.conf", 3.0}} {
		text := string(unit)
		if c.dropIn != "" {
			more, err := os.ReadFile(filepath.Join("examples", c.dropIn))
			if err != nil {
				t.Fatal(err)
			}
			text += "\n" + string(more)
		}
		path := filepath.Join(t.TempDir(), "stoplog.service")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out := run(t, "systemd-analyze", "security", "--offline=true", path)
		m := exposureRE.FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no exposure in\n%s", out)
		}
		got, _ := strconv.ParseFloat(m[1], 64)
		t.Logf("%s: %.1f", c.dropIn, got)
		if got > c.most {
			t.Errorf("with %q: exposure %.1f, want at most %.1f\n%s", c.dropIn, got, c.most, out)
		}
	}
}

// asUnit is how systemd starts the unit: its user, its groups, the ambient
// capabilities that the unit names, nothing else in the bounding set, no new
// privileges.
func asUnit(t *testing.T, user, group string) []string {
	t.Helper()
	caps := func(key string) string {
		unit, err := os.ReadFile("stoplog.service")
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindSubmatch(unit)
		if m == nil {
			t.Fatalf("the unit has no %s", key)
		}
		return "-all,+" + strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(string(m[1]), "CAP_", "")), " ", ",+")
	}
	ambient := caps("AmbientCapabilities")
	return []string{"setpriv", "--reuid=" + user, "--regid=" + group, "--groups=4", "--inh-caps=" + ambient,
		"--ambient-caps=" + ambient, "--bounding-set=" + caps("CapabilityBoundingSet"), "--no-new-privs"}
}

// TestRightsAsUnit starts the program as the unit does, in a network of its
// own, and looks at what each of the two processes holds.
func TestRightsAsUnit(t *testing.T) {
	need(t, true, "setpriv", "unshare", "nsenter", "nft")
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
	rules, sock := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "run", "s.sock")
	if err := os.WriteFile(rules, []byte("use: []\nsources: [{file: "+dir+"/auth.log}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	argv := append(append([]string{"-n"}, asUnit(t, "65534", "65534")...), bin, "run", "--config", rules, "--state", filepath.Join(dir, "state"),
		"--flags", filepath.Join(dir, "flags"), "--socket", sock)
	c := exec.Command("unshare", argv...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + filepath.Join(dir, "notify"), "WATCHDOG_USEC=200000"}
	s := launch(t, c, filepath.Join(dir, "notify"))
	s.await("READY=1")
	s.await("WATCHDOG=1")
	s.await("WATCHDOG=1")

	pid := strconv.Itoa(c.Process.Pid)
	run(t, bin, "--socket", sock, "block", "192.0.2.7", "--ttl", "1h")
	if out := run(t, "nsenter", "-t", pid, "-n", "nft", "list", "table", "inet", "stoplog"); !strings.Contains(out, "192.0.2.7") {
		t.Errorf("what was blocked is not in the kernel:\n%s", out)
	}
	reader, wall := status(t, pid), status(t, childOf(t, pid))
	for _, w := range []struct {
		of         map[string]string
		name, caps string
	}{{reader, "the reader", "0000000000000000"}, {wall, "the wall", "0000000000001000"}} { // CAP_NET_ADMIN is bit 12
		for _, set := range []string{"CapEff", "CapPrm"} {
			if w.of[set] != w.caps {
				t.Errorf("%s: %s is %s, want %s", w.name, set, w.of[set], w.caps)
			}
		}
		if w.of["NoNewPrivs"] != "1" || !strings.HasPrefix(w.of["Uid"], "65534\t65534") {
			t.Errorf("%s: NoNewPrivs %s, Uid %s", w.name, w.of["NoNewPrivs"], w.of["Uid"])
		}
	}
	if out := run(t, bin, "--socket", sock, "status"); !strings.Contains(out, "Landlock") {
		t.Errorf("status does not tell of Landlock:\n%s", out)
	}
	s.stop()
}

// TestBackendsAsUnit: each backend blocks and unblocks with the rights that the
// unit gives, on machines with either kind of iptables.
func TestBackendsAsUnit(t *testing.T) {
	need(t, true, "setpriv", "unshare", "nsenter", "nft", "ipset", "iptables-nft", "iptables-legacy")
	bin := build(t)
	const legacy = "mount --bind $(readlink -f /usr/sbin/iptables-legacy) $(readlink -f /usr/sbin/iptables-nft); touch /run/xtables.lock DIR/lock; chgrp 65534 DIR/lock; chmod 640 DIR/lock; mount --bind DIR/lock /run/xtables.lock; "
	const sets = "ipset create mine hash:net timeout 0; ipset create mine6 hash:net family inet6 timeout 0; "
	for _, c := range []struct{ name, firewall, prepare, list string }{
		{"nftables", "backend: nftables", "", "nft list table inet stoplog"},
		{"ipset, nft", "backend: ipset", "", "iptables -S STOPLOG-SET-BLOCKS | grep -q match-set && ipset list stoplog4-drop"},
		{"ipset, legacy", "backend: ipset", legacy, "iptables -S STOPLOG-SET-BLOCKS | grep -q match-set && ipset list stoplog4-drop"},
		{"iptables, nft", "backend: iptables", "", "iptables -S STOPLOG-BLOCKS"},
		{"iptables, legacy", "backend: iptables", legacy, "iptables -S STOPLOG-BLOCKS"},
		{"set-only, ipset", "{backend: set-only, sets: {kind: ipset, ipv4: mine, ipv6: mine6}}", sets, "ipset list mine"},
		{"exec", "{backend: exec, exec: {block: [DIR/block], unblock: [DIR/unblock]}}", "", "cat DIR/run/list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := unitRun(t, bin, c.firewall, c.prepare)
			list := func() string {
				out, _ := exec.Command("nsenter", "-t", x.pid, "-n", "-m", "sh", "-c", strings.ReplaceAll(c.list, "DIR", x.dir)).CombinedOutput()
				return string(out)
			}
			run(t, bin, "--socket", x.sock, "block", "192.0.2.7", "--ttl", "1h")
			if out := list(); !strings.Contains(out, "192.0.2.7") {
				t.Errorf("what was blocked is not held:\n%s", out)
			}
			run(t, bin, "--socket", x.sock, "unblock", "192.0.2.7")
			if out := list(); strings.Contains(out, "192.0.2.7") {
				t.Errorf("what was unblocked is held still:\n%s", out)
			}
			if out := run(t, "ps", "-o", "comm=,args=", "-p", x.pid+","+childOf(t, x.pid)); strings.Count(out, "stoplog ") < 2 || strings.Contains(out, "exe ") {
				t.Errorf("ps shows\n%s", out)
			}
		})
	}
}

// unit is the program as the unit starts it, in namespaces of its own.
type unit struct{ dir, pid, sock string }

// unitRun starts it with a firewall section, after a command as root.
func unitRun(t *testing.T, bin, firewall, prepare string) unit {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(bin), "unit-")
	if err != nil {
		t.Fatal(err)
	}
	x := unit{dir: dir, sock: filepath.Join(dir, "run", "s.sock")}
	for _, d := range []string{"", "state", "run", "flags"} {
		p := filepath.Join(dir, d)
		if err := errors.Join(os.MkdirAll(p, 0o755), os.Chmod(p, 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p, 65534, 65534); d != "" && err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasPrefix(firewall, "backend") {
		firewall = "{" + firewall + "}"
	}
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("rules.yaml", "use: []\nsources: [{file: "+dir+"/auth.log}]\nfirewall: "+strings.ReplaceAll(firewall, "DIR", dir)+"\n", 0o644)
	write("block", "#!/bin/sh\ncat >>"+dir+"/run/list\n", 0o755)
	write("unblock", "#!/bin/sh\n: >"+dir+"/run/list\n", 0o755)
	argv := []string{"-n", "-m", "sh", "-c", strings.ReplaceAll(prepare, "DIR", dir) + `exec "$@"`, "sh"}
	argv = append(append(argv, asUnit(t, "65534", "65534")...), bin, "run", "--config", filepath.Join(dir, "rules.yaml"),
		"--state", filepath.Join(dir, "state"), "--flags", filepath.Join(dir, "flags"), "--socket", x.sock)
	c := exec.Command("unshare", argv...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + filepath.Join(dir, "notify")}
	s := launch(t, c, filepath.Join(dir, "notify"))
	x.pid = strconv.Itoa(c.Process.Pid)
	s.await("READY=1")
	return x
}

func status(t *testing.T, pid string) map[string]string {
	t.Helper()
	f, err := os.Open("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok {
			m[k] = strings.TrimSpace(v)
		}
	}
	return m
}

// childOf finds the wall process.
func childOf(t *testing.T, pid string) string {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	pids := children(n)
	if len(pids) == 0 {
		t.Fatalf("process %s has no child", pid)
	}
	return strconv.Itoa(pids[0])
}
