package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

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
		cmd.SysProcAttr = childAttr()
	}
	if cmd.SysProcAttr.Setpgid {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
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
