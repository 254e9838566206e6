package daemon

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneDaemonAStateFolder(t *testing.T) {
	dir := t.TempDir()
	first, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = Run(t.Context(), Options{StateDir: dir, Listener: l})
	if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second daemon on %s: got %v, want a word of who uses it", dir, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockState(dir)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	again.Close()
}

func TestStateFolderMissing(t *testing.T) {
	if _, err := lockState(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("locked a folder that is not there")
	}
}
