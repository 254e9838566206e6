//go:build !linux

package source

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// dirWatch is never made here: directories are polled.
type dirWatch struct{}

func newDirWatch() (*dirWatch, error)       { return nil, errNoInotify }
func (*dirWatch) want(map[string]bool) bool { return false }
func (*dirWatch) run(func(dirEvent)) error  { return nil }
func (*dirWatch) refresh(string)            {}
func (*dirWatch) close()                    {}

// data cannot ask for holes everywhere: the bytes there are read as zeros.
func (h handle) data(off int64) int64 { return off }

// newWake makes a pipe whose read end becomes readable when it is written to.
func newWake() (read, write int, err error) {
	fds := make([]int, 2)
	if err := unix.Pipe(fds); err != nil {
		return -1, -1, err
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			unix.Close(fds[0])
			unix.Close(fds[1])
			return -1, -1, err
		}
	}
	return fds[0], fds[1], nil
}

var errNoInotify = errors.New("this system has no inotify")

// needsPolling: the names that files are watched by, /proc/self/fd/N, are
// Linux's.
func needsPolling(handle) bool { return true }

func canWatch() error { return errNoInotify }

// shedRights has nothing to shed where there are no capabilities.
func shedRights() {}

func onOwnThread(f func()) { f() }

// childAttr puts a child in a group of its own. It does not end with us when
// we are killed, but at the first line that it then writes.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
