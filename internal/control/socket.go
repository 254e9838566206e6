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

	"stoplog/internal/httpd"
)

// ErrRunning: another daemon answers on the socket.
var ErrRunning = errors.New("another stoplog is running")

// Listen makes the socket, for its owner and the group gid (-1: the owner
// alone); see httpd.Socket. Where another daemon answers it gives ErrRunning.
// The directory is made if missing.
func Listen(path string, gid int) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("creating the socket's directory: %w", err)
	}
	mode := fs.FileMode(0o600)
	if gid >= 0 {
		mode = 0o660
	}
	l, err := httpd.Socket(path, mode, gid)
	if errors.Is(err, httpd.ErrInUse) {
		return nil, fmt.Errorf("%w: it answers on %s", ErrRunning, path)
	}
	return l, err
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
