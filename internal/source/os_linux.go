package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// dirEvents are what changes the meaning of a name.
const dirEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ATTRIB | unix.IN_ONLYDIR

// dirWatch reports names that come and go in directories. The tracker of
// nxadm/tail passes on only what concerns files that are followed by name,
// nothing of a directory, so this is an inotify instance of our own.
type dirWatch struct {
	f *os.File

	mu    sync.Mutex // guards both maps
	byDir map[string]int32
	byWd  map[int32][]string // one directory may be known by several paths
}

func newDirWatch() (*dirWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return &dirWatch{
		f:     os.NewFile(uintptr(fd), "inotify"),
		byDir: map[string]int32{},
		byWd:  map[int32][]string{},
	}, nil
}

// want makes dirs the watched directories and reports whether there are new
// ones. Those that cannot be watched now are left out; the caller asks again.
func (d *dirWatch) want(dirs map[string]bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir := range d.byDir {
		if !dirs[dir] {
			d.forget(dir)
		}
	}
	before := len(d.byDir)
	for dir := range dirs {
		if _, ok := d.byDir[dir]; !ok {
			d.add(dir)
		}
	}
	return len(d.byDir) > before
}

func (d *dirWatch) add(dir string) {
	raw, err := d.f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		wd, err := unix.InotifyAddWatch(int(fd), dir, dirEvents)
		if err == nil {
			d.byDir[dir] = int32(wd)
			d.byWd[int32(wd)] = append(d.byWd[int32(wd)], dir)
		}
	})
}

// forget drops dir, and its watch with the last path of it.
func (d *dirWatch) forget(dir string) {
	wd := d.byDir[dir]
	delete(d.byDir, dir)
	var rest []string
	for _, other := range d.byWd[wd] {
		if other != dir {
			rest = append(rest, other)
		}
	}
	if len(rest) > 0 {
		d.byWd[wd] = rest
		return
	}
	delete(d.byWd, wd)
	if raw, err := d.f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) })
	}
}

// run reads events until close and hands each to tell.
func (d *dirWatch) run(tell func(dirEvent)) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := d.f.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("inotify: %w", err)
		}
		d.decode(buf[:n], tell)
	}
}

// decode takes events apart, in the layout of inotify(7).
func (d *dirWatch) decode(buf []byte, tell func(dirEvent)) {
	for len(buf) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(buf))
		mask := binary.NativeEndian.Uint32(buf[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[12:]))
		if end > len(buf) {
			return
		}
		name := strings.TrimRight(string(buf[unix.SizeofInotifyEvent:end]), "\x00")
		buf = buf[end:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			tell(dirEvent{})
			continue
		}
		for _, dir := range d.dirsOf(wd, mask) {
			tell(dirEvent{Dir: dir, Name: name})
		}
	}
}

// dirsOf returns the paths of wd, and forgets them when they may now be
// another directory's.
func (d *dirWatch) dirsOf(wd int32, mask uint32) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	dirs := d.byWd[wd]
	if mask&(unix.IN_MOVE_SELF|unix.IN_DELETE_SELF|unix.IN_IGNORED|unix.IN_UNMOUNT) != 0 {
		for _, dir := range dirs {
			d.forget(dir)
		}
	}
	return dirs
}

// refresh watches dir again: its path leads to another directory now.
func (d *dirWatch) refresh(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.byDir[dir]; ok {
		d.forget(dir)
		d.add(dir)
	}
}

func (d *dirWatch) close() { d.f.Close() }

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

// remoteSystems are file systems where inotify misses changes: those made by
// another machine, or by a program in user space, and on overlayfs those to a
// file that was opened before it was copied up (statfs(2), magic numbers).
var remoteSystems = map[int64]bool{
	0x6969:     true, // NFS
	0xff534d42: true, // CIFS
	0xfe534d42: true, // SMB2
	0x517b:     true, // SMB
	0x65735546: true, // FUSE
	0x01021997: true, // 9p
	0x5346414f: true, // AFS
	0x6b414653: true, // AFS, the kernel's
	0x00c36400: true, // Ceph
	0x01161970: true, // GFS2
	0x7461636f: true, // OCFS2
	0x0bd00bd0: true, // Lustre
	0x47504653: true, // GPFS
	0x794c7630: true, // overlayfs
	0x786f4256: true, // vboxsf
}

// needsPolling reports whether the kernel cannot tell of changes to h.
func needsPolling(h handle) bool {
	var st unix.Statfs_t
	_, err := retry(func() (int, error) { return 0, unix.Fstatfs(int(h), &st) })
	return err != nil || remoteSystems[int64(st.Type)&0xffffffff]
}

// canWatch returns why no inotify instance can be had, and nil when one can.
func canWatch() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	return unix.Close(fd)
}

// shedRights takes from the calling thread, and so from what is started by
// it, every capability that a child could inherit or gain: the ambient set,
// the bounding set where that is allowed, and setuid programs. The goroutine
// must be locked to its thread and end with it.
func shedRights() {
	// Without the right to do so there is nothing to shed.
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// onOwnThread calls f on a thread that ends with it, never the process's
// first, whose rights are those that a process is seen with.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never undone: the thread ends
		if unix.Gettid() == unix.Getpid() {
			onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// childAttr puts a child in a group of its own and lets it end with us.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
