//go:build linux && !cgo

package priv

import (
	"fmt"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// Confine lets this process, all its threads and all that they start, open
// only what lies below read, and write only below write, for ever: landlock(7).
// Paths that do not exist are left out. Rights by owner and mode still hold.
// Where the kernel knows less of Landlock, less is taken; the answer says, for
// people, what holds. An error means that nothing was confined.
func Confine(read, write []string) (string, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi == 0 {
		return "this kernel has no Landlock", nil
	}
	rules := []landlock.Rule{
		landlock.RODirs(kind(read, true)...).IgnoreIfMissing(), landlock.ROFiles(kind(read, false)...).IgnoreIfMissing(),
		landlock.RWDirs(kind(write, true)...).IgnoreIfMissing(), landlock.RWFiles(kind(write, false)...).IgnoreIfMissing(),
	}
	// V5 has all rights on files; what later versions add is of sockets and signals.
	if err := landlock.V5.BestEffort().RestrictPaths(rules...); err != nil {
		return "", fmt.Errorf("landlock: %w", err)
	}
	return fmt.Sprintf("Landlock %d: read access below %d paths, write access below %d", abi, len(read), len(write)), nil
}

// kind picks the directories, or what is none.
func kind(paths []string, dirs bool) (out []string) {
	for _, p := range paths {
		var st unix.Stat_t
		if unix.Stat(p, &st) != nil {
			continue
		}
		if (st.Mode&unix.S_IFMT == unix.S_IFDIR) == dirs {
			out = append(out, p)
		}
	}
	return out
}
