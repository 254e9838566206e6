// Package httpd holds what the HTTP listeners share: the listening socket, the
// bounds of a server, who may connect, and the tokens that are asked for.
package httpd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// ErrInUse: another process answers on the socket.
var ErrInUse = errors.New("another process is listening there")

// Listen listens on "host:port", or on the unix socket of an absolute path;
// see Socket, whose group is the process's own.
func Listen(addr string, mode fs.FileMode) (net.Listener, error) {
	if addr == "" || addr[0] != '/' {
		return net.Listen("tcp", addr)
	}
	return Socket(addr, mode, -1)
}

// Socket makes a unix socket with this mode and group; gid -1 is the process's
// own. A socket that nobody answers on any more is replaced; one that somebody
// does gives ErrInUse; anything else at path is left alone. Its directory may
// belong to somebody else: mode and group are set on the very file that was
// bound, never on what a link leads to.
func Socket(path string, mode fs.FileMode, gid int) (*net.UnixListener, error) {
	if err := clearStale(path); err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	l, err := bind(path)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	if err := grant(path, mode, gid); err != nil {
		l.Close()
		return nil, fmt.Errorf("setting mode and group of %s: %w", path, err)
	}
	return l, nil
}

func clearStale(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return errors.New("not a socket; not changed")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(ErrInUse, c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
