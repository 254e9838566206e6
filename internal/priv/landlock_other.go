//go:build !linux

package priv

// Confine does nothing here, and says so: Landlock is Linux's.
func Confine(_, _ []string) (string, error) { return "no Landlock on this system", nil }
