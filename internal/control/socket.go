package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ErrRunning: another daemon answers on the socket.
var ErrRunning = errors.New("another stoplog is running")

// umask is the process's; Listen changes it for a moment.
var umask sync.Mutex

// Listen makes the socket, for its owner and the group gid (-1: the owner
// alone). A socket that nobody answers on any more is replaced; one that
// somebody does gives ErrRunning; anything else at path is left alone. The
// directory is made if missing. Files that other goroutines create meanwhile
// are made with mode 0600 at most.
func Listen(path string, gid int) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the socket's directory: %w", err)
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	umask.Lock()
	old := syscall.Umask(0o177) // no moment in which others could connect
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(old)
	umask.Unlock()
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	if gid >= 0 {
		if gid != os.Getegid() { // else it is that group's already
			err = os.Chown(path, -1, gid)
		}
		if err == nil {
			err = os.Chmod(path, 0o660)
		}
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("giving %s to group %d: %w", path, gid, err)
		}
	}
	return l, nil
}

func clearStale(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the socket: %w", err)
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is no socket; not touching it", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("%w: it answers on %s", ErrRunning, path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("trying the socket: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the stale socket: %w", err)
	}
	return nil
}

type peerKey struct{}

func peer(ctx context.Context) string {
	if s, ok := ctx.Value(peerKey{}).(string); ok {
		return s
	}
	return "unknown"
}

// peerName turns a user id into what the audit trail calls it.
func peerName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "uid " + id
}
