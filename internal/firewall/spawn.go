package firewall

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
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

// keptCaps are what the wall needs: CAP_NET_ADMIN for the rules, CAP_NET_RAW
// because legacy iptables talks over a raw socket. Files it may write as their
// owner, root; nothing else is granted.
var keptCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW}

// Spawn starts `self args…` as the wall process, with the server's ends of two
// socket pairs as descriptors 3 and 4, an environment of PATH alone, and, when
// we are root, no capabilities but those a firewall needs, for it and for
// whatever it starts. It runs in a process group of its own, so that a ^C at
// the terminal leaves it to us to end it.
func Spawn(self string, args []string) (*Process, error) {
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
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{cmdsEnd, changesEnd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := startConfined(cmd); err != nil {
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
		return nil, fmt.Errorf("descriptor %d (%s): %w: the wall is started by `run` only", fd, name, err)
	}
	return c, nil
}

// socketpair returns our end as a connection and the other as a file.
func socketpair(name string) (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
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

// startConfined starts cmd from a thread that gave up everything but
// keptCaps. Rights belong to threads and a child has those of the thread that
// made it, so that no moment exists in which it has more. The thread is not
// given back: its goroutine ends while locked to it. The main thread is left
// alone, as it cannot end, and its rights are shown as the whole process's.
func startConfined(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			err := startConfined(cmd) // on another thread, as this one is taken
			runtime.UnlockOSThread()
			done <- err
			return
		}
		if err := confineThread(); err != nil {
			done <- err
			return
		}
		done <- cmd.Start()
	}()
	return <-done
}

// confineThread bounds the capabilities of this thread and of all that it
// will execute, and keeps set-user-id files from raising them again.
func confineThread() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&hdr, &have[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	if have[unix.CAP_SETPCAP/32].Effective&(1<<(unix.CAP_SETPCAP%32)) != 0 {
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if !kept(c) {
				// EINVAL is a capability that this kernel does not know.
				if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
					return fmt.Errorf("dropping capability %d: %w", c, err)
				}
			}
		}
	}
	var want [2]unix.CapUserData
	for _, c := range keptCaps {
		bit := uint32(1) << (c % 32) & have[c/32].Permitted
		want[c/32].Permitted |= bit
		want[c/32].Effective |= bit
		want[c/32].Inheritable |= bit
	}
	if err := unix.Capset(&hdr, &want[0]); err != nil {
		return fmt.Errorf("setting capabilities: %w", err)
	}
	return raiseAmbient(want)
}

// raiseAmbient lets what is kept survive the execution of a program when we
// are not root but were given CAP_NET_ADMIN, as by a unit's
// AmbientCapabilities.
func raiseAmbient(want [2]unix.CapUserData) error {
	if os.Geteuid() == 0 {
		return nil
	}
	for _, c := range keptCaps {
		if want[c/32].Permitted&(1<<(c%32)) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("keeping capability %d: %w", c, err)
		}
	}
	return nil
}

func kept(c uintptr) bool {
	for _, k := range keptCaps {
		if c == k {
			return true
		}
	}
	return false
}
