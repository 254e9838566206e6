//go:build !linux

package bucket

// huge asks for large pages where that can be asked for.
func huge[T any]([]T) {}
