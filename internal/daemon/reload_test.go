package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
)

// TestTroubleEnds: what is wrong with a list's file, or shut until a restart, is
// in status, and no longer than it is so.
func TestTroubleEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "allow")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("192.0.2.7\n")
	x := startDaemon(t, t.TempDir(), quietRules+"allow: [\"file:"+file+"\"]\n")
	trouble := func(change func()) string {
		if err := x.daemon.ask(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		return strings.Join(x.status(t).Trouble, "; ")
	}
	lists := func() { x.daemon.relist(time.Now()) }
	write("not an address\n")
	if got := trouble(lists); !strings.Contains(got, file) {
		t.Errorf("a broken list: got trouble %q, want its file named", got)
	}
	write("192.0.2.8\n")
	if got := trouble(lists); got != "" {
		t.Errorf("a mended list: got trouble %q, want none", got)
	}
	for _, lacks := range [][]string{{"/srv/logs is shut"}, nil} {
		got := trouble(func() {
			x.daemon.opt.Lacks = func(*rules.Set) []string { return lacks }
			x.daemon.reload(time.Now(), "a test")
		})
		if want := strings.Join(lacks, "; "); got != want {
			t.Errorf("after a reload: got trouble %q, want %q", got, want)
		}
	}
}

// TestLockdownThatShutsNothing: walls that only keep a list are told of when a
// rule asks for a lockdown.
func TestLockdownThatShutsNothing(t *testing.T) {
	const panic = `
  - name: panic
    match: {service: sshd, user: panic}
    key: all
    window: {count: 1, within: 1m}
    then: [{lockdown: {ports: [22], for: 5m}}]
`
	for _, s := range []struct {
		rules, wall string
		told        bool
	}{
		{quietRules + panic, "set-only", true},
		{quietRules + panic, "hosts.deny+exec", true},
		{quietRules + panic, "nftables+hosts.deny", false},
		{quietRules, "exec", false},
	} {
		x := startDaemon(t, t.TempDir(), s.rules)
		if err := x.daemon.ask(t.Context(), func() { x.daemon.opt.WallName = s.wall }); err != nil {
			t.Fatal(err)
		}
		trouble := strings.Join(x.status(t).Trouble, "; ")
		if told := strings.Contains(trouble, "rule panic has no effect"); told != s.told {
			t.Errorf("%s: got trouble %q, want it told: %v", s.wall, trouble, s.told)
		}
	}
}
