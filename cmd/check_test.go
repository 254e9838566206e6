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

// What run would refuse of notify, check tells of every target.
func TestCheckTriesMessages(t *testing.T) {
	set := ruleSet(t, "use: []\nnotify:\n  good: {webhook: \"https://hooks.example.net/\", template: \"{{.Text}}\"}\n"+
		"  one: {webhook: \"https://hooks.example.net/\", template: \"{{.Nope}}\"}\n  two: {exec: [/bin/true], template: \"{{.None}}\"}\n")
	ps := messages(set, "rules.yaml")
	if len(ps) != 2 || !strings.Contains(ps[0].Error()+ps[1].Error(), "Nope") {
		t.Errorf("got %v, want a mistake in one and one in two", ps)
	}
}
