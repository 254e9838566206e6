package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestWrite: a file is replaced by another one, and whatever goes wrong leaves
// the old one and nothing beside it.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "list")
	if err := Write(path, []byte("one"), nil); err != nil {
		t.Fatal(err)
	}
	first, err := os.Open(path) // a reader that is slow
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	var old fs.FileInfo
	err = Write(path, []byte("two"), func(f *os.File, was fs.FileInfo) error {
		old = was
		return f.Chmod(0o640)
	})
	if err != nil || old == nil || old.Size() != 3 {
		t.Fatalf("replacing: %v, old %v", err, old)
	}
	b := make([]byte, 8)
	if n, err := first.Read(b); err != nil || string(b[:n]) != "one" {
		t.Errorf("the reader of the old file reads %q, %v", b[:n], err)
	}
	broken := errors.New("broken")
	if err := Write(path, []byte("three"), func(*os.File, fs.FileInfo) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "two" {
		t.Errorf("after a failure: %q, %v", b, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v; want 0640", fi.Mode(), err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{link, dir, "/dev/null"} {
		if err := Write(p, []byte("x"), nil); err == nil {
			t.Errorf("%s was replaced", p)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("remains in the directory: %v", left)
	}
}
