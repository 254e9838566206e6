//go:build linux

package base

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// portOf returns the netlink port of a socket, by which the kernel signs the
// notifications of what that socket did.
func PortOf(c *netlink.Conn) (uint32, error) {
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

// netlinkWait bounds how long an answer of the kernel is waited for.
const NetlinkWait = 10 * time.Second

// dialNetfilter opens a socket for one conversation, which ends with ctx: what
// is broken off must not be taken for the answer to something else.
func DialNetfilter(ctx context.Context) (*netlink.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, err
	}
	return c, Bound(ctx, c)
}

func Bound(ctx context.Context, c *netlink.Conn) error {
	end := time.Now().Add(NetlinkWait)
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		end = d
	}
	return c.SetDeadline(end)
}

// attr appends one netlink attribute.
func Attr(b []byte, typ uint16, data []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(data)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = append(b, data...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func AttrText(b []byte, typ uint16, s string) []byte { return Attr(b, typ, append([]byte(s), 0)) }

func AttrU32(b []byte, typ uint16, v uint32) []byte {
	return Attr(b, typ|unix.NLA_F_NET_BYTEORDER, binary.BigEndian.AppendUint32(nil, v))
}

// nfAttributes walks the attributes of a message of netfilter, behind its
// header of four bytes (struct nfgenmsg).
func NetfilterAttributes(data []byte, do func(typ uint16, b []byte)) {
	if len(data) > 4 {
		Attributes(data[4:], do)
	}
}

// dumpBuffer is what one read takes. The kernel fills as much of it as one
// message may be, 32 KiB, and each message of a dump walks the whole table up to
// where the one before ended: few large ones are quicker by far.
const dumpBuffer = 128 << 10

// receiveDump reads the answers to a dump that was asked for on c, and hands on
// each; data is valid during the call only. torn says that the kernel saw
// changes while it went on.
func ReceiveDump(c *netlink.Conn, see func(data []byte)) (torn bool, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false, err
	}
	buf := make([]byte, dumpBuffer)
	for {
		n, got := 0, error(nil)
		err := raw.Read(func(fd uintptr) bool {
			n, _, got = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			return !errors.Is(got, unix.EAGAIN) && !errors.Is(got, unix.EINTR)
		})
		if err = errors.Join(err, got); err != nil {
			return torn, err
		}
		for b := buf[:n]; len(b) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < unix.SizeofNlMsghdr || size > len(b) {
				return torn, errors.New("malformed netlink message")
			}
			kind, flags := binary.NativeEndian.Uint16(b[4:]), netlink.HeaderFlags(binary.NativeEndian.Uint16(b[6:]))
			torn = torn || flags&netlink.DumpInterrupted != 0
			body := b[unix.SizeofNlMsghdr:size]
			switch kind {
			case unix.NLMSG_DONE:
				return torn, errnoOf(body)
			case unix.NLMSG_ERROR:
				return torn, errnoOf(body)
			}
			see(body)
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// errnoOf is the error that a message ends with, nil for 0.
func errnoOf(b []byte) error {
	if len(b) < 4 {
		return nil
	}
	if e := int32(binary.NativeEndian.Uint32(b)); e < 0 {
		return unix.Errno(-e)
	}
	return nil
}

// attributes walks netlink attributes, stopping at what is malformed.
func Attributes(b []byte, do func(typ uint16, data []byte)) {
	for len(b) >= unix.SizeofNlAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofNlAttr || n > len(b) {
			return
		}
		do(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofNlAttr:n])
		b = b[min((n+3)&^3, len(b)):]
	}
}

func CString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
