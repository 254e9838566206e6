package priv

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain lets the test binary be the program that Become starts.
func TestMain(m *testing.M) {
	switch os.Getenv("PRIV_TEST") {
	case "become":
		p, err := Lookup("nobody")
		if err == nil {
			if os.Getenv("PRIV_KEEP") != "" {
				p.Keep = []int{DACReadSearch}
			}
			err = Become(p, "/proc/self/exe", []string{"/proc/self/exe"}, []string{"PRIV_TEST=show", "PRIV_KEEP=" + os.Getenv("PRIV_KEEP")}, nil)
		}
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	case "confine":
		confined(os.Getenv("PRIV_READ"), os.Getenv("PRIV_WRITE"))
		os.Exit(0)
	case "show":
		show()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func show() {
	if err := DropAmbient(); err != nil {
		os.Stdout.WriteString("ambient: " + err.Error() + "\n")
	}
	own, _ := os.ReadFile("/proc/thread-self/status")
	os.Stdout.Write(own)
	os.Stdout.WriteString("CHILD\n")
	c := exec.Command("/bin/cat", "/proc/self/status")
	c.Stdout = os.Stdout
	if err := c.Run(); err != nil {
		os.Stdout.WriteString(err.Error())
	}
}

// status runs the test binary through Become and returns the fields of
// /proc/self/status of the new image and of a child of it.
func status(t *testing.T, keep string) (own, child map[string]string, out string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("STOPLOG_REQUIRE_KERNEL_TESTS") != "" {
			t.Fatal("needs root")
		}
		t.Skip("needs root to give up rights")
	}
	c := exec.Command("/proc/self/exe")
	c.Env = []string{"PRIV_TEST=become", "PRIV_KEEP=" + keep}
	b, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("become: %v\n%s", err, b)
	}
	a, z, _ := strings.Cut(string(b), "CHILD\n")
	return fields(a), fields(z), string(b)
}

func fields(s string) map[string]string {
	m := map[string]string{}
	for _, l := range strings.Split(s, "\n") {
		if k, v, ok := strings.Cut(l, ":"); ok {
			m[k] = strings.TrimSpace(v)
		}
	}
	return m
}

const none = "0000000000000000"

func TestBecomeHoldsNothing(t *testing.T) {
	own, child, out := status(t, "")
	for _, m := range []map[string]string{own, child} {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if m[set] != none {
				t.Errorf("%s = %q, want none\n%s", set, m[set], out)
			}
		}
		if m["NoNewPrivs"] != "1" {
			t.Errorf("NoNewPrivs = %q, want 1", m["NoNewPrivs"])
		}
		if strings.HasPrefix(m["Uid"], "0") || strings.Contains(" "+strings.Join(strings.Fields(m["Groups"]), " ")+" ", " 0 ") {
			t.Errorf("still root: Uid %q Groups %q", m["Uid"], m["Groups"])
		}
	}
}

// TestChildrenInheritNothing keeps one capability, as on systems whose logs
// only root may read, and looks at what a child gets of it.
func TestChildrenInheritNothing(t *testing.T) {
	own, child, out := status(t, "1")
	if strings.Contains(out, "ambient: ") {
		t.Skip("linked with cgo: the daemon refuses to keep a capability then")
	}
	if own["CapEff"] != "0000000000000004" {
		t.Errorf("CapEff = %q, want CAP_DAC_READ_SEARCH alone", own["CapEff"])
	}
	for _, set := range []string{"CapPrm", "CapEff", "CapAmb"} {
		if child[set] != none {
			t.Errorf("a child's %s = %q, want none", set, child[set])
		}
	}
}

func TestCanRead(t *testing.T) {
	p := Plan{UID: 100, GID: 100, Groups: []int{4}}
	for _, c := range []struct {
		uid, gid int
		mode     os.FileMode
		want     bool
	}{
		{0, 0, 0o600, false}, {0, 4, 0o640, true}, {0, 4, 0o604, false}, {0, 0, 0o644, true}, {100, 0, 0o400, true}, {100, 4, 0o040, false},
	} {
		if got := p.CanRead(c.uid, c.gid, c.mode); got != c.want {
			t.Errorf("CanRead(%d, %d, %o) = %v, want %v", c.uid, c.gid, c.mode, got, c.want)
		}
	}
}
