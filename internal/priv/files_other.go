//go:build !linux

package priv

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// GiveFile gives the regular file name in dir to a user and group, and nothing
// that a link leads to.
func GiveFile(dir *os.File, name string, uid, gid int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return errors.New("not a regular file with a single name; not changed")
	}
	return unix.Fchownat(int(dir.Fd()), name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
}

// ShutInherited makes every descriptor from first on close when a program is
// executed.
func ShutInherited(first int) error {
	for fd := first; fd < 1024; fd++ {
		unix.CloseOnExec(fd) // fails for those that are not open
	}
	return nil
}
