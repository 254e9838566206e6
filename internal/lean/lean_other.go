//go:build !linux

package lean

import "runtime/debug"

// GiveBack returns free heap to the kernel.
func GiveBack() { debug.FreeOSMemory() }
