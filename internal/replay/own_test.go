package replay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"stoplog/internal/rules"
)

// TestPatternsOfReplayedFiles: a rule's pattern reads a replayed file as it would
// live, whatever the file is called on the command line and since its rotation,
// and its lines count as understood.
func TestPatternsOfReplayedFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	set, problems := rules.LoadBytes("test.yaml", fmt.Appendf(nil, `
sources: [{file: %[1]s/*.log}]
rules:
  - name: app
    match: {source: %[1]s/app.log}
    pattern: 'login failed ip=(?P<ip>\S+)$'
    bucket: {capacity: 2, leak: 5m}
`, dir), "")
	if set == nil {
		t.Fatal(problems)
	}
	for name, want := range map[string]uint64{"app.log": 1, "./app.log": 1, "app.log.1": 1, "app.log-20261120": 1, filepath.Join(dir, "app.log"): 1, "other.log": 0} {
		var text []byte
		for i := range 3 {
			text = fmt.Appendf(text, "2026-11-20 09:23:1%d login failed ip=192.0.2.7\n", i)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		sum, err := Run(context.Background(), Options{Set: set, Files: []string{name}, Zone: time.UTC}, func(Answer) error { return nil })
		if err != nil || sum.Blocks != want || sum.Events != 3*want {
			t.Errorf("%s: got %d blocks of %d lines understood, %v, want %d", name, sum.Blocks, sum.Events, err, want)
		}
	}
}

// TestStampsOfLoggers: six failures on six days do not block, wherever the logger
// writes the time.
func TestStampsOfLoggers(t *testing.T) {
	set, problems := rules.LoadBytes("test.yaml", []byte(`
sources: [{file: /srv/app.log}]
rules: [{name: app, match: {source: stdin}, pattern: 'login failed ip=(?P<ip>\S+)', bucket: {capacity: 2, leak: 5m}}]
`), "")
	if set == nil {
		t.Fatal(problems)
	}
	for _, form := range []string{
		"2026-11-%d 09:23:10 %s", "[2026-11-%dT09:23:10.123+01:00] prod.INFO: %s", "INFO  [2026-11-%d 09:23:10,123] %s",
		"WARN 2026-11-%d 09:23:10,123 %s", "[WARNING] 2026-11-%dT09:23:10Z %s", "I, [2026-11-%dT09:23:10.123456 #1234]  INFO -- : %s",
		"W11%d 09:23:10.123456       1 auth.go:12] %s", `192.0.2.7 - - [%d/Nov/2026:09:23:10 +0000] "GET /" %s`,
	} {
		file := filepath.Join(t.TempDir(), "app.log")
		var text []byte
		for day := range 6 {
			text = fmt.Appendf(text, form+"\n", 10+day, "login failed ip=192.0.2.7")
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		stdin, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := Run(context.Background(), Options{Set: set, Files: []string{"-"}, Stdin: stdin, Zone: time.UTC}, func(Answer) error { return nil })
		stdin.Close()
		if err != nil || sum.Blocks != 0 || sum.Events != 6 {
			t.Errorf("%s: got %d blocks of %d lines understood, %v", form, sum.Blocks, sum.Events, err)
		}
	}
}
