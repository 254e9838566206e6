package bucket

import (
	"syscall"
	"unsafe"
)

const (
	hugePage     = 2 << 20
	madvHugepage = 14 // MADV_HUGEPAGE of asm-generic/mman-common.h
)

// huge asks the kernel to keep the memory of s, when it is much, in large
// pages: looks all over a table then need no walk through page tables. The
// range is rounded outwards; what lies beside s is the heap's, too, and the
// advice changes nothing but speed. See madvise(2); a refusal does not matter.
func huge[T any](s []T) {
	size := uintptr(len(s)) * unsafe.Sizeof(*new(T))
	if size < hugePage/8 {
		return
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	to := (from + size + hugePage - 1) &^ (hugePage - 1)
	from &^= hugePage - 1
	_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, from, to-from, madvHugepage)
}
