package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file can be given any size without a byte in it. What is never there must
// not be waited for: everything else waits as well.
func TestHoleIsNotReadThrough(t *testing.T) {
	const size = 1 << 42                          // hours, byte by byte
	for _, zeros := range []int{-1, 0, 1 << 16} { // that are there, after a truncation
		path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
		s := startStepped(t, Options{}, Spec{File: path})
		appendTo(t, path, "one\n")
		s.step()
		s.want("one")
		if zeros >= 0 {
			must(t, os.Truncate(path, 0))
			s.step()
			appendTo(t, path, strings.Repeat("\x00", zeros))
		}
		if err := os.Truncate(path, size); err != nil {
			t.Skip(err) // file systems have limits
		}
		s.step()
		appendTo(t, path, "\ntwo\n")
		s.step()
		if n := len(s.lines); n == 0 || s.lines[n-1].text != "two" {
			t.Errorf("got %d lines, want the last one to be the one that came last", n)
		}
	}
}
