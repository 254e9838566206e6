package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ClockSynced asks the kernel whether something keeps its clock right
// (adjtimex(2): STA_UNSYNC is set while nothing does).
func ClockSynced() (bool, error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, fmt.Errorf("adjtimex: %w", err)
	}
	return t.Status&unix.STA_UNSYNC == 0, nil
}

// HasACL reports whether more than the permission bits decides who may read a
// file (acl(5)).
func HasACL(path string) bool {
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}
