//go:build unix

package cmd

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"stoplog/internal/priv"
	"stoplog/internal/rules"
)

// TestOwnDir: a folder is given away with our own files in it, and not at all
// when it holds others'.
func TestOwnDir(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving away needs root")
	}
	plan := priv.Plan{UID: 65534, GID: 65534}
	for name, want := range map[string]uint32{"state.prev": 65534, "audit.jsonl.1": 65534, "passwd": 0, "statement": 0} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ownDir(dir, 0o750, plan, ofState); (err == nil) != (want != 0) {
			t.Errorf("%s: got %v", name, err)
		}
		for _, path := range []string{dir, file} {
			fi, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := fi.Sys().(*syscall.Stat_t).Uid; got != want {
				t.Errorf("%s: got owner %d, want %d", path, got, want)
			}
		}
	}
	if !ofFlags("captcha") || !ofFlags(".tmp-1") || ofFlags("x.conf") {
		t.Error("the flags' folder takes the wrong files for ours")
	}
}

// TestOwnDirAgain: what the rules have written into the state's folder does not
// keep the next start from it, nor what is left there of earlier rules.
func TestOwnDirAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving away needs root")
	}
	dir := t.TempDir()
	for _, n := range []string{"state", "list.map", "metrics.prom"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan := priv.Plan{UID: 65534, GID: 65534}
	set := &rules.Set{Exports: []rules.Export{{File: dir + "/list.map"}}}
	set.Listen.Metrics.Textfile = dir + "/metrics.prom"
	ours := func(n string) bool { return ofState(n) || ofRules(set, filepath.Join(dir, n)) }
	if err := ownDir(dir, 0o750, plan, ofState); err == nil {
		t.Error("a folder with files of others was given away")
	}
	if err := ownDir(dir, 0o750, plan, ours); err != nil {
		t.Error(err)
	}
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := ownDir(dir, 0o750, plan, ofState); err != nil {
		t.Errorf("a folder that is theirs already: %v", err)
	}
	if fi, err := os.Stat(other); err != nil || fi.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("what is not ours was given away: %v", err)
	}
}

// TestSocketDir: a folder that was there stays whose it was, with all in it.
func TestSocketDir(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving away needs root")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "somebody's")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	plan := priv.Plan{UID: 65534, GID: 65534}
	fresh := filepath.Join(dir, "fresh")
	for _, path := range []string{dir, fresh} {
		if err := socketDir(path, plan); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]uint32{dir: 0, file: 0, fresh: 65534} {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s: got owner %d, want %d", path, got, want)
		}
	}
}

// TestOwnDirLinks: who may write to the folder gets nobody else's file by a
// link that has the name of one of ours.
func TestOwnDirLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving away needs root")
	}
	plan := priv.Plan{UID: 65534, GID: 65534}
	for what, link := range map[string]func(old, new string) error{"hard": os.Link, "symbolic": os.Symlink} {
		dir := t.TempDir()
		victim := filepath.Join(t.TempDir(), "victim")
		if err := os.WriteFile(victim, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, plan.UID, plan.GID); err != nil { // theirs, from an earlier start
			t.Fatal(err)
		}
		if err := link(victim, filepath.Join(dir, "state")); err != nil {
			t.Fatal(err)
		}
		if err := ownDir(dir, 0o750, plan, ofState); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(victim); err != nil || fi.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("by a %s link another's file was given away: %v", what, err)
		}
	}
	if !ofState(".tokens123") || ofState(".passwd1") || !ofState(".tmp-1") {
		t.Error("replacements that were not finished are not told from others' files")
	}
}
