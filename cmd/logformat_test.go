package cmd

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stoplog/internal/rules"
)

// TestLogOfFail2ban: the lines are those that fail2ban writes, as its own filter
// recidive reads them, and a text from a log starts no line of its own.
func TestLogOfFail2ban(t *testing.T) {
	var out bytes.Buffer
	h := newLogHandler(&env{errw: &out}, false)
	log := slog.New(h)
	log.Info("block", "prefix", "192.0.2.1/32", "rule", "sshd")
	if strings.Contains(out.String(), "Ban") {
		t.Errorf("the format is not text until rules say so: %s", &out)
	}
	out.Reset()
	h.use(&rules.Set{Log: rules.Log{Format: "fail2ban"}})
	log.Info("block", "prefix", "192.0.2.1/32", "rule", "sshd")
	log.Info("block", "prefix", "2001:db8::/64", "by", "anna")
	log.Info("unblock", "prefix", "192.0.2.1/32", "rule", "sshd")
	log.Warn("a\nb", "why", "x\n2026-11-22 10:00:00,000 fail2ban.actions [1]: NOTICE [sshd] Ban 198.51.100.1")
	want := regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} fail2ban\.actions        \[\d+\]: NOTICE  \[sshd\] Ban 192\.0\.2\.1
\S+ \S+ fail2ban\.actions        \[\d+\]: NOTICE  \[manual\] Ban 2001:db8::/64
\S+ \S+ fail2ban\.actions        \[\d+\]: NOTICE  \[sshd\] Unban 192\.0\.2\.1
\S+ \S+ fail2ban\.server         \[\d+\]: WARNING [^\n]*
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("got:\n%s", &out)
	}
	program, err := exec.LookPath("fail2ban-regex")
	if err != nil {
		t.Skip("fail2ban is not installed")
	}
	file := filepath.Join(t.TempDir(), "stoplog.log")
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command(program, "--usedns=raw", "--out=ip", file, "recidive").Output()
	if lines := strings.Fields(string(got)); err != nil || len(lines) == 0 || lines[0] != "192.0.2.1" || strings.Contains(string(got), "198.51.100.1") {
		t.Errorf("recidive reads %q, %v", got, err)
	}
}
