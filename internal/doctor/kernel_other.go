//go:build !linux

package doctor

import "errors"

// ClockSynced is known on Linux only.
func ClockSynced() (bool, error) { return false, errors.ErrUnsupported }

// HasACL is known on Linux only.
func HasACL(string) bool { return false }
