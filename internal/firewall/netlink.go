//go:build linux

package firewall

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// portOf returns the netlink port of a socket, by which the kernel signs the
// notifications of what that socket did.
func portOf(c *netlink.Conn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var port uint32
	var inner error
	err = raw.Control(func(fd uintptr) {
		sa, err := unix.Getsockname(int(fd))
		if nl, ok := sa.(*unix.SockaddrNetlink); ok {
			port = nl.Pid
		} else if inner = err; err == nil {
			inner = errors.New("not a netlink socket")
		}
	})
	return port, errors.Join(err, inner)
}
