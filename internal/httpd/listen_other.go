//go:build !linux

package httpd

import (
	"io/fs"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

var umask sync.Mutex // guards the process's

// bind makes a socket that only its owner can open, from the first moment.
// Files that other goroutines make meanwhile get mode 0600 at most.
func bind(path string) (*net.UnixListener, error) {
	umask.Lock()
	defer umask.Unlock()
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// grant gives the socket at path, and nothing that a link leads to, its group
// and mode.
func grant(path string, mode fs.FileMode, gid int) error {
	if gid >= 0 {
		if err := os.Lchown(path, -1, gid); err != nil {
			return err
		}
	}
	return unix.Fchmodat(unix.AT_FDCWD, path, uint32(mode.Perm()), unix.AT_SYMLINK_NOFOLLOW)
}
