package cmd

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stoplog/internal/control"
)

// unblocking is a daemon with blocks, which remembers what it was asked to lift.
type unblocking struct {
	listed
	lifted *[]string
}

func (d unblocking) Unblock(_ context.Context, o control.Order) (control.Answer, error) {
	*d.lifted = append(*d.lifted, o.Target)
	return control.Answer{Lines: []string{"done"}}, nil
}

func (d unblocking) Explain(context.Context, string) (control.Explanation, error) {
	return control.Explanation{Inside: []control.Block{{Prefix: "192.0.2.0/29"}, {Prefix: "192.0.2.8/29"}}, InsideTotal: 2}, nil
}

func (d unblocking) Status(context.Context) (control.Status, error) {
	return control.Status{RuleStats: []control.RuleStatus{{Name: "ssh-login", Matched: 9, Breaches: 2}, {Name: "web", Mode: "observe"}}}, nil
}

// TestUnblockAll lifts the blocks of both families, after a question.
func TestUnblockAll(t *testing.T) {
	var lifted []string
	socket := filepath.Join(t.TempDir(), "s.sock")
	serveOn(t, socket, unblocking{lifted: &lifted})
	if code, _, errs := run(t, "", "--socket", socket, "unban", "--all"); code != exitUsage || len(lifted) != 0 || !strings.Contains(errs, "--yes") {
		t.Errorf("without --yes: exit %d, lifted %v, %s", code, lifted, errs)
	}
	if code, _, errs := run(t, "", "--socket", socket, "unblock", "--all", "--yes"); code != exitOK || !slices.Equal(lifted, []string{"0.0.0.0/0", "::/0"}) {
		t.Errorf("exit %d, lifted %v, %s", code, lifted, errs)
	}
	if code, _, _ := run(t, "", "--socket", socket, "unblock", "--all", "192.0.2.1"); code != exitUsage {
		t.Errorf("--all with an address: exit %d, want %d", code, exitUsage)
	}
}

// TestStatusOfRule shows one rule and what it blocks.
func TestStatusOfRule(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	serveOn(t, socket, unblocking{lifted: new([]string)})
	code, out, errs := run(t, "", "--socket", socket, "status", "ssh-login")
	if code != exitOK || !strings.Contains(out, "matched    9") || !strings.Contains(out, "blocked    1") || !strings.Contains(out, "192.0.2.0/29") || strings.Contains(out, "192.0.2.8") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, _, errs = run(t, "", "--socket", socket, "status", "sshd"); code != exitUsage || !strings.Contains(errs, "ssh-login, web") {
		t.Errorf("an unknown rule: exit %d, %s", code, errs)
	}
}
