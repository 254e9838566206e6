//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package daemon

import "io"

// lockState does nothing where the system has no flock(2).
func lockState(string) (io.Closer, error) { return io.NopCloser(nil), nil }
