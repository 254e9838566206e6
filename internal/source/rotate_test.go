package source

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// rotation is one way that a log is rotated. It is called with lines in the
// file, writes more as it likes, and leaves the writer open.
type rotation struct {
	name string
	run  func(t *testing.T, c *counter, w *os.File, path string, i int, r *running) *os.File
}

var rotations = []rotation{
	{"rename and create", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		w.Close()
		return openAppend(t, path)
	}},
	{"late writer", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		n := openAppend(t, path)
		for range 5 { // two processes, of which one did not notice yet
			c.write(w, 3)
			pause(4)
			c.write(n, 1)
		}
		w.Close()
		return n
	}},
	{"delete and create", func(t *testing.T, c *counter, w *os.File, path string, _ int, _ *running) *os.File {
		must(t, os.Remove(path))
		c.write(w, 3)
		w.Close()
		return openAppend(t, path)
	}},
	{"shifted numbers", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		for n := min(i, 9); n > 0; n-- {
			_ = os.Rename(fmt.Sprintf("%s.%d", path, n), fmt.Sprintf("%s.%d", path, n+1))
		}
		must(t, os.Rename(path, path+".1"))
		c.write(w, 1)
		w.Close()
		return openAppend(t, path)
	}},
	{"two at once", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		for n := range 2 { // nobody can look in between
			must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, 2*i+n)))
			w.Close()
			w = openAppend(t, path)
			c.write(w, 2)
		}
		return w
	}},
	{"copytruncate", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		copyFile(t, path, fmt.Sprintf("%s.%d", path, i))
		must(t, os.Truncate(path, 0))
		return w
	}},
	{"truncate and grow past", func(t *testing.T, c *counter, w *os.File, path string, _ int, r *running) *os.File {
		r.until("all lines", func() bool { return len(r.lines) == c.next })
		info, err := w.Stat()
		must(t, err)
		must(t, os.Truncate(path, 0))
		for grown := int64(0); grown <= info.Size(); {
			text := c.line()
			grown += int64(len(text))
			_, err := w.WriteString(text)
			must(t, err)
		}
		return w
	}},
	{"truncate without append", func(t *testing.T, c *counter, w *os.File, path string, i int, r *running) *os.File {
		if i == 0 {
			w.Close()
			var err error
			w, err = os.OpenFile(path, os.O_WRONLY, 0)
			must(t, err)
			_, err = w.Seek(0, io.SeekEnd)
			must(t, err)
		}
		r.until("all lines", func() bool { return len(r.lines) == c.next })
		must(t, os.Truncate(path, 0))
		return w
	}},
	{"symlink switched", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		target := filepath.Join(filepath.Dir(path), fmt.Sprintf("real-%d-of-it", i))
		n := openAppend(t, target)
		must(t, os.Symlink(target, path+".new"))
		must(t, os.Rename(path+".new", path))
		c.write(w, 2)
		w.Close()
		return n
	}},
	{"directory swapped", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		dir := filepath.Dir(path)
		must(t, os.Rename(dir, fmt.Sprintf("%s-%d", dir, i)))
		must(t, os.Mkdir(dir, 0o755))
		c.write(w, 2)
		w.Close()
		return openAppend(t, path)
	}},
}

// leavesNoName reports that after the rotation nothing by the log's name leads
// to the file: one that comes and goes before it was opened once is lost.
func (rot rotation) leavesNoName() bool {
	return rot.name == "delete and create" || rot.name == "symlink switched" || rot.name == "directory swapped"
}

func pause(maxMs int) { time.Sleep(time.Duration(rand.IntN(maxMs*1000)) * time.Microsecond) }

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, 0o644))
}

func TestNoLineIsLostOrDoubledByRotation(t *testing.T) {
	for _, rot := range rotations {
		t.Run(rot.name, func(t *testing.T) {
			t.Parallel()
			testRotation(t, rot, Options{})
		})
	}
}

func TestNoLineIsLostOrDoubledWhenPolling(t *testing.T) {
	for _, rot := range rotations {
		t.Run(rot.name, func(t *testing.T) {
			t.Parallel()
			testRotation(t, rot, Options{NoInotify: true, Poll: 5 * time.Millisecond})
		})
	}
}

func testRotation(t *testing.T, rot rotation, o Options) {
	dir := filepath.Join(t.TempDir(), "log")
	must(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "app.log")
	w := openAppend(t, path)
	c := &counter{t: t}
	r := startSet(t, o, Spec{File: path})
	r.caughtUp()
	for i := range rounds() {
		c.write(w, 5)
		pause(10)
		if rot.leavesNoName() {
			r.until("the file to be open", func() bool { return len(r.lines) == c.next })
		}
		w = rot.run(t, c, w, path, i, r)
		c.write(w, 5)
		pause(10)
	}
	c.check(r)
}
