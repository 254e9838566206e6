//go:build !linux

package source

import "errors"

var errNoInotify = errors.New("this system has no inotify")

// needsPolling: the names that files are watched by, /proc/self/fd/N, are
// Linux's.
func needsPolling(handle) bool { return true }

func canWatch() error { return errNoInotify }
