package export

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/atomicfile"
)

func inode(t *testing.T, path string) os.FileInfo {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

func TestToFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "list")
	write := func(es []Entry, o Options) File {
		t.Helper()
		o.Now = noon
		f, err := ToFile(path, "plain", es, o)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	one, two := []Entry{block("192.0.2.1/32", 5)}, []Entry{block("192.0.2.1/32", 5), block("192.0.2.3/32", 9)}
	if got := write(one, Options{}); got != (File{Changed: true, Len: 1}) {
		t.Errorf("first: %+v", got)
	}
	if m := inode(t, path).Mode(); m != 0o644 {
		t.Errorf("mode %v, want 0644", m)
	}
	before := inode(t, path)
	if got := write(one, Options{}); got.Changed || !os.SameFile(before, inode(t, path)) {
		t.Errorf("the same again: %+v; want the very file left alone", got)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := write(two, Options{Cap: 1}); got != (File{Changed: true, Len: 1, Left: 1}) {
		t.Errorf("capped: %+v", got)
	}
	if os.SameFile(before, inode(t, path)) || inode(t, path).Mode() != 0o600 {
		t.Errorf("mode %v; want another file with the mode of the old one", inode(t, path).Mode())
	}
	if b, _ := os.ReadFile(path); !strings.Contains(string(b), "192.0.2.3\n") {
		t.Errorf("got %s", b)
	}
	// Text of the same length is told apart too.
	if err := os.WriteFile(path, []byte(strings.Repeat("x", int(inode(t, path).Size()))), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := write(two, Options{Cap: 1}); !got.Changed {
		t.Error("another text of the same length was left in place")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("remains in the directory: %v", left)
	}
}

// TestToFileKeepsOwner needs root to give a file away.
func TestToFileKeepsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	path := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if f, err := ToFile(path, "plain", nil, Options{Now: time.Now()}); err != nil || !f.Changed {
		t.Fatalf("%+v, %v", f, err)
	}
	if uid, gid := atomicfile.Owner(inode(t, path)); uid != 65534 || gid != 65534 || inode(t, path).Mode() != 0o640 {
		t.Errorf("owner %d:%d, mode %v; want 65534:65534, 0640", uid, gid, inode(t, path).Mode())
	}
}

// TestToFileRefuses: what cannot be written is reported with place and cause,
// and what is no plain file is left alone.
func TestToFileRefuses(t *testing.T) {
	dir := t.TempDir()
	link, target := filepath.Join(dir, "link"), filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("another's"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		link: "not changed", dir: "not changed", "/dev/null": "not changed",
		filepath.Join(dir, "no", "list"): "no such file or directory",
		filepath.Join(target, "list"):    "not a directory",
		"/proc/stoplog-list":             "/proc/stoplog-list",
	} {
		_, err := ToFile(path, "plain", []Entry{block("192.0.2.1/32", 5)}, Options{Now: noon})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %v; want the path once, and %q", path, err, want)
		}
	}
	if b, _ := os.ReadFile(target); string(b) != "another's" {
		t.Errorf("the link's target now holds %q", b)
	}
	if _, err := ToFile(filepath.Join(dir, "list"), "wordstar", nil, Options{}); err == nil {
		t.Error("an unknown format was written")
	}
}

// TestKeepOwner: who is not root can replace a file that root made, if those
// who read it still can.
func TestKeepOwner(t *testing.T) {
	denied := &fs.PathError{Op: "chown", Path: "x", Err: syscall.EPERM}
	for _, c := range []struct {
		what  string
		chown func(uid, gid int) error
		mode  fs.FileMode
		fails bool
	}{
		{"root", func(int, int) error { return nil }, 0o600, false},
		{"everybody reads", func(int, int) error { return denied }, 0o644, false},
		{"its group reads, and is ours too", func(uid, _ int) error {
			if uid == -1 {
				return nil
			}
			return denied
		}, 0o640, false},
		{"its group reads", func(int, int) error { return denied }, 0o640, true},
		{"a disk that fails", func(int, int) error { return syscall.EIO }, 0o644, true},
	} {
		if err := keepOwner(c.chown, c.mode, 0, 0); (err != nil) != c.fails {
			t.Errorf("%s: %v, want an error: %v", c.what, err, c.fails)
		}
	}
}
