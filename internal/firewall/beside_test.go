package firewall_test

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/listwall"
	"stoplog/internal/firewall/registry"
	"stoplog/internal/firewall/wallproc"
)

// everything is all rules and sets of a namespace.
func everything(t *testing.T) string {
	t.Helper()
	return firewalltest.Output(t, "nft", "-s", "list", "ruleset") +
		ruleset(t, "iptables-legacy-save", "ip6tables-legacy-save") + firewalltest.Output(t, "ipset", "save")
}

// TestSideBySide: two of each wall under different names do not touch each
// other, nor what others have.
func TestSideBySide(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft", "ipset", "iptables", "iptables-legacy")
	firewalltest.Namespace(t)
	busy(t, "iptables", "ip6tables")
	firewalltest.Output(t, "ipset", "create", "stoplog", "hash:ip") // close, but not ours
	empty := everything(t)
	var all []firewall.Backend
	for _, name := range []string{"stoplog", "stoplog-2"} {
		for _, kind := range []string{"nftables", "ipset", "iptables"} {
			w := firewalltest.Must(kernelWalls[kind](firewall.Options{Name: name}))(t)
			if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
				t.Fatalf("%s %s: %v", kind, name, err)
			}
			all = append(all, w)
		}
	}
	for i, w := range all {
		e := firewall.Entry{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(i), 0}), 24), Until: time.Now().Add(time.Hour)}
		if err := w.Block(t.Context(), []firewall.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	for i, w := range all {
		es, err := firewall.ListAll(t.Context(), w)
		if err != nil || len(es) != 1 || es[0].Prefix.Addr().As4()[2] != byte(i) {
			t.Errorf("%d: got %v, %v, want its own block", i, es, err)
		}
	}
	for i, w := range all {
		if err := w.Teardown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for j, other := range all[i+1:] {
			if err := other.(firewall.Checker).Check(t.Context()); err != nil {
				t.Errorf("after %d went, %d: %v", i, i+1+j, err)
			}
		}
	}
	if got := everything(t); got != empty {
		t.Errorf("got\n%s\nwant\n%s", got, empty)
	}
}

// TestSelectLeavesNothing: trying walls changes nothing.
func TestSelectLeavesNothing(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft", "ipset", "iptables", "iptables-legacy")
	firewalltest.Namespace(t)
	busy(t, "iptables", "ip6tables")
	firewalltest.Output(t, "ipset", "create", "mine", "hash:net", "timeout", "0")
	before := everything(t)
	o := firewall.Options{Set4: "ipset:mine"}
	for _, name := range []string{"auto", "nftables", "ipset", "iptables", "set-only"} {
		bs, reason, err := registry.Select(t.Context(), []string{name}, o)
		if err != nil || len(bs) != 1 {
			t.Errorf("%s: got %v, %v", name, bs, err)
			continue
		}
		if name == "auto" && (bs[0].Name() != "nftables" || !strings.HasPrefix(reason, "nftables: the preferred")) {
			t.Errorf("auto: got %s, %q", bs[0].Name(), reason)
		}
	}
	if got := everything(t); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
}

// TestWithoutRights: each wall says in one line that it may not.
func TestWithoutRights(t *testing.T) {
	firewalltest.NeedPrograms(t, "iptables", "ipset")
	if os.Geteuid() != 0 {
		firewalltest.SkipKernel(t, "needs root to become somebody without rights in a readable place")
	}
	self := copyOf(t)
	for _, name := range []string{"auto", "nftables", "ipset", "iptables", "hosts.deny"} {
		cmd := exec.Command(self, "select", name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Cloneflags: syscall.CLONE_NEWNET}
		cmd.Dir = "/"
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		line := strings.TrimSuffix(out.String(), "\n")
		if err == nil || strings.Contains(line, "\n") || !strings.Contains(line, "no usable firewall") || !strings.Contains(line, "--dry-run") || !strings.Contains(line, "CAP_NET_ADMIN") {
			t.Errorf("%s: got %v: %s", name, err, line)
		}
	}
}

// copyOf puts this test binary where everybody may execute it.
func copyOf(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp("/tmp", "stoplog-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Chmod(0o755); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return f.Name()
}

// TestHandover: what one image of a program began another goes on with.
func TestHandover(t *testing.T) {
	p := spawn(t, "dry-run")
	e := firewalltest.Entry("192.0.2.0/28", time.Hour)
	if err := p.Block(t.Context(), []firewall.Entry{e}); err != nil {
		t.Fatal(err)
	}
	cmds, changes, err := p.Handover()
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	c, err := wallproc.Resume(cmds, changes)
	if err != nil {
		t.Fatal(err)
	}
	if es, err := firewall.ListAll(t.Context(), c); err != nil || len(es) != 1 || es[0].Prefix != e.Prefix {
		t.Errorf("List: got %v, %v", es, err)
	}
	c.Close()
	if err := p.Wait(); err != nil {
		t.Errorf("the wall process: %v", err)
	}
}

func TestSetOnlyHeals(t *testing.T) {
	firewalltest.NeedPrograms(t, "ipset")
	firewalltest.Namespace(t)
	firewalltest.Output(t, "ipset", "create", "mine", "hash:net", "timeout", "0")
	w := firewalltest.Must(listwall.NewSetOnly(firewall.Options{Set4: "ipset:mine"}))(t)
	p := firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.5/32")}}
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	es := []firewall.Entry{firewalltest.Entry("192.0.2.0/28", time.Hour), firewalltest.Entry("198.51.100.0/28", time.Hour), firewalltest.Entry("2001:db8::/64", time.Hour)}
	if err := w.Block(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	listed := func(want int, flushed ...bool) {
		t.Helper()
		got, err := firewall.ListAll(t.Context(), w)
		if errors.Is(err, firewall.ErrBroken) != (len(flushed) > 0) || err != nil && len(flushed) == 0 || len(got) != want {
			t.Errorf("List: got %v, %v, want %d", got, err, want)
		}
	}
	listed(3)
	if out := firewalltest.Output(t, "ipset", "test", "mine", "192.0.2.6"); out != "" {
		t.Errorf("got %q", out)
	}
	if exec.Command("ipset", "test", "mine", "192.0.2.5").Run() == nil {
		t.Error("the allowed one is in the set")
	}
	firewalltest.Output(t, "ipset", "del", "mine", "192.0.2.8/29") // one piece of a block
	listed(2)
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	listed(3)
	firewalltest.Output(t, "ipset", "flush", "mine")
	listed(1, true) // of IPv6 there is no set to be missing from
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	listed(3, true) // told once
	listed(3)
	firewalltest.Output(t, "ipset", "test", "mine", "192.0.2.5") // no longer allowed
}

// TestSetOnlyChecksTheSet: a set that cannot hold blocks as they are meant is refused.
func TestSetOnlyChecksTheSet(t *testing.T) {
	firewalltest.NeedPrograms(t, "ipset")
	firewalltest.Namespace(t)
	for made, want := range map[string]string{
		"":                                "there is no ipset mine",
		"hash:net timeout 0":              "",
		"hash:net":                        "has no timeouts",
		"hash:ip timeout 0":               "is a hash:ip",
		"hash:net family inet6 timeout 0": "has the wrong address family",
	} {
		if made != "" {
			firewalltest.Output(t, append([]string{"ipset", "create", "mine"}, strings.Fields(made)...)...)
		}
		err := firewalltest.Must(listwall.NewSetOnly(firewall.Options{Set4: "ipset:mine"}))(t).Setup(t.Context(), firewall.Policy{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", made, err, want)
		}
		if made != "" {
			firewalltest.Output(t, "ipset", "destroy", "mine")
		}
	}
}
