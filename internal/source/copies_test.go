package source

import (
	"errors"
	"os"
	"path/filepath"
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

func TestOldRotatedFileIsNoCopyBecauseItIsWrittenTo(t *testing.T) {
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
	s.want("two")
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
