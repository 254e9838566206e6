//go:build !linux || cgo

package priv

// Confine does nothing here, and says so: Landlock is Linux's, and with cgo the
// rights of all threads cannot be changed without relinking the C library.
func Confine(_, _ []string) (string, error) { return "this build has no Landlock", nil }
