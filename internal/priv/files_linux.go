package priv

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// GiveFile gives the regular file name in dir to a user and group. Whoever may
// write to dir can put a link in its place: only a file with this one name is
// given away, and nothing that a link leads to.
func GiveFile(dir *os.File, name string, uid, gid int) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return errors.New("not a regular file with a single name; not changed")
	}
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
}

// ShutInherited makes every descriptor from first on close when a program is
// executed: what a shell or another parent left open is not ours, and must not
// stay open in a daemon or in what it starts. Descriptors that are to be passed
// on are opened afterwards, or named to Become.
func ShutInherited(first int) error {
	err := unix.CloseRange(uint(first), ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Linux before 5.11.
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing the open descriptors: %w", err)
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd) // fails for the listing's own, closed by now
		}
	}
	return nil
}
