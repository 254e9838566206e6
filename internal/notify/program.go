package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// tempFail is sysexits(3)'s EX_TEMPFAIL: the program asks for another try.
const tempFail = 75

// program runs an argument list, no shell, with the message on standard
// input. It gets a process group and a bare environment; its capabilities are
// none when the daemon's ambient set is empty.
type program struct{ argv []string }

func (p program) send(ctx context.Context, l letter) error {
	c := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "STOPLOG_SUBJECT=" + l.subject}
	c.Dir = "/"
	c.Stdin = bytes.NewReader(l.body)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	var said head
	c.Stdout, c.Stderr = &said, &said
	err := c.Run()
	if err == nil {
		return nil
	}
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) && c.ProcessState != nil && c.ProcessState.Success() {
		return nil // it is content; only a child of its own lives on
	}
	err = fmt.Errorf("%s: %w: %s", p.argv[0], err, clean(string(said)))
	if exit != nil && exit.ExitCode() == tempFail {
		return err
	}
	return permanent{err} // half of it may be done: not twice
}

// head keeps the first part of what a program says.
type head []byte

func (h *head) Write(b []byte) (int, error) {
	if room := 256 - len(*h); room > 0 {
		*h = append(*h, b[:min(room, len(b))]...)
	}
	return len(b), nil
}
