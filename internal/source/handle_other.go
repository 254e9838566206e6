//go:build !linux

package source

import "golang.org/x/sys/unix"

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
