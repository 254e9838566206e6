package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An empty file may be written to, copied and truncated before anybody looks.
func TestFileThatWasTruncatedBeforeItWasReadIsReadFromItsCopy(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	truncated := func(copied, before, after string) {
		appendTo(t, path, before)
		copyFile(t, path, path+copied)
		must(t, os.Truncate(path, 0))
		appendTo(t, path, after)
		s.step()
	}
	truncated(".1", "one\n", "two\n")
	s.want("one", "two")
	must(t, os.Rename(path, path+".2"))
	writeFile(t, path, "")
	s.step()
	truncated(".3", "three\n", "four\n")
	s.want("three", "four")
}

// A file that was opened, and is copied and truncated before it is read, is read
// from its copy, whether it was written to since or not.
func TestFileThatWasTruncatedAfterItWasOpenedIsReadFromItsCopy(t *testing.T) {
	for _, after := range []string{"", "three\n", "three is longer than what was there before\n"} {
		path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "one\n")
		s := startStepped(t, Options{}, Spec{File: path})
		must(t, os.Rename(path, path+".1"))
		writeFile(t, path, "two\n")
		s.look(s.list[0])
		copyFile(t, path, path+".2")
		must(t, os.Truncate(path, 0))
		appendTo(t, path, after)
		s.step()
		s.want(append([]string{"two"}, strings.Split(after, "\n")[:strings.Count(after, "\n")]...)...)
	}
}

// A file that was empty when it was last read, and several that came and were
// packed after it: each is read once, though the first has copies looked for.
func TestFilesThatCameAfterAnEmptyOneAreReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	s := startStepped(t, Options{}, Spec{File: path})
	w := openAppend(t, path)
	s.step()
	fmt.Fprintln(w, "one")
	must(t, os.Rename(path, path+".3"))
	pack(t, "gzip", path+".2.gz", "two\n")
	writeFile(t, path, "three\n")
	s.step()
	s.want("one", "two", "three")
}

// What the copies are looked for beside may be copied and truncated itself
// before it is read.
func TestFileThatIsTruncatedWhileCopiesAreLookedForIsReadFromItsCopy(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	appendTo(t, path, "one\n")
	f := s.list[0]
	if _, err := f.chain[0].next(s.pool); !errors.Is(err, errRefilled) {
		t.Fatalf("got %v, want %v", err, errRefilled)
	}
	s.addCopies(f, 0, f.chain[0].grown.Add(-clockTick))
	copyFile(t, path, path+".1")
	must(t, os.Truncate(path, 0))
	appendTo(t, path, "two\n")
	info, err := statPath(path)
	must(t, err)
	f.chain[0].emptyAt = info.mtime // as if all that was within one tick of the kernel's clock
	s.step()
	s.want("one", "two")
}

func TestOnlyWhatIsAddedToAnOldRotatedFileIsRead(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	old := writeFile(t, path+".7", "old\n")
	s := startStepped(t, Options{}, Spec{File: path})
	appendTo(t, path, "one\n")
	s.step()
	s.want("one")
	appendTo(t, old, "by a writer that never noticed\n")
	copyFile(t, path, path+".1")
	must(t, os.Truncate(path, 0))
	appendTo(t, path, "two\n")
	s.step()
	s.want("by a writer that never noticed", "two")
}

func TestFileThatWasEmptyAtTheStopIsReadFromItsCopy(t *testing.T) {
	for _, packed := range []bool{false, true} {
		path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
		old := writeFile(t, path+".2", "old\n")
		saved := startStepped(t, Options{}, Spec{File: path}).stop()
		ago(t, old, 10)
		appendTo(t, path, "one\n")
		if packed {
			pack(t, "gzip", path+".1.gz", "one\n")
		} else {
			copyFile(t, path, path+".1")
		}
		must(t, os.Truncate(path, 0))
		appendTo(t, path, "two\n")
		s := startStepped(t, Options{Saved: saved}, Spec{File: path})
		s.want("one", "two")
		s.step()
		s.want()
		saved = s.stop()
		appendTo(t, path, "three\n")
		startStepped(t, Options{Saved: saved}, Spec{File: path}).want("three")
	}
}
