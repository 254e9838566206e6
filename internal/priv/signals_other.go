//go:build !linux

package priv

import "syscall"

// DefaultSignals does nothing where no process is replaced.
func DefaultSignals(...syscall.Signal) {}
