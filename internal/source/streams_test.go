package source

import (
	"bufio"
	"context"
	"errors"
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

func TestNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	r := startSet(t, Options{MaxLine: 1000}, Spec{Pipe: path})
	if st := r.state(path, Waiting); !strings.Contains(st.Why, "no such file") {
		t.Errorf("got %q, want the cause", st.Why)
	}
	must(t, unix.Mkfifo(path, 0o600))
	for _, text := range []string{"one\ntwo\n", "three\n" + strings.Repeat("x", 200_000) + "\nfour\n"} {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		_, err = w.WriteString(text)
		must(t, err)
		w.Close()
	}
	r.wantTexts("one", "two", "three", strings.Repeat("x", 1000), "four")
	r.state(path, Following)
}

func TestPipeThatIsNone(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "file"), "")
	r := startSet(t, Options{}, Spec{Pipe: path})
	if st := r.state(path, Waiting); !strings.Contains(st.Why, "not a named pipe") {
		t.Errorf("got %q", st.Why)
	}
}

// Standard input is the test's own, so it is read by its descriptor.
func TestStandardInput(t *testing.T) {
	in, w, err := os.Pipe()
	must(t, err)
	old, err := unix.Dup(0)
	must(t, err)
	must(t, unix.Dup2(int(in.Fd()), 0))
	defer func() { must(t, unix.Dup2(old, 0)) }()

	r := startSet(t, Options{}, Spec{Stdin: true, Service: "sshd"})
	_, err = w.WriteString("one\nhalf")
	must(t, err)
	r.wantTexts("one")
	_, err = w.WriteString(" and half\nlast without a newline")
	must(t, err)
	w.Close()
	in.Close()
	// When its only source has ended, so has the Set.
	if err := <-r.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	r.done <- nil
	r.wantTexts("one", "half and half", "last without a newline")
	if st := r.Status(); len(st) != 1 || st[0].State != Ended {
		t.Errorf("got status %+v, want ended", st)
	}
}

func TestStandardInputIsLeftWhenAskedTo(t *testing.T) {
	in, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	old, err := unix.Dup(0)
	must(t, err)
	must(t, unix.Dup2(int(in.Fd()), 0))
	defer func() { must(t, unix.Dup2(old, 0)) }()
	r := startSet(t, Options{}, Spec{Stdin: true})
	r.state("stdin", Following)
	r.stop() // though nothing comes and nothing ends
}

// Without the right to write to it, a pipe ends with its last writer. Closed
// then, it would lose what the next one writes, or turn it away.
func TestPipeIsKeptOpenBetweenItsWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o600))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	must(t, err)
	defer unix.Close(fd)
	set, err := New(nil, Options{})
	must(t, err)
	out := make(chan *Batch, 1)
	st := &stream{name: path, set: set, out: out}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked, ended := make(chan bool, 1), make(chan error, 1)
	go func() {
		ended <- st.readFD(ctx, fd, false, func() bool {
			select {
			case asked <- true:
			default:
			}
			return true
		})
	}()
	for _, tt := range []struct{ text, want string }{{"one\nhalf a ", "one"}, {"line\n", "half a line"}} {
		w, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
		must(t, err)
		_, err = w.WriteString(tt.text)
		must(t, err)
		b := <-out
		if got := string(b.Lines[0].Text); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		b.Release()
		w.Close()
		select {
		case <-asked:
		case err := <-ended:
			t.Fatalf("without a writer it is given up: %v", err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

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
	cmd *exec.Cmd
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
	return &other{t, bufio.NewScanner(out), cmd}
}

// want reads what the follower prints up to want.
func (o *other) want(want string) {
	o.t.Helper()
	var seen []string
	timer := time.AfterFunc(patience, func() { o.cmd.Process.Kill() })
	defer timer.Stop()
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
	must(t, os.WriteFile(path, []byte("three\n"), 0o600))
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
