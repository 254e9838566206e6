package source

import "golang.org/x/sys/unix"

// data is the offset of the first byte at or after off that is not in a hole,
// the file's end when all the rest is one.
func (h handle) data(off int64) int64 {
	at, err := unix.Seek(int(h), off, unix.SEEK_DATA)
	if err == unix.ENXIO {
		at, err = unix.Seek(int(h), 0, unix.SEEK_END)
	}
	if err != nil {
		return off
	}
	return max(at, off)
}

// newWake makes a descriptor that becomes readable when it is written to.
// Both are the same; it is closed once.
func newWake() (read, write int, err error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return fd, fd, err
}
