package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tuneFiles writes rules that never block slow attackers, and five days of them
// and of people.
func tuneFiles(t *testing.T) (config, log string) {
	t.Helper()
	var b strings.Builder
	begin := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	for m := range 5 * 24 * 12 {
		at := begin.Add(time.Duration(m) * 5 * time.Minute)
		line := func(s int, what, user, from string) {
			fmt.Fprintf(&b, "%s h sshd[%d]: %s password for %s from %s port 4000 ssh2\n", at.Add(time.Duration(s)*time.Second).Format(time.RFC3339), 10*m+s, what, user, from)
		}
		line(0, "Failed", "ann", fmt.Sprintf("203.0.%d.7", m%30))
		line(9, "Accepted", "ann", fmt.Sprintf("203.0.%d.7", m%30))
		for i := range 8 {
			line(20+i, "Failed", "root", fmt.Sprintf("198.18.%d.1", i))
		}
	}
	dir := t.TempDir()
	config, log = filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "auth.log")
	rules := "use: []\nsources:\n  - {file: " + log + ", service: sshd}\nrules:\n  - {name: slow, match: {service: sshd, outcome: failure}, bucket: {capacity: 5, leak: 1m}}\n"
	for path, text := range map[string]string{config: rules, log: b.String()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config, log
}

func TestTune(t *testing.T) {
	config, log := tuneFiles(t)
	page := filepath.Join(t.TempDir(), "report.html")
	code, out, errs := run(t, "", "tune", "--config", config, "--settings", "30", "--html", page) // the rules' source
	if code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	for _, want := range []string{"Rule slow, on 14400 lines", "8 attackers", "30 good", "A better setting was found.", "What changes in rule slow:", "\n    + ", "- name: slow", "good logins refused\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "A better setting was found") || strings.Contains(string(html), "<script") {
		t.Errorf("got the page %.200s, %v", html, err)
	}
	code, out, _ = run(t, "", "tune", "--json", "--config", config, "--settings", "30", log)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var last tuneReport
	var first tuneSetting
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first.Type != "setting" || !first.Today || first.First.Attempts == 0 {
		t.Errorf("got %s, %v; want today's setting", lines[0], err)
	}
	if last.Type != "tune" || last.Verdict != "propose" || last.Settings != len(lines)-1 || last.Proposal < 1 || last.Paste == "" || len(last.Figures.Near) != 10 {
		t.Errorf("got %+v", last)
	}
}

func TestTuneRefusesWhatItCannotDo(t *testing.T) {
	config, log := tuneFiles(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--rule", "none", log}, 2, "--rule none: no such rule"},
		{[]string{"--settings", "5", log}, 2, "--settings 5: expected 10 to 2000"},
		{[]string{"--good", "/no/such", log}, 1, "/no/such"},
		{[]string{"/no/such.log"}, 1, "/no/such.log"},
		{[]string{"--as", "none", log}, 2, "--as none"},
	} {
		code, out, errs := run(t, "", append([]string{"tune", "--config", config}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %s%s; want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}
