package source

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ago sets a file's time to some minutes before now.
func ago(t *testing.T, path string, minutes int) {
	t.Helper()
	at := time.Now().Add(-time.Duration(minutes) * time.Minute)
	must(t, os.Chtimes(path, at, at))
}

// Whoever stops in the middle of several files that were rotated meanwhile goes
// on there, and reads those that were not begun as well.
func TestStopWithinABacklogOfSeveralFiles(t *testing.T) {
	for _, what := range []string{"plain", "packed", "missing"} {
		t.Run(what, func(t *testing.T) {
			path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
			s := startStepped(t, Options{}, Spec{File: path})
			appendTo(t, path, "one\n")
			s.step()
			s.want("one")
			saved := s.stop()
			hourAgo := saved[path]
			hourAgo.Time = time.Now().Add(-time.Hour).UnixNano()
			saved[path] = hourAgo
			all := []string{"two", "three", "four", "five"}
			appendTo(t, path, "two\n")
			must(t, os.Rename(path, path+".3"))
			ago(t, path+".3", 40)
			for i, line := range all[1:3] {
				name := fmt.Sprintf("%s.%d", path, 2-i)
				if what == "packed" {
					name = pack(t, "gzip", name+".gz", line+"\n")
				} else {
					writeFile(t, name, line+"\n")
				}
				ago(t, name, 30-10*i)
			}
			if what == "missing" {
				all = all[:3]
			} else {
				ago(t, writeFile(t, path, "five\n"), 10)
			}
			s = startStepped(t, Options{Saved: saved}, Spec{File: path})
			lines := s.lines
			s.want(all...)
			s.stop()
			for i, g := range lines {
				s = startStepped(t, Options{Saved: map[string]Pos{path: g.pos}}, Spec{File: path})
				s.want(all[i+1:]...)
				s.stop()
			}
			// The newest was rotated, too, before it was read.
			if what != "missing" {
				must(t, os.Rename(path, path+".0"))
				s = startStepped(t, Options{Saved: map[string]Pos{path: lines[0].pos}}, Spec{File: path})
				s.want(all[1:]...)
			}
		})
	}
}
