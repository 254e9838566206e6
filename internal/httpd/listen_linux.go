package httpd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// bind makes a socket that only its owner can open, from the first moment: the
// mode of the socket before it is bound is that of the file (unix_bind in the
// kernel), and other than a umask it concerns nothing else in this process.
func bind(path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); e != nil {
			return e
		}
		return err
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// grant gives the socket at path its group and mode, through a descriptor of
// that file alone: whoever may write to the directory can put a link there.
func grant(path string, mode fs.FileMode, gid int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
		return errors.New("another process replaced the socket")
	}
	if gid >= 0 && gid != int(st.Gid) {
		if err := unix.Fchownat(fd, "", -1, gid, unix.AT_EMPTY_PATH); err != nil {
			return fmt.Errorf("group %d: %w", gid, err)
		}
	}
	// fchmod(2) refuses O_PATH; this link leads to the file of the descriptor.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), uint32(mode.Perm())); err != nil {
		return fmt.Errorf("mode %o: %w", mode.Perm(), err)
	}
	return nil
}
