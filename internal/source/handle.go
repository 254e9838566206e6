package source

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// handle is an open descriptor of a regular file. It is not an *os.File: a
// followed file is read at offsets, never through the runtime's poller.
type handle int

// fileID names a file on this machine as long as it exists.
type fileID struct{ dev, ino uint64 }

// fileInfo is what stat reports about a file.
type fileInfo struct {
	fileID
	size    int64
	mtime   time.Time
	links   uint64
	regular bool
}

func infoOf(st *unix.Stat_t) fileInfo {
	return fileInfo{
		fileID:  fileID{uint64(st.Dev), uint64(st.Ino)},
		size:    st.Size,
		mtime:   time.Unix(st.Mtim.Unix()),
		links:   uint64(st.Nlink),
		regular: st.Mode&unix.S_IFMT == unix.S_IFREG,
	}
}

// openFile opens path for reading. It does not block on a named pipe.
func openFile(path string) (handle, fileInfo, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return -1, fileInfo{}, err
	}
	h := handle(fd)
	info, err := h.stat()
	if err == nil && !info.regular {
		err = fmt.Errorf("not a regular file")
	}
	if err != nil {
		h.Close()
		return -1, fileInfo{}, err
	}
	return h, info, nil
}

func statPath(path string) (fileInfo, error) {
	var st unix.Stat_t
	_, err := retry(func() (int, error) { return 0, unix.Stat(path, &st) })
	return infoOf(&st), err
}

func (h handle) stat() (fileInfo, error) {
	var st unix.Stat_t
	_, err := retry(func() (int, error) { return 0, unix.Fstat(int(h), &st) })
	return infoOf(&st), err
}

// ReadAt reads until p is full or the file ends.
func (h handle) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := retry(func() (int, error) { return unix.Pread(int(h), p[n:], off+int64(n)) })
		if err != nil {
			return n, err
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

func (h handle) Close() error { return unix.Close(int(h)) }

// procPath is a name of the open file that no rename takes away and that no
// lost permission on its directories hides.
func (h handle) procPath() string { return "/proc/self/fd/" + strconv.Itoa(int(h)) }

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}
