package firewall

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// keptCaps are what the wall needs: CAP_NET_ADMIN for the rules, CAP_NET_RAW
// because legacy iptables talks over a raw socket. Files it may write as their
// owner, root; nothing else is granted.
var keptCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW}

// pair makes two connected descriptors that no program inherits unasked.
func pair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

// startConfined starts cmd from a thread that gave up everything but
// keptCaps. Rights belong to threads and a child has those of the thread that
// made it, so that no moment exists in which it has more. The thread is not
// given back: its goroutine ends while locked to it. The main thread is left
// alone, as it cannot end, and its rights are shown as the whole process's.
func startConfined(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			err := startConfined(cmd) // on another thread, as this one is taken
			runtime.UnlockOSThread()
			done <- err
			return
		}
		if err := confineThread(); err != nil {
			done <- err
			return
		}
		done <- cmd.Start()
	}()
	return <-done
}

// confineThread bounds the capabilities of this thread and of all that it
// will execute, and keeps set-user-id files from raising them again.
func confineThread() error {
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
			if !kept(c) {
				// EINVAL is a capability that this kernel does not know.
				if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
					return fmt.Errorf("dropping capability %d: %w", c, err)
				}
			}
		}
	}
	var want [2]unix.CapUserData
	for _, c := range keptCaps {
		bit := uint32(1) << (c % 32) & have[c/32].Permitted
		want[c/32].Permitted |= bit
		want[c/32].Effective |= bit
		want[c/32].Inheritable |= bit
	}
	if err := unix.Capset(&hdr, &want[0]); err != nil {
		return fmt.Errorf("setting capabilities: %w", err)
	}
	return raiseAmbient(want)
}

// raiseAmbient lets what is kept survive the execution of a program when we
// are not root but were given CAP_NET_ADMIN, as by a unit's
// AmbientCapabilities.
func raiseAmbient(want [2]unix.CapUserData) error {
	if os.Geteuid() == 0 {
		return nil
	}
	for _, c := range keptCaps {
		if want[c/32].Permitted&(1<<(c%32)) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("keeping capability %d: %w", c, err)
		}
	}
	return nil
}

func kept(c uintptr) bool {
	for _, k := range keptCaps {
		if c == k {
			return true
		}
	}
	return false
}
