package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/doctor"
)

// TestDoctor looks at a log of sshd's own lines, with rules good and bad.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "auth.log")
	var lines strings.Builder
	for i := range 30 {
		fmt.Fprintf(&lines, "%s web1 sshd[%d]: Failed password for root from 192.0.2.7 port %d ssh2\n", time.Now().Format(time.Stamp), 100+i, 40000+i)
	}
	if err := os.WriteFile(log, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, rules string
		code        int
		want        string
	}{
		{"good", "", exitOK, log + ": 30 of the last 30 lines understood"},
		{"a mistake", "prefx: {}\n", exitRuntime, "prefix"},
		{"a template that fails", "notify:\n  ops: {exec: [/bin/true], template: '{{.Nothing}}'}\n", exitRuntime, "notify target ops: "},
	} {
		file := filepath.Join(dir, "rules.yaml")
		text := "sources:\n  - file: " + log + "\nfirewall: {backend: exec, exec: {block: [/bin/true], unblock: [/bin/true]}}\nrules:\n  - name: x\n    match: {service: sshd, outcome: failure}\n    bucket: {capacity: 5, leak: 1m}\n" + c.rules
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"--socket", filepath.Join(dir, "none.sock"), "doctor", "--config", file}
		code, out, errs := run(t, "", append(args, "--json")...)
		found := ""
		for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
			var f doctor.Finding
			if err := json.Unmarshal([]byte(l), &f); err != nil {
				t.Fatalf("%s: %v in %q", c.name, err, l)
			}
			found += f.Found + "\n"
		}
		if code != c.code || !strings.Contains(found, c.want) || errs != "" {
			t.Errorf("%s: exit %d, want %d and %q in:\n%s%s", c.name, code, c.code, c.want, found, errs)
		}
		code, out, _ = run(t, "", args...)
		if code != c.code || !strings.Contains(out, "What to do, in this order:\n 1. ") || !strings.Contains(out, "stoplog is not running") {
			t.Errorf("%s: exit %d:\n%s", c.name, code, out)
		}
	}
}
