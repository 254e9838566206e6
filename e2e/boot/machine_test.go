// Package boot tests stoplog as a service of a booted system: a fresh Debian
// root, booted by systemd-nspawn, with a real systemd, journald, logind and
// sshd, and an attacker in another network namespace.
//
// A case is a test function:
//
//	func TestSomething(t *testing.T) {
//		m := boot(t, "trixie")   // skips where this cannot run
//		m.installBuilt()
//		m.run("systemctl", "start", "stoplog")
//		m.login("203.0.113.5", "alice", "wrong", "wrong")
//		m.awaitBlock("203.0.113.0/28")
//	}
//
// Each machine has its own copy of the root (an overlay), its own network and
// ends with its test. What takes longer than a few seconds, or needs a
// package of stoplog, calls soak(t) first.
package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/testkit"
)

// patience bounds every wait; a healthy run needs a fraction of it, on a busy
// machine too.
const patience = 3 * time.Minute

// machine is a booted system. Its methods fail the test on errors.
type machine struct {
	t       *testing.T
	dir     string // of the overlay
	inside  string // name of the machine's network namespace
	outside string // name of the attacker's
	leader  int    // process id of its systemd
	nspawn  *exec.Cmd
	console bytes.Buffer
}

// The network between them. Attackers are behind the gateway, so that no
// address of theirs is the machine's neighbour.
const (
	address  = "192.0.2.1"
	gateway  = "192.0.2.254"
	address6 = "2001:db8::1"
	gateway6 = "2001:db8::fe"
)

var machines atomic.Int32

// soak skips a test that is too long for every run.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("STOPLOG_SOAK") == "" {
		t.Skip("long: set STOPLOG_SOAK=1")
	}
}

// boot starts a machine from a fresh root of a Debian release.
func boot(t *testing.T, suite string) *machine {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a system")
	}
	need(t, "systemd-nspawn", "debootstrap", "chroot", "ip", "nsenter", "mount", "ssh", "setsid")
	n := fmt.Sprintf("%d-%d", os.Getpid(), machines.Add(1))
	m := &machine{t: t, dir: t.TempDir(), inside: "stoplog-in-" + n, outside: "stoplog-out-" + n}
	lower := base(t, suite)
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(m.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command(t, "mount", "-t", "overlay", "overlay", "-o",
		fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, filepath.Join(m.dir, "upper"), filepath.Join(m.dir, "work")), m.path("/"))
	t.Cleanup(func() { exec.Command("umount", "-l", m.path("/")).Run() })
	m.network()
	m.start()
	t.Cleanup(m.stop)
	return m
}

// need skips a test that cannot run here.
func need(t *testing.T, programs ...string) {
	t.Helper()
	testkit.NeedRoot(t)
	testkit.Need(t, programs...)
}

// network makes both namespaces and what connects them.
func (m *machine) network() {
	for _, ns := range []string{m.inside, m.outside} {
		command(m.t, "ip", "netns", "add", ns)
		m.t.Cleanup(func() { exec.Command("ip", "netns", "delete", ns).Run() })
		command(m.t, "ip", "-n", ns, "link", "set", "lo", "up")
	}
	command(m.t, "ip", "-n", m.outside, "link", "add", "out", "type", "veth", "peer", "name", "host0", "netns", m.inside)
	command(m.t, "ip", "-n", m.outside, "link", "set", "out", "up")
	command(m.t, "ip", "-n", m.inside, "link", "set", "host0", "up")
	for ns, addrs := range map[string][2]string{m.inside: {address, address6}, m.outside: {gateway, gateway6}} {
		dev := map[string]string{m.inside: "host0", m.outside: "out"}[ns]
		command(m.t, "ip", "-n", ns, "addr", "add", addrs[0]+"/24", "dev", dev)
		command(m.t, "ip", "-n", ns, "addr", "add", addrs[1]+"/64", "dev", dev, "nodad")
	}
	// Who is blocked in the middle of a connection gives up soon.
	command(m.t, "ip", "netns", "exec", m.outside, "sh", "-c", "echo 3 >/proc/sys/net/ipv4/tcp_retries2")
	command(m.t, "ip", "-n", m.inside, "route", "add", "default", "via", gateway)
	command(m.t, "ip", "-n", m.inside, "route", "add", "default", "via", gateway6)
}

// start boots the root and waits until its systemd says that it is up.
func (m *machine) start() {
	m.t.Helper()
	socket := filepath.Join(m.dir, "notify")
	os.Remove(socket)
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	argv := []string{"--quiet", "--boot", "--capability=all", "--network-namespace-path=/run/netns/" + m.inside, "--register=no",
		"--notify-ready=yes", "--console=pipe", "--hostname=boot", "--machine=" + m.inside, "--directory=" + m.path("/")}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		argv = append(argv, "--keep-unit") // nobody here to make a unit
	}
	m.console.Reset()
	m.nspawn = exec.Command("systemd-nspawn", argv...)
	m.nspawn.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	m.nspawn.Stdout, m.nspawn.Stderr = &m.console, &m.console
	if err := m.nspawn.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.leader = 0
	if err := m.awaitReady(c); err != nil {
		m.nspawn.Process.Kill()
		m.nspawn.Wait()
		m.t.Fatalf("booting: %v\n%s", err, m.console.String())
	}
}

// awaitReady learns the leader's process id (systemd-nspawn(1), --notify-ready).
func (m *machine) awaitReady(c *net.UnixConn) error {
	if err := c.SetReadDeadline(time.Now().Add(2 * patience)); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return err
		}
		ready := false
		for _, line := range strings.Split(string(buf[:n]), "\n") {
			if pid, ok := strings.CutPrefix(line, "X_NSPAWN_LEADER_PID="); ok {
				m.leader, _ = strconv.Atoi(pid)
			}
			ready = ready || line == "READY=1"
		}
		if ready && m.leader > 0 {
			return nil
		}
	}
}

// stop shuts the machine down in order, or after a while without.
func (m *machine) stop() {
	done := make(chan struct{})
	go func() { m.nspawn.Wait(); close(done) }()
	m.nspawn.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(patience / 2):
		syscall.Kill(m.leader, syscall.SIGKILL)
		m.nspawn.Process.Kill()
		<-done
	}
}

// reboot shuts down and boots again; files, but for those in /run and /tmp, stay.
func (m *machine) reboot() {
	m.t.Helper()
	m.stop()
	m.start()
}

// path is where the machine's file p is on this side.
func (m *machine) path(p string) string { return filepath.Join(m.dir, "root", p) }

// write makes a file in the machine.
func (m *machine) write(p, text string, mode os.FileMode) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(p)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.path(p), []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Chmod(m.path(p), mode); err != nil {
		m.t.Fatal(err)
	}
}

// in is the command line that runs argv as root in the machine, outside of
// its units and sessions.
func (m *machine) in(argv ...string) []string {
	return append([]string{"nsenter", "-t", strconv.Itoa(m.leader), "-a", "--", "env", "-i",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}, argv...)
}

// run runs a command as root in the machine.
func (m *machine) run(argv ...string) string {
	m.t.Helper()
	return command(m.t, m.in(argv...)...)
}

// try is run for a command that may fail.
func (m *machine) try(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	argv = m.in(argv...)
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}

// until waits until cond holds; what says what is waited for.
func (m *machine) until(what string, cond func() bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := m.try("journalctl", "--no-pager", "-n", "60")
			m.t.Fatalf("waited in vain for %s; the journal ends with\n%s", what, log)
		}
	}
}

// awaitUnit waits until a unit is in that state ("active", "failed"…).
func (m *machine) awaitUnit(unit, state string) {
	m.t.Helper()
	m.until(unit+" to be "+state, func() bool {
		out, _ := m.try("systemctl", "show", "-p", "ActiveState", "--value", unit)
		return strings.TrimSpace(out) == state
	})
}

// awaitJournal waits for an entry whose message contains text, selected by
// args as journalctl takes them.
func (m *machine) awaitJournal(text string, args ...string) {
	m.t.Helper()
	m.until(fmt.Sprintf("%q in the journal", text), func() bool {
		out, _ := m.try(append([]string{"journalctl", "--no-pager", "-q", "-o", "cat", "-a"}, args...)...)
		return strings.Contains(out, text)
	})
}

// installBuilt installs the program, its unit and its user without a package,
// and starts nothing.
func (m *machine) installBuilt() {
	m.t.Helper()
	c := exec.Command("go", "build", "-tags", "nethttpomithttp2", "-o", m.path("/usr/bin/stoplog"), "stoplog")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		m.t.Fatalf("building: %v\n%s", err, out)
	}
	command(m.t, "cp", "../../packaging/stoplog.service", m.path("/etc/systemd/system/stoplog.service"))
	m.run("adduser", "--quiet", "--system", "--group", "--no-create-home", "--home", "/var/lib/stoplog", "stoplog")
	m.run("systemctl", "daemon-reload")
}

// block is what "stoplog list --json" prints of a block.
type block struct {
	Prefix, Rule string
	Count        int
}

// blocks are the live blocks by the program's own word.
func (m *machine) blocks() (bs []block) {
	m.t.Helper()
	for d := json.NewDecoder(strings.NewReader(m.run("stoplog", "list", "--json"))); d.More(); {
		var b block
		if err := d.Decode(&b); err != nil {
			m.t.Fatal(err)
		}
		bs = append(bs, b)
	}
	return bs
}

// kernel is what the kernel holds of ours in nftables.
func (m *machine) kernel() string {
	out, _ := m.try("nft", "list", "table", "inet", "stoplog")
	return out
}

// awaitBlock waits until a prefix is blocked, by the program's word and in the
// kernel (nftables).
func (m *machine) awaitBlock(prefix string) {
	m.t.Helper()
	first, _, _ := strings.Cut(prefix, "/")
	m.until("the block of "+prefix, func() bool {
		out, err := m.try("stoplog", "list", "--json")
		return err == nil && strings.Contains(out, `"prefix":"`+prefix+`"`) && strings.Contains(m.kernel(), first)
	})
}

// command runs a program on this side.
func command(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}
