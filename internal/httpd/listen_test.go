package httpd

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// makeStale leaves a socket that nobody answers on, as a kill -9 does.
func makeStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "stale")
	makeStale(t, path)
	l, err := Listen(path, 0o666)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v; want 0666", fi.Mode(), err)
	}
	if _, err := Listen(path, 0o666); !errors.Is(err, ErrInUse) {
		t.Errorf("beside a live one: %v, want ErrInUse", err)
	}
	l.Close()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left behind")
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(file, 0o666); err == nil || !strings.Contains(err.Error(), "not changed") {
		t.Errorf("a file in its place: %v, want it left alone", err)
	}
	for _, addr := range []string{filepath.Join(dir, "no", "x.sock"), "127.0.0.1:99999", "192.0.2.1:0"} {
		if l, err := Listen(addr, 0o666); err == nil {
			l.Close()
			t.Errorf("%s was listened on", addr)
		}
	}
}

func TestSocketIsGivenToItsGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file to another group")
	}
	for _, c := range []struct {
		gid  int
		mode os.FileMode
	}{{-1, 0o600}, {65534, 0o660}, {os.Getgid(), 0o660}} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := Socket(path, c.mode, c.gid)
		if err != nil {
			t.Fatal(err)
		}
		fi, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		want := max(c.gid, 0)
		if c.gid < 0 {
			want = os.Getgid()
		}
		if st := fi.Sys().(*syscall.Stat_t); int(st.Gid) != want || fi.Mode().Perm() != c.mode {
			t.Errorf("group %d, mode %v; want %d, %v", st.Gid, fi.Mode(), want, c.mode)
		}
		l.Close()
	}
}

// TestReplacedSocket: what stands in the socket's place when its mode and group
// are set, a link to another's file or the file itself, is not touched.
func TestReplacedSocket(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.sock")
	makeStale(t, other)
	if err := os.Chmod(other, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, place := range map[string]func(path string) error{
		"a symbolic link to a file":   func(p string) error { return os.Symlink(victim, p) },
		"a symbolic link to a socket": func(p string) error { return os.Symlink(other, p) },
		"a hard link to a file":       func(p string) error { return os.Link(victim, p) },
		"a hard link to a socket":     func(p string) error { return os.Link(other, p) },
		"nothing":                     func(string) error { return nil },
	} {
		path := filepath.Join(t.TempDir(), "s")
		if err := place(path); err != nil {
			t.Fatal(err)
		}
		if err := grant(path, 0o666, 65534); err == nil {
			t.Errorf("%s was taken for the socket", name)
		}
		for _, f := range []string{victim, other} {
			fi, err := os.Lstat(f)
			if err != nil {
				t.Fatal(err)
			}
			if st := fi.Sys().(*syscall.Stat_t); fi.Mode().Perm() != 0o600 || int(st.Gid) != os.Getgid() {
				t.Fatalf("%s: %s is now %v of group %d", name, f, fi.Mode(), st.Gid)
			}
		}
	}
}

// TestSocketRace lets the owner of the folder put links in the socket's place
// as fast as possible while sockets are made in it.
func TestSocketRace(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "s")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var racer sync.WaitGroup
	racer.Go(func() {
		for link := path + ".link"; ; {
			select {
			case <-stop:
				return
			default:
			}
			// The folder's owner puts the link where the socket has just come.
			if fi, err := os.Lstat(path); err == nil && fi.Mode().Type() == os.ModeSocket {
				_ = os.Symlink(victim, link)
				_ = os.Rename(link, path)
			}
		}
	})
	made, lost := 0, 0
	for range 2000 {
		_ = os.Remove(path)
		l, err := Socket(path, 0o660, os.Getgid())
		if err != nil {
			lost++
			continue
		}
		made++
		l.Close()
	}
	close(stop)
	racer.Wait()
	if fi, err := os.Stat(victim); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the link's target is now %v, %v", fi.Mode(), err)
	}
	t.Logf("%d sockets made, %d given up because they were replaced", made, lost)
}
