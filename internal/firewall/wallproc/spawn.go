package wallproc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
)

// Process is the wall process, seen from the one that started it.
type Process struct {
	*Client
	cmd *exec.Cmd
}

// Descriptors that the wall process finds open.
const (
	cmdsFD    = 3
	changesFD = 4
)

// Spawn starts `self args…` as the wall process, with the server's ends of two
// socket pairs as descriptors 3 and 4, an environment of PATH alone, and, when
// we are root, no capabilities but those that the named walls need, for it and
// for whatever it starts. It runs in a process group of its own, so that a ^C at
// the terminal leaves it to us to end it.
func Spawn(self string, args, walls []string) (*Process, error) {
	cmds, cmdsEnd, err := socketpair("commands")
	if err != nil {
		return nil, fmt.Errorf("starting the wall: %w", err)
	}
	defer cmdsEnd.Close()
	changes, changesEnd, err := socketpair("changes")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the wall: %w", err), cmds.Close())
	}
	defer changesEnd.Close()
	cmd := exec.Command(self, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Args[0] = "stoplog" // as ps shows it
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{cmdsEnd, changesEnd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := startConfined(cmd, keptCaps(walls)); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the wall: %w", err), cmds.Close(), changes.Close())
	}
	return &Process{Client: NewClient(cmds, changes), cmd: cmd}, nil
}

// Wait waits for the process to end, which it does once Close was called.
func (p *Process) Wait() error { return p.cmd.Wait() }

// Pid is its process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Inherited returns the server's ends in a process that Spawn started.
func Inherited() (cmds, changes net.Conn, err error) {
	if cmds, err = inherited(cmdsFD, "commands"); err != nil {
		return nil, nil, err
	}
	if changes, err = inherited(changesFD, "changes"); err != nil {
		return nil, nil, errors.Join(err, cmds.Close())
	}
	return cmds, changes, nil
}

func inherited(fd uintptr, name string) (net.Conn, error) {
	f := os.NewFile(fd, name)
	defer f.Close() // FileConn keeps a copy
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d (%s): %w: only `run` starts the wall", fd, name, err)
	}
	return c, nil
}

// socketpair returns our end as a connection and the other as a file.
func socketpair(name string) (net.Conn, *os.File, error) {
	fds, err := pair()
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name)
	defer ours.Close() // FileConn keeps a copy
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return c, theirs, nil
}
