//go:build !linux

package priv

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Become replaces the running program by argv[0] with argv and env, as
// another user, with the descriptors keep left open. There are no
// capabilities here: p.Keep is refused. It returns only on error, and the
// process must then end.
func Become(p Plan, path string, argv, env []string, keep []*os.File) error {
	if len(p.Keep) > 0 {
		return fmt.Errorf("keeping capabilities: not supported on this system")
	}
	for _, f := range keep {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("keeping %s open: %w", f.Name(), err)
		}
	}
	if os.Geteuid() == 0 {
		if err := setIDs(p); err != nil {
			return fmt.Errorf("becoming user %d: %w", p.UID, err)
		}
	}
	return fmt.Errorf("executing %s: %w", argv[0], syscall.Exec(path, argv, env))
}

func setIDs(p Plan) error {
	if err := syscall.Setgroups(p.Groups); err != nil {
		return err
	}
	if err := syscall.Setgid(p.GID); err != nil {
		return err
	}
	return syscall.Setuid(p.UID)
}

// Self is a name by which this program can be executed.
func Self() (string, error) { return os.Executable() }

// Held is always 0: there are no capabilities here.
func Held() (uint64, error) { return 0, nil }

// DropAmbient has nothing to drop.
func DropAmbient() error { return nil }

// Names prints capability bits for status.
func Names(uint64) string { return "unknown on this system" }
