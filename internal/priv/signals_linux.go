package priv

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DefaultSignals gives signals their default effect in the kernel itself,
// behind the runtime, which catches them even when nobody asked it to: from
// here on they end the process at once. It is for a process that is about to
// be replaced, in which what is caught would be lost (rt_sigaction(2)).
func DefaultSignals(sigs ...syscall.Signal) {
	var act [8]uint64 // more than any architecture's struct; all zero is SIG_DFL
	for _, s := range sigs {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0)
	}
}
