package web

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// lockFile waits until nobody else holds f; closing f lets go.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

// ownAs gives f, when we are root, to whom the file before it or else its
// folder belongs; in a folder of root's, to the user that the daemon becomes:
// it must be able to read it.
func ownAs(f *os.File, before string, dir *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := 0, 0
	if fi, err := os.Lstat(before); err == nil {
		uid, gid = owner(fi)
	} else if fi, err := dir.Stat(); err == nil {
		uid, gid = owner(fi)
		if u, err := user.Lookup("stoplog"); uid == 0 && err == nil {
			uid, gid = number(u.Uid), number(u.Gid)
		}
	}
	return f.Chown(uid, gid)
}

func owner(fi os.FileInfo) (uid, gid int) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return 0, 0
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}
