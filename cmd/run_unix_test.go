//go:build unix

package cmd

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"stoplog/internal/priv"
)

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
