//go:build !linux

package wallproc

import (
	"os/exec"
	"syscall"
)

// pair makes two connected descriptors that no program inherits unasked.
func pair() (fds [2]int, err error) {
	// No SOCK_CLOEXEC everywhere: nothing may be started in between.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if fds, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); err != nil {
		return fds, err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return fds, nil
}

// startConfined starts cmd with the rights that we have: there are no
// capabilities here to choose among.
func startConfined(cmd *exec.Cmd, _ []uintptr) error { return cmd.Start() }

func keptCaps([]string) []uintptr { return nil }
