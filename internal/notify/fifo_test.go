package notify

import (
	"io"
	"os"
	"syscall"
	"testing"
)

// whenClosed makes a named pipe and says when nobody holds it for writing
// any more.
func whenClosed(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		_, _ = io.Copy(io.Discard, f)
	}()
	return done
}
