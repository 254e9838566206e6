package source

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// shedRights takes from the calling thread, and so from what is started by
// it, every capability that a child could inherit or gain: the ambient set,
// the bounding set where that is allowed, and setuid programs. The goroutine
// must be locked to its thread and end with it.
func shedRights() {
	// Without the right to do so there is nothing to shed.
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// onOwnThread calls f on a thread that ends with it, never the process's
// first, whose rights are those that a process is seen with.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never undone: the thread ends
		if unix.Gettid() == unix.Getpid() {
			onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// childAttr puts a child in a group of its own and lets it end with us.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
