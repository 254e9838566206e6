package lean

import (
	"bufio"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// GiveBack returns to the kernel what only starting needed: free heap, and the
// pages of the program itself. Those that are used again come back by
// themselves, from the page cache; most of a start's code is not.
func GiveBack() {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if from, to, ok := ownCode(s.Text(), exe); ok {
			// Not of a slice: it is no memory of Go's. What fails changes nothing.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
		}
	}
}

// ownCode reads a line of proc_pid_maps(5): the bounds of a mapping of the
// program that is never written to, so that dropping it loses nothing.
func ownCode(line, exe string) (from, to uintptr, ok bool) {
	w := strings.Fields(line)
	if len(w) != 6 || w[5] != exe || strings.Contains(w[1], "w") {
		return 0, 0, false
	}
	a, b, _ := strings.Cut(w[0], "-")
	x, errA := strconv.ParseUint(a, 16, 64)
	y, errB := strconv.ParseUint(b, 16, 64)
	return uintptr(x), uintptr(y), errA == nil && errB == nil && y > x
}
