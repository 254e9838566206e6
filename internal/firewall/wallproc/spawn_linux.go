package wallproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// keptCaps are what walls need: CAP_NET_ADMIN for all of them; CAP_NET_RAW for
// those that run iptables, whose legacy kind and whose match for sets speak to
// the kernel over a raw socket. Files the wall may write as their owner, root;
// nothing else is granted.
func keptCaps(walls []string) []uintptr {
	if slices.Contains(walls, "iptables") || slices.Contains(walls, "ipset") {
		return []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW}
	}
	return []uintptr{unix.CAP_NET_ADMIN}
}

// pair makes two connected descriptors that no program inherits unasked.
func pair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

// startConfined starts cmd from a thread that gave up everything but
// those capabilities. Rights belong to threads and a child has those of the thread that
// made it, so that no moment exists in which it has more. The thread is not
// given back: its goroutine ends while locked to it. The main thread is left
// alone, as it cannot end, and its rights are shown as the whole process's.
func startConfined(cmd *exec.Cmd, keep []uintptr) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			err := startConfined(cmd, keep) // on another thread, as this one is taken
			runtime.UnlockOSThread()
			done <- err
			return
		}
		if err := confineThread(keep); err != nil {
			done <- err
			return
		}
		done <- cmd.Start()
	}()
	return <-done
}

// confineThread bounds the capabilities of this thread and of all that it
// will execute, and keeps set-user-id files from raising them again.
func confineThread(keep []uintptr) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&hdr, &have[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	if have[unix.CAP_SETPCAP/32].Effective&(1<<(unix.CAP_SETPCAP%32)) != 0 {
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if !slices.Contains(keep, c) {
				// EINVAL is a capability that this kernel does not know.
				if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
					return fmt.Errorf("dropping capability %d: %w", c, err)
				}
			}
		}
	}
	var want [2]unix.CapUserData
	for _, c := range keep {
		bit := uint32(1) << (c % 32) & have[c/32].Permitted
		want[c/32].Permitted |= bit
		want[c/32].Effective |= bit
		want[c/32].Inheritable |= bit
	}
	if err := unix.Capset(&hdr, &want[0]); err != nil {
		return fmt.Errorf("setting capabilities: %w", err)
	}
	return raiseAmbient(keep, want)
}

// raiseAmbient lets what is kept survive the execution of a program when we
// are not root but were given CAP_NET_ADMIN, as by a unit's
// AmbientCapabilities.
func raiseAmbient(keep []uintptr, want [2]unix.CapUserData) error {
	if os.Geteuid() == 0 {
		return nil
	}
	for _, c := range keep {
		if want[c/32].Permitted&(1<<(c%32)) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("keeping capability %d: %w", c, err)
		}
	}
	return nil
}
