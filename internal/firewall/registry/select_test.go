package registry

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoplog/internal/firewall"
)

func TestSelectByName(t *testing.T) {
	o := firewall.Options{HostsDeny: filepath.Join(t.TempDir(), "hosts.deny")}
	bs, reason, err := Select(t.Context(), []string{"hosts.deny", "dry-run"}, o)
	if err != nil || len(bs) != 2 || bs[0].Name() != "hosts.deny" || bs[1].Name() != "dry-run" {
		t.Fatalf("got %v, %v", bs, err)
	}
	if !strings.Contains(reason, "hosts.deny: ") || !strings.Contains(reason, "; dry-run: ") || strings.Contains(reason, "\n") {
		t.Errorf("reason: got %q", reason)
	}
	if _, err := os.Stat(o.HostsDeny); !os.IsNotExist(err) {
		t.Errorf("trying left a file: %v", err)
	}
}

func TestSelectRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		want    []string
		Options firewall.Options
		says    string
	}{
		"unknown":         {[]string{"pf"}, firewall.Options{}, `unknown firewall backend "pf"; expected auto or one of nftables, `},
		"unwritable":      {[]string{"hosts.deny"}, firewall.Options{HostsDeny: filepath.Join(dir, "no", "hosts.deny")}, "--dry-run"},
		"no such program": {[]string{"iptables"}, firewall.Options{IPTables: "/nonexistent/iptables"}, "/nonexistent/iptables"},
		"bad options":     {[]string{"iptables"}, firewall.Options{Name: "NO"}, "firewall name"},
		"one of two":      {[]string{"dry-run", "pf"}, firewall.Options{}, "pf"},
		"twice":           {[]string{"dry-run", "dry-run"}, firewall.Options{}, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Select(t.Context(), tc.want, tc.Options)
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, tc.says)
			}
		})
	}
}

// TestSelectAutoSaysWhy plays machines on which some walls do not work.
func TestSelectAutoSaysWhy(t *testing.T) {
	works := func(firewall.Options) (firewall.Backend, error) { return firewall.NewDryRun(), nil }
	fails := func(firewall.Options) (firewall.Backend, error) {
		return unusableWall{DryRun: firewall.NewDryRun()}, nil
	}
	s := selector{makers: map[string]func(firewall.Options) (firewall.Backend, error){"a": fails, "b": works}, auto: []string{"a", "b"}}
	b, reason, err := s.one(t.Context(), "auto", firewall.Options{})
	if err != nil || b.Name() != "dry-run" || !strings.HasPrefix(reason, "b: works here, while a: first line; second line") {
		t.Errorf("got %v, %q, %v", b, reason, err)
	}
	s.auto = []string{"b", "a"}
	if _, reason, err = s.one(t.Context(), "auto", firewall.Options{}); err != nil || !strings.HasPrefix(reason, "b: the preferred backend; it works here") {
		t.Errorf("got %q, %v", reason, err)
	}
	s.auto = []string{"a"}
	if _, _, err = s.one(t.Context(), "auto", firewall.Options{}); err == nil || !strings.Contains(err.Error(), "a: first line; second line") || !strings.Contains(err.Error(), "--dry-run") {
		t.Errorf("got %v", err)
	}
}

type unusableWall struct{ *firewall.DryRun }

func (unusableWall) Probe(context.Context) error { return errors.New("first line\n\tsecond line\n") }

// Rules may want no wall on this machine.
func TestSelectNone(t *testing.T) {
	bs, reason, err := Select(t.Context(), []string{"none"}, firewall.Options{})
	if err != nil || len(bs) != 1 || bs[0].Name() != "none" {
		t.Fatalf("got %v, %v", bs, err)
	}
	if !strings.HasPrefix(reason, "none: as configured") {
		t.Errorf("reason: got %q", reason)
	}
}
