package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder of rules is added to the built-in ones where there is no rules file.
func TestBuiltInWithFolder(t *testing.T) {
	example, err := os.ReadFile("../rules.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	e := &env{example: example}
	plain, problems := e.builtIn(dir)
	if plain == nil || len(problems) != 0 {
		t.Fatal(problems)
	}
	file := filepath.Join(dir, "rules.d", "a.yaml")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("rules:\n  - {name: mine, match: {service: sshd, outcome: failure}, bucket: {capacity: 5, leak: 1m}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, problems := e.builtIn(dir)
	if set == nil || set.Find("mine") == nil || len(set.Rules) != len(plain.Rules)+1 {
		t.Errorf("got %v, want one rule more", problems)
	}
}

// What run would refuse of notify, check reports for every target.
func TestCheckTriesMessages(t *testing.T) {
	set := ruleSet(t, "use: []\nnotify:\n  good: {webhook: \"https://hooks.example.net/\", template: \"{{.Text}}\"}\n"+
		"  one: {webhook: \"https://hooks.example.net/\", template: \"{{.Nope}}\"}\n  two: {exec: [/bin/true], template: \"{{.None}}\"}\n")
	ps := messages(set, "rules.yaml")
	if len(ps) != 2 || !strings.Contains(ps[0].Error()+ps[1].Error(), "Nope") {
		t.Errorf("got %v, want a mistake in one and one in two", ps)
	}
}

// A glob takes in a log of another format: check and doctor say so.
func TestForeignLog(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"access.log":            `192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"` + "\n",
		"accessories-error.log": "2026/11/20 10:00:00 [error] 7#7: *1 open() \"/srv/x\" failed (2: No such file or directory), client: 192.0.2.1, server: _\n",
		"accessible.log":        "", // nothing to judge
		"access.log.2.gz":       "\x1f\x8bxx\n",
		"app.json":              `{"level":"info","msg":"start"}` + "\n",
		"app2.json":             "starting up\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ source, foreign string }{
		{"file: access*, format: combined", "accessories-error.log"},
		{"file: access*, service: http", "accessories-error.log"},
		{"file: access*, service: http, exclude: accessories*", ""},
		{"file: access.log, format: combined", ""},
		{"file: access*", ""}, // no format is named
		{"file: app*.json, format: json", "app2.json"},
		{"file: app*.json, format: logfmt", "app.json"},
	} {
		rules := filepath.Join(dir, "rules.yaml")
		if err := os.WriteFile(rules, []byte("sources:\n  - {"+c.source+"}\nrules:\n  - {name: a, match: {status: 401}, bucket: {capacity: 5, leak: 1m}}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out, errs := run(t, "", "check", rules)
		if code != exitOK {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
		want := rules + ":2:1: warning: " + filepath.Join(dir, c.foreign) + " belongs to source "
		if c.foreign == "" && strings.Contains(errs, "belongs to") || c.foreign != "" && (!strings.Contains(errs, want) || !strings.Contains(errs, "(exclude: "+filepath.Join(dir, c.foreign)+")")) {
			t.Errorf("%s: got %s, want %s", c.source, errs, c.foreign)
		}
		_, out, _ = run(t, "", "--socket", filepath.Join(dir, "none"), "doctor", "--config", rules)
		if strings.Contains(out, "belongs to source") != (c.foreign != "") {
			t.Errorf("doctor, %s: got %s", c.source, out)
		}
	}
}

// Warnings of sound rules are shown beside the mistakes of others.
func TestWarningsBesideMistakes(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	text := `sources: [auth]
rules:
  - {name: a, match: {service: nginx, status: 404}, bucket: {capacity: 5, leak: 1m}}
  - {name: b, match: {service: sshd, outcome: failure}, bucket: {capacity: 5, leek: 1m}}
`
	if err := os.WriteFile(rules, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errs := run(t, "", "check", rules)
	if code != exitRules || !strings.Contains(errs, rules+":3:1: warning: rule a can never match: nginx is the error log") || !strings.Contains(errs, `:4:79: unknown key "leek" (did you mean leak?)`) || !strings.Contains(errs, "1 mistake") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
