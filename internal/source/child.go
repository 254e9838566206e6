package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// shedRights takes from the calling thread, and so from what is started by
// it, every capability that a child could inherit or gain: the ambient set,
// the bounding set where that is allowed, and setuid programs. The goroutine
// must be locked to its thread and end with it.
func shedRights() {
	// Without the right to do so there is nothing to shed.
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// onOwnThread calls f on a thread that ends with it, never the process's
// first, whose rights are those that a process is seen with.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never undone: the thread ends
		if unix.Gettid() == unix.Getpid() {
			onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// child is a program whose output is read.
type child struct {
	cmd    *exec.Cmd
	out    io.ReadCloser
	errors tailBuffer
}

// startChild starts argv with nothing of our environment. It is killed, with
// all that it started, when ctx ends; the parent's death kills it as well, so
// the calling goroutine must be locked to a thread that outlives it.
func startChild(ctx context.Context, argv []string, attr *syscall.SysProcAttr) (*child, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SYSTEMD_COLORS=0"}
	cmd.Dir = "/"
	cmd.SysProcAttr = attr
	if attr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	if cmd.SysProcAttr.Setpgid {
		cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	}
	cmd.WaitDelay = time.Second
	c := &child{cmd: cmd}
	cmd.Stderr = &c.errors
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, c.out = w, out
	err = cmd.Start()
	w.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	return c, nil
}

// wait waits for the end, and tells how it ended with its last words.
func (c *child) wait() error {
	c.out.Close()
	err := c.cmd.Wait()
	if err == nil {
		return nil
	}
	if words := c.errors.String(); words != "" {
		return fmt.Errorf("%w: %s", err, words)
	}
	return err
}

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 512

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-tailSize):]...)
	t.buf = append(t.buf[:0], t.buf[max(0, len(t.buf)-tailSize):]...)
	return len(p), nil
}

// String is the last line, or what is left of it.
func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.buf)
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return strings.ToValidUTF8(string(text), "?")
}
