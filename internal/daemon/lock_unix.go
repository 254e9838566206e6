//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// lockName is the file in the state folder that who uses it has locked.
const lockName = "lock"

// lockState makes the state folder this process's alone until the closer is
// closed or the process ends, however it ends (flock(2)). Two daemons would
// write over each other's journal.
func lockState(dir string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("the state folder %s is in use by another stoplog (use --state for another folder)", dir)
	}
	return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
}
