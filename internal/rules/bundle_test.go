package rules

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestBundle: the copy of a rules file, its rules.d and its files of customers
// makes the same rules whatever becomes of the files.
func TestBundle(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	main := filepath.Join(dir, "rules.yaml")
	write("rules.yaml", "use: []\nsources: [{file: /srv/a.log}]\nrules:\n  - name: api\n    pattern: 'refused (?P<customer>\\w+) (?P<ip>\\S+)'\n    key: [prefix, field customer]\n    tiers: {by: field customer, file: tiers.yaml, default: free, free: {capacity: 5, leak: 1m}, pro: {capacity: 50, leak: 1m}}\n")
	write("tiers.yaml", "acme: pro\n")
	write("rules.d/more.yaml", "rules:\n  - name: more\n    match: {service: sshd, outcome: failure}\n    bucket: {capacity: 5, leak: 1m}\n")
	set, problems := Load(main)
	if set == nil {
		t.Fatal(problems)
	}
	b, err := NewBundle(set, nil, main, dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rules.yaml", "tiers.yaml", "rules.d/more.yaml"} {
		write(name, "nonsense: [")
	}
	write("rules.d/late.yaml", "rules: 5\n")
	if set, _ := Load(main); set != nil {
		t.Fatal("broken rules load")
	}
	again, problems := b.Load(nil)
	if again == nil {
		t.Fatal(problems)
	}
	if len(again.Rules) != 2 || again.Rules[0].Name != "api" || again.Rules[0].Tiers.Members["acme"] != "pro" || again.Rules[1].Name != "more" || again.Name != set.Name {
		t.Errorf("got %d rules of %s, %+v", len(again.Rules), again.Name, again.Rules)
	}
	if _, err := NewBundle(set, nil, main, dir, time.Now()); err == nil {
		t.Error("a bundle of files that were broken meanwhile")
	}
}
