package packaging

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// netns is a network that several runs of the program share, one after the other.
type netns struct {
	t              *testing.T
	bin, dir, name string
	rules          string // beside the firewall section; "": a log that is not there
}

func newNetns(t *testing.T) *netns {
	t.Helper()
	need(t, true, "ip", "nsenter", "setpriv", "nft", "ipset", "iptables")
	bin := build(t)
	n := &netns{t: t, bin: bin, dir: filepath.Dir(bin), name: "stoplog-" + strconv.Itoa(os.Getpid())}
	for _, d := range []string{"state", "run", "flags"} {
		p := filepath.Join(n.dir, d)
		if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "ip", "netns", "add", n.name)
	t.Cleanup(func() { exec.Command("ip", "netns", "del", n.name).Run() })
	n.do("ip link set lo up")
	return n
}

// do runs a command in the network; it fails the test unless it may fail.
func (n *netns) do(command string) string {
	n.t.Helper()
	return run(n.t, "ip", "netns", "exec", n.name, "sh", "-c", command)
}

func (n *netns) holds(list string) bool {
	return exec.Command("ip", "netns", "exec", n.name, "sh", "-c", list).Run() == nil
}

// start runs it as the unit does and waits until its walls stand.
func (n *netns) start(backend string, more ...string) *service {
	n.t.Helper()
	rules := filepath.Join(n.dir, "rules.yaml")
	text := "use: []\nfirewall: {backend: " + backend + "}\n" + cmp.Or(n.rules, "sources: [{file: "+n.dir+"/auth.log}]\n")
	if err := os.WriteFile(rules, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
	argv := append([]string{"netns", "exec", n.name}, asUnit(n.t, "65534", "65534")...)
	argv = append(append(argv, n.bin, "run", "--config", rules, "--state", filepath.Join(n.dir, "state"), "--flags", filepath.Join(n.dir, "flags"), "--socket", n.sock()), more...)
	c, notify := exec.Command("ip", argv...), filepath.Join(n.dir, "notify")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + notify, "INVOCATION_ID=test"}
	s := launch(n.t, c, notify)
	s.await("READY=1")
	return s
}

func (n *netns) sock() string { return filepath.Join(n.dir, "run", "s.sock") }

// TestStalledWall: a wall process that hangs is noticed within seconds; nobody
// is told that something is blocked which is not, and both processes end.
func TestStalledWall(t *testing.T) {
	n := newNetns(t)
	r := n.start("nftables")
	wall, err := strconv.Atoi(childOf(t, strconv.Itoa(r.cmd.Process.Pid)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(wall, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(n.bin, "--socket", n.sock(), "block", "192.0.2.7", "--ttl", "1h").CombinedOutput()
	if err == nil || strings.Contains(string(out), "blocked 192") {
		t.Errorf("block says %q, %v while the wall hangs", out, err)
	}
	said, err := r.end()
	if err == nil || !strings.Contains(said, "no answer for 5s") || !strings.Contains(said, "restarts stoplog") {
		t.Errorf("it ended with %v and said\n%s", err, said)
	}
	// It was killed; the kernel may take a moment to end it.
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", wall))
		if err != nil || strings.Contains(string(b), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the wall process is there still: %s", b)
		}
	}
	n.start("nftables")
	if !n.holds("nft list table inet stoplog | grep -q 192.0.2.7") {
		t.Error("what was ordered meanwhile is not blocked after the restart")
	}
}

// TestBackendChange: the wall of the former backend goes, with all that it
// blocked, and others' rules stay.
func TestBackendChange(t *testing.T) {
	n := newNetns(t)
	n.do("nft add table inet others; iptables -A INPUT -s 203.0.113.9 -j DROP; ipset create theirs hash:ip")
	others := func() string {
		return n.do("nft list table inet others; iptables -S INPUT | grep -v stoplog; ipset save theirs")
	}
	before := others()
	stands := map[string]string{
		"nftables": "nft list table inet stoplog >/dev/null 2>&1",
		"ipset":    "iptables -S STOPLOG-SET-BLOCKS >/dev/null 2>&1 || ipset list -n | grep -q ^stoplog",
		"iptables": "iptables -S STOPLOG-BLOCKS >/dev/null 2>&1",
	}
	for i, backend := range []string{"nftables", "ipset", "iptables", "ipset", "nftables"} {
		r := n.start(backend)
		run(t, n.bin, "--socket", n.sock(), "block", fmt.Sprintf("192.0.2.%d", i), "--ttl", "1h")
		for name, list := range stands {
			if n.holds(list) != (name == backend) {
				t.Errorf("with %s: %s stands: %v", backend, name, n.holds(list))
			}
		}
		if said := r.stop(); (i > 0) != strings.Contains(said, "removed what an earlier configuration left") {
			t.Errorf("%d, %s: it said\n%s", i, backend, said)
		}
		if got := others(); got != before {
			t.Errorf("with %s others have\n%s\nwant\n%s", backend, got, before)
		}
	}
}

// TestLostState: what the kernel still holds is taken over when the state is
// gone, and dropped as before when it is not.
func TestLostState(t *testing.T) {
	n := newNetns(t)
	for backend, list := range map[string]string{
		"nftables": "nft list table inet stoplog | grep -q 192.0.2.7", "ipset": "ipset list stoplog4-drop | grep -q 192.0.2.7", "iptables": "iptables -S STOPLOG-BLOCKS | grep -q 192.0.2.7",
	} {
		r := n.start(backend)
		run(t, n.bin, "--socket", n.sock(), "block", "192.0.2.7", "--ttl", "1h")
		r.stop()
		for _, f := range []string{"state", "state.prev", "journal", "journal.prev"} {
			os.Remove(filepath.Join(n.dir, "state", f))
		}
		r = n.start(backend)
		if out := run(t, n.bin, "--socket", n.sock(), "list", "--json"); !strings.Contains(out, `"found in the kernel"`) || !n.holds(list) {
			t.Errorf("%s: list is %s, the kernel holds it: %v", backend, out, n.holds(list))
		}
		run(t, n.bin, "--socket", n.sock(), "unblock", "192.0.2.7")
		if n.holds(list) {
			t.Errorf("%s: what was taken over cannot be lifted", backend)
		}
		r.stop()
	}
}

// TestDryRunState: what a dry run would have blocked, no later run blocks.
func TestDryRunState(t *testing.T) {
	n := newNetns(t)
	r := n.start("nftables", "--dry-run")
	run(t, n.bin, "--socket", n.sock(), "block", "192.0.2.7", "--ttl", "1h")
	r.stop()
	n.start("nftables")
	if out := run(t, n.bin, "--socket", n.sock(), "list", "--json"); strings.TrimSpace(out) != "" || n.holds("nft list table inet stoplog | grep -q 192.0.2.7") {
		t.Errorf("after a dry run blocked is: %s", out)
	}
}

// TestSoakMemory measures what both processes take with 200,000 blocks of rules
// that stand, after a restart.
func TestSoakMemory(t *testing.T) {
	if os.Getenv("STOPLOG_SOAK") == "" {
		t.Skip("long: set STOPLOG_SOAK=1")
	}
	const blocks, most, atMost = 200_000, 140 << 10, 230 << 10 // KiB, now and since the start
	n := newNetns(t)
	var b strings.Builder
	at := time.Now().UTC().Add(-5 * time.Minute)
	for i := range 2 * blocks {
		p := i / 2
		fmt.Fprintf(&b, "%s h sshd[%d]: Failed password for root from %d.%d.%d.%d port 4000 ssh2\n",
			at.Add(time.Duration(p)*time.Millisecond).Format("2006-01-02T15:04:05.000000Z"), p%30000+1, 20+p>>20, p>>12&255, p>>4&255, p&15*16+1)
	}
	if err := os.WriteFile(filepath.Join(n.dir, "auth.log"), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	n.rules = "sources: [{file: " + n.dir + "/auth.log, service: sshd}]\nblock: {ttl: 4h, multiply: 1}\n" +
		"rules: [{name: ssh-login, match: {service: sshd, outcome: failure}, bucket: {capacity: 1, leak: 1m}}]\n"
	standing := func(r *service) {
		t.Helper()
		for end := time.Now().Add(3 * patience); ; time.Sleep(200 * time.Millisecond) {
			out, _ := exec.Command(n.bin, "--socket", n.sock(), "status", "--json").Output()
			if strings.Contains(string(out), fmt.Sprintf(`"blocks":%d`, blocks)) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("status is %s", out)
			}
		}
	}
	// Both processes together, now and at most.
	memory := func(r *service, when string) (now, peak int) {
		t.Helper()
		pid := strconv.Itoa(r.cmd.Process.Pid)
		for _, p := range []string{pid, childOf(t, pid)} {
			var kib [2]int
			for i, name := range []string{"VmRSS", "VmHWM"} {
				var err error
				if kib[i], err = strconv.Atoi(strings.Fields(status(t, p)[name])[0]); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%s: process %s has %d KiB, at most %d KiB", when, p, kib[0], kib[1])
			now, peak = now+kib[0], peak+kib[1]
		}
		return now, peak
	}
	r := n.start("nftables", "--since", "1h")
	standing(r)
	memory(r, "filled")
	r.stop()
	begin := time.Now()
	r = n.start("nftables")
	standing(r)
	t.Logf("ledger and walls are restored after %v", time.Since(begin))
	sum, peak := memory(r, "restored")
	t.Logf("%d KiB for %d blocks", sum, blocks)
	if sum > most || peak > atMost {
		t.Errorf("both processes take %d KiB and took %d, want at most %d and %d", sum, peak, most, atMost)
	}
}
