package source

import (
	"fmt"

	"golang.org/x/sys/unix"
)

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

// canWatch tells why no inotify instance can be had, and nil when one can.
func canWatch() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	return unix.Close(fd)
}
