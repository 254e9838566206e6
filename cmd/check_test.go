package cmd

import (
	"os"
	"path/filepath"
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
