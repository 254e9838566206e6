package source

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary run as another user follows the file it is told and prints
// what it gets.
func TestMain(m *testing.M) {
	if path := os.Getenv("STOPLOG_TEST_FOLLOW"); path != "" {
		followForTest(path, os.Getenv("STOPLOG_TEST_NO_INOTIFY") != "")
		return
	}
	os.Exit(m.Run())
}

func followForTest(path string, exhaust bool) {
	for exhaust {
		if _, err := unix.InotifyInit(); err != nil {
			break
		}
	}
	set, err := New([]Spec{{File: path}}, Options{
		Poll:   20 * time.Millisecond,
		Report: func(p Problem) { fmt.Println("problem:", p.Error()) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := make(chan *Batch)
	go func() { _ = set.Run(ctx, out) }()
	go func() {
		<-set.CaughtUp()
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for b := range out {
		for _, l := range b.Lines {
			fmt.Printf("line: %s\n", l.Text)
		}
		b.Release()
	}
}

// other is a follower in a process of another user, who has no rights.
type other struct {
	t   testing.TB
	out *bufio.Scanner
}

func startOther(t testing.TB, path string, env ...string) *other {
	t.Helper()
	return startOtherFrom(t, filepath.Dir(path), path, env...)
}

// startOtherFrom is startOther for a path whose folder is closed; the program
// lies in dir.
func startOtherFrom(t testing.TB, dir, path string, env ...string) *other {
	t.Helper()
	if os.Getuid() != 0 {
		unmet(t, "only root can become another user")
	}
	// The other user must reach the test binary.
	bin := filepath.Join(dir, "follower.test")
	self, err := os.Executable()
	must(t, err)
	copyFile(t, self, bin)
	must(t, os.Chmod(bin, 0o755))
	cmd := exec.Command(bin)
	cmd.Env = append(env, "STOPLOG_TEST_FOLLOW="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the follower ended with %v", err)
		}
	})
	return &other{t, bufio.NewScanner(out)}
}

// want reads what the follower prints up to want.
func (o *other) want(want string) {
	o.t.Helper()
	var seen []string
	for o.out.Scan() {
		seen = append(seen, o.out.Text())
		if strings.Contains(o.out.Text(), want) {
			return
		}
	}
	o.t.Fatalf("the follower ended before it printed %q; it printed %q", want, seen)
}

func openDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "stoplog-test")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestPermissionLostAndRegained(t *testing.T) {
	path := filepath.Join(openDir(t), "auth.log")
	writeFile(t, path, "before\n")
	must(t, os.Chmod(path, 0o600))
	o := startOther(t, path)
	o.want("permission denied")
	o.want("ready")
	appendTo(t, path, "one\n") // written before it can be read
	must(t, os.Chmod(path, 0o644))
	o.want("line: one")

	// Lost while it is open: what is open stays readable.
	must(t, os.Chmod(path, 0o600))
	appendTo(t, path, "two\n")
	o.want("line: two")

	// Rotated into a file that cannot be read, and then can.
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "three\n")
	must(t, os.Chmod(path, 0o600))
	o.want("permission denied")
	must(t, os.Chmod(path, 0o644))
	o.want("line: three")

	// A directory that cannot be searched any more.
	must(t, os.Chmod(filepath.Dir(path), 0o700))
	appendTo(t, path, "four\n")
	o.want("line: four")
	must(t, os.Chmod(filepath.Dir(path), 0o755))
	appendTo(t, path, "five\n")
	o.want("line: five")
}

// A glob over a folder that may not be read says so, and gains its files once
// it may.
func TestGlobOverClosedFolder(t *testing.T) {
	dir := openDir(t)
	closed := filepath.Join(dir, "httpd")
	must(t, os.Mkdir(closed, 0o700))
	writeFile(t, filepath.Join(closed, "a_access.log"), "before\n")
	o := startOtherFrom(t, dir, filepath.Join(closed, "*access*.log"))
	o.want("folder " + closed + ": permission denied")
	o.want("ready")
	must(t, os.Chmod(closed, 0o755))
	writeFile(t, filepath.Join(closed, "b_access.log"), "one\n")
	o.want("line: one")
}

func TestNoInotifyInstanceIsLeft(t *testing.T) {
	path := filepath.Join(openDir(t), "auth.log")
	writeFile(t, path, "before\n")
	o := startOther(t, path, "STOPLOG_TEST_NO_INOTIFY=1")
	o.want("too many open files; polling every")
	o.want("ready")
	appendTo(t, path, "one\n")
	o.want("line: one")
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "two\n")
	o.want("line: two")
}
