package control

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerOf names the user at the other end (SO_PEERCRED, unix(7)).
func peerOf(c net.Conn) string {
	if b, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = b.NetConn()
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return "unknown"
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return "unknown"
	}
	name := "unknown"
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			name = peerName(cred.Uid)
		}
	})
	return name
}
