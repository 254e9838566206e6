package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoplog/internal/control"
)

func TestExplainLine(t *testing.T) {
	nobody := filepath.Join(t.TempDir(), "none.sock")
	line := "2026-11-20T09:00:00Z host sshd[7]: Failed password for ro\x1b[31mot from 192.0.2.1 port 4000 ssh2"
	code, out, errs := run(t, "", "--socket", nobody, "explain", "--line", line)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"with empty buckets", "failure of sshd", `user=ro\x1b[31mot`, "192.0.2.1, stranger", "+ ssh-login: counts for 192.0.2.0/28", "- nginx-auth: not counted: the service is sshd"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a line reached the terminal as it is")
	}
	code, out, _ = run(t, line+"\nanother\n", "--socket", nobody, "explain", "--line", "-", "--json")
	var w control.Walk
	if err := json.Unmarshal([]byte(out), &w); code != exitOK || err != nil || w.Line != line || len(w.Events) != 1 {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
	code, out, _ = run(t, "", "--socket", nobody, "explain", "--line", "nonsense")
	if code != exitOK || !strings.Contains(out, "no parser reads this line") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	for name, c := range map[string]struct {
		args []string
		want int
	}{
		"neither":     {[]string{"explain"}, exitUsage},
		"both":        {[]string{"explain", "192.0.2.1", "--line", "x"}, exitUsage},
		"bad rules":   {[]string{"explain", "--line", "x", "--config", filepath.Join(t.TempDir(), "none")}, exitRules},
		"an address":  {[]string{"--socket", nobody, "explain", "192.0.2.1"}, exitNoDaemon},
		"list, watch": {[]string{"--socket", nobody, "list", "--watch"}, exitNoDaemon},
	} {
		if code, _, errs := run(t, "", c.args...); code != c.want || errs == "" {
			t.Errorf("%s: exit %d, want %d: %s", name, code, c.want, errs)
		}
	}
}

// A line that misses a rule by one condition ends with what check says of it.
func TestExplainHints(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	text := `sources: [auth]
rules:
  - {name: a, match: {service: nginx, status: 404}, bucket: {capacity: 5, leak: 1m}}
  - {name: b, match: {service: http, status: 404, method: POST, path: /x}, bucket: {capacity: 5, leak: 1m}}
  - {name: c, match: {user: root}, bucket: {capacity: 5, leak: 1m}}
`
	if err := os.WriteFile(rules, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "", "explain", "--config", rules, "--service", "http", "--line", `192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 404 5 "-" "curl"`)
	_, hints, found := strings.Cut(out, "\nhints\n")
	want := "  " + rules + ":3: rule a matches but for one condition: the service is http, not nginx\n  " +
		rules + ":3:1: warning: rule a can never match: nginx is the error log, which has no status; access logs are http (match: {service: http, …})\n"
	if code != exitOK || !found || hints != want {
		t.Errorf("exit %d %s: got\n%swant\n%s", code, errs, out, want)
	}
}

func TestTokenCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	code, secret, errs := run(t, "", "token", "add", "anna", "--file", file)
	if code != exitOK || !strings.HasPrefix(secret, "stoplog_") || strings.Count(secret, "\n") != 1 || !strings.Contains(errs, "shown only now") {
		t.Fatalf("exit %d: %q %q", code, secret, errs)
	}
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"list"}, exitOK, "anna"},
		{[]string{"list", "--json"}, exitOK, `{"name":"anna","made":"`},
		{[]string{"add", "anna"}, exitRuntime, "already"},
		{[]string{"add", "An na"}, exitUsage, "a name has"},
		{[]string{"add"}, exitUsage, "accepts 1 arg"},
		{[]string{"remove", "bob"}, exitRuntime, "no token bob"},
		{[]string{"remove", "anna"}, exitOK, ""},
		{[]string{"list", "--json"}, exitOK, ""},
	} {
		code, out, errs := run(t, "", append(append([]string{"token"}, c.args...), "--file", file)...)
		if code != c.want || !strings.Contains(out+errs, c.says) {
			t.Errorf("%v: exit %d, want %d: %s%s", c.args, code, c.want, out, errs)
		}
		if strings.Contains(out+errs, strings.TrimSpace(secret)[8:]) {
			t.Errorf("%v shows the secret", c.args)
		}
	}
}
