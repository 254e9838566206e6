package packaging

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// root is a fresh Debian below dir, with a network of its own.
type root struct {
	dir, net string
}

func (r root) do(t *testing.T, argv ...string) string {
	t.Helper()
	return run(t, append([]string{"ip", "netns", "exec", r.net, "chroot", r.dir}, argv...)...)
}

func (r root) path(p string) string { return filepath.Join(r.dir, p) }

// TestSoakInstalled installs the package into a fresh Debian, runs it there,
// upgrades it, and purges it: rules survive the upgrade, nothing the purge.
func TestSoakInstalled(t *testing.T) {
	if os.Getenv("STOPLOG_SOAK") == "" {
		t.Skip("long: set STOPLOG_SOAK=1")
	}
	need(t, true, "debootstrap", "ip", "chroot", "unshare", "nft")
	first, second := deb(t, "7.0.1"), deb(t, "7.0.2")
	r := debian(t)
	before := files(t, r)

	run(t, "cp", first, r.path("/first.deb"))
	run(t, "cp", second, r.path("/second.deb"))
	r.do(t, "dpkg", "-i", "/first.deb")
	if _, err := os.Stat(r.path("/etc/stoplog/rules.yaml")); err == nil {
		t.Error("the package brought rules")
	}
	r.do(t, "stoplog", "check")
	r.do(t, "getent", "passwd", "stoplog")
	run(t, "ip", "netns", "exec", r.net, "nft", "add table inet others; add chain inet others c { type filter hook input priority 0; }")
	others := run(t, "ip", "netns", "exec", r.net, "nft", "list", "table", "inet", "others")

	s := start(t, r)
	attack(t, r)
	awaitBlock(t, r, "192.0.2.0/28")
	s.stop()

	const mine = "# mine\nuse: [ssh]\nallow: [\"198.51.100.7\"]\n"
	if err := os.WriteFile(r.path("/etc/stoplog/rules.yaml"), []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	r.do(t, "dpkg", "-i", "/second.deb")
	if b, err := os.ReadFile(r.path("/etc/stoplog/rules.yaml")); err != nil || string(b) != mine {
		t.Errorf("the upgrade made the rules %q, %v", b, err)
	}
	if out := r.do(t, "stoplog", "version"); !strings.Contains(out, "7.0.2") {
		t.Errorf("after the upgrade it is %s", out)
	}
	s = start(t, r)
	awaitBlock(t, r, "192.0.2.0/28") // the block outlived the upgrade
	s.stop()

	r.do(t, "dpkg", "--purge", "stoplog")
	if out := run(t, "ip", "netns", "exec", r.net, "nft", "list", "tables"); strings.Contains(out, "stoplog") {
		t.Errorf("left in the firewall:\n%s", out)
	}
	if got := run(t, "ip", "netns", "exec", r.net, "nft", "list", "table", "inet", "others"); got != others {
		t.Errorf("others' rules changed from\n%s\nto\n%s", others, got)
	}
	for path := range files(t, r) {
		if !before[path] && strings.Contains(path, "stoplog") {
			t.Errorf("left after the purge: %s", path)
		}
	}
	for _, f := range []string{"/etc/passwd", "/etc/group"} {
		if b, _ := os.ReadFile(r.path(f)); bytes.Contains(b, []byte("stoplog")) {
			t.Errorf("the user is left in %s", f)
		}
	}
}

// debian makes a fresh root and a network for it.
func debian(t *testing.T) root {
	t.Helper()
	dir, err := os.MkdirTemp("", "stoplog-debian-")
	if err != nil {
		t.Fatal(err)
	}
	// The service, which is not root, goes through it.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := root{dir, fmt.Sprintf("stoplog-%d", os.Getpid())}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run(t, "debootstrap", "--variant=minbase", "--include=nftables,adduser", "stable", dir)
	run(t, "ip", "netns", "add", r.net)
	t.Cleanup(func() { exec.Command("ip", "netns", "delete", r.net).Run() })
	run(t, "ip", "-n", r.net, "link", "set", "lo", "up")
	return r
}

// start runs the program in the root as the unit does.
func start(t *testing.T, r root) *service {
	t.Helper()
	// What systemd does for StateDirectory and RuntimeDirectory.
	for _, d := range []string{"/var/lib/stoplog", "/run/stoplog"} {
		r.do(t, "mkdir", "-p", d)
		r.do(t, "chown", "stoplog:stoplog", d)
	}
	r.do(t, "sh", "-c", "touch /var/log/auth.log && chgrp adm /var/log/auth.log && chmod 640 /var/log/auth.log")
	script := `mount -t proc proc "$0/proc" && exec chroot "$0" "$@"`
	argv := append([]string{"netns", "exec", r.net, "unshare", "-m", "sh", "-c", script, r.dir}, asUnit(t, "stoplog", "stoplog")...)
	c := exec.Command("ip", append(argv, "/usr/bin/stoplog", "run")...)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET=/run/notify"}
	s := launch(t, c, r.path("/run/notify"))
	s.await("READY=1")
	return s
}

// attack logs what sshd says of failures.
func attack(t *testing.T, r root) {
	t.Helper()
	f, err := os.OpenFile(r.path("/var/log/auth.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 12 {
		fmt.Fprintf(f, "%s host sshd[%d]: Failed password for invalid user bob from 192.0.2.7 port 4000 ssh2\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), 100+i)
	}
}

// awaitBlock waits until a block is listed and in the kernel.
func awaitBlock(t *testing.T, r root, prefix string) {
	t.Helper()
	// The set of /28 holds the first address of each.
	addr, _, _ := strings.Cut(prefix, "/")
	deadline := time.Now().Add(patience)
	for {
		list := r.do(t, "stoplog", "list", "--json")
		table := run(t, "ip", "netns", "exec", r.net, "nft", "list", "table", "inet", "stoplog")
		if strings.Contains(list, `"prefix":"`+prefix+`"`) && strings.Contains(table, addr+" timeout") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not blocked:\n%s%s", prefix, list, table)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// files lists all paths below the root.
func files(t *testing.T, r root) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, p := range strings.Split(run(t, "find", r.dir, "-xdev"), "\n") {
		all[strings.TrimPrefix(p, r.dir)] = true
	}
	return all
}
