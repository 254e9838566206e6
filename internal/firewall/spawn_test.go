package firewall_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/registry"
	"stoplog/internal/firewall/wallproc"
)

// TestMain is the wall process when this binary was started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "wall" {
		if err := wallMain(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "select" {
		_, reason, err := registry.Select(context.Background(), []string{os.Args[2]}, firewall.Options{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(reason)
		return
	}
	os.Exit(m.Run())
}

func wallMain(name, options string) error {
	var o firewall.Options
	if err := json.Unmarshal([]byte(cmp.Or(options, "{}")), &o); err != nil {
		return err
	}
	cmds, changes, err := wallproc.Inherited()
	if err != nil {
		return err
	}
	bs, _, err := registry.Select(context.Background(), []string{name}, o)
	if err != nil {
		return err
	}
	return wallproc.Serve(context.Background(), cmds, changes, firewall.Multi(bs), wallproc.Limits{})
}

// procStatus reads fields of /proc/PID/status.
func procStatus(t *testing.T, pid int) map[string]string {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fields := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		k, v, _ := strings.Cut(s.Text(), ":")
		fields[k] = strings.TrimSpace(v)
	}
	return fields
}

func spawn(t *testing.T, name string) *wallproc.Process {
	t.Helper()
	return spawnFor(t, name)
}

func spawnFor(t testing.TB, name string) *wallproc.Process {
	t.Helper()
	return spawnWith(t, name, firewall.Options{HostsDeny: filepath.Join(t.TempDir(), "hosts.deny")})
}

func spawnWith(t testing.TB, name string, o firewall.Options) *wallproc.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := wallproc.Spawn(self, []string{"wall", name, string(options)}, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestSpawn(t *testing.T) {
	p := spawn(t, "dry-run")
	if err := p.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	e := firewalltest.Entry("192.0.2.0/28", time.Hour)
	if err := p.Block(t.Context(), []firewall.Entry{e}); err != nil {
		t.Fatal(err)
	}
	if es, err := firewall.ListAll(t.Context(), p); err != nil || len(es) != 1 || es[0].Prefix != e.Prefix {
		t.Errorf("List: got %v, %v", es, err)
	}
	st := procStatus(t, p.Pid())
	if st["NoNewPrivs"] != "1" {
		t.Errorf("NoNewPrivs: got %s, want 1", st["NoNewPrivs"])
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.Pid()))
	if want := "PATH=/usr/sbin:/usr/bin:/sbin:/bin\x00"; string(env) != want || err != nil {
		t.Errorf("environment: got %q, %v, want %q", env, err, want)
	}
	if os.Geteuid() == 0 {
		for _, k := range []string{"CapBnd", "CapEff", "CapPrm", "CapInh"} {
			if want := "0000000000001000"; st[k] != want { // CAP_NET_ADMIN, CAP_NET_RAW
				t.Errorf("%s: got %s, want %s", k, st[k], want)
			}
		}
	}
	p.Close()
	if err := p.Wait(); err != nil {
		t.Errorf("the wall process: %v", err)
	}
	if own := procStatus(t, os.Getpid()); own["NoNewPrivs"] != "0" {
		t.Error("the thread that was confined came back")
	}
}

// TestSpawnedWallSurvivesItsClient: the kernel's TTLs hold the blocks.
func TestSpawnedWallSurvivesItsClient(t *testing.T) {
	firewalltest.NeedPrograms(t, "iptables")
	if !firewalltest.InNamespace(t) {
		return
	}
	p := spawn(t, "iptables")
	if err := p.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	prefixes := []string{"192.0.2.0/28", "2001:db8::/64"}
	for _, s := range prefixes {
		if err := p.Block(t.Context(), []firewall.Entry{firewalltest.Entry(s, time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	if err := p.Wait(); err != nil {
		t.Errorf("the wall process: %v", err)
	}
	if out := firewalltest.Output(t, "iptables", "-S", "STOPLOG-BLOCKS"); !strings.Contains(out, "-s 192.0.2.0/28") {
		t.Errorf("got %s", out)
	}
	again := spawn(t, "iptables")
	if es, err := firewall.ListAll(t.Context(), again); err != nil || len(es) != 2 {
		t.Errorf("List of the next wall process: got %v, %v", es, err)
	}
	if err := again.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix(prefixes[0])}); err != nil {
		t.Error(err)
	}
}

// TestSpawnedWallsWork: each wall can do its work with the rights that are
// left to it.
func TestSpawnedWallsWork(t *testing.T) {
	firewalltest.NeedPrograms(t, "iptables", "ipset")
	if !firewalltest.InNamespace(t) {
		return
	}
	for _, name := range []string{"nftables", "ipset", "iptables", "hosts.deny"} {
		p := spawn(t, name)
		if err := p.Setup(t.Context(), firewall.Policy{}); err != nil {
			t.Errorf("%s: Setup: %v", name, err)
			continue
		}
		es := []firewall.Entry{firewalltest.Entry("192.0.2.0/28", time.Hour), firewalltest.Entry("2001:db8::/64", time.Hour)}
		es[0].Cut = true
		if err := p.Block(t.Context(), es); err != nil {
			t.Errorf("%s: Block: %v", name, err)
		}
		if got, err := firewall.ListAll(t.Context(), p); err != nil || len(got) != 2 {
			t.Errorf("%s: List: got %v, %v", name, got, err)
		}
		if err := p.Check(t.Context()); err != nil {
			t.Errorf("%s: Check: %v", name, err)
		}
		if err := p.Teardown(t.Context()); err != nil {
			t.Errorf("%s: Teardown: %v", name, err)
		}
		p.Close()
		if err := p.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSpawnedWallFails: a wall that cannot be says why and the client hears it.
func TestSpawnedWallFails(t *testing.T) {
	p := spawn(t, "no-such-wall")
	if err := p.Setup(t.Context(), firewall.Policy{}); err == nil || !strings.Contains(err.Error(), "exited") {
		t.Errorf("Setup: got %v, want that the process ended", err)
	}
	if err := p.Wait(); err == nil {
		t.Error("Wait: got no error")
	}
}

func TestInheritedWithoutAParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "wall", "dry-run", "")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "only `run` starts the wall") {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestSpawnOfNothing(t *testing.T) {
	if _, err := wallproc.Spawn("/nonexistent/stoplog", nil, nil); err == nil || !strings.Contains(err.Error(), "starting the wall") {
		t.Errorf("got %v", err)
	}
}
