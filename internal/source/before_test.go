package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process that was never told of a rotation goes on writing to a file that
// was rotated before we came. What it holds is old; what is added is not.
func TestRotatedFilesThatWereThereFirstAreNotReadFromTheirStart(t *testing.T) {
	for _, packed := range []bool{false, true} {
		path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "old\n")
		writeFile(t, path+".1", "older\noldest")
		s := startStepped(t, Options{}, Spec{File: path})
		appendTo(t, path+".1", " of all\nnew\n")
		if packed {
			pack(t, "gzip", path+".2.gz", "older\noldest of all\nnew\n")
			must(t, os.Remove(path+".1"))
		} else {
			must(t, os.Rename(path+".1", path+".2"))
		}
		must(t, os.Rename(path, path+".1"))
		writeFile(t, path, "newer\n")
		s.step()
		s.want("oldest of all", "new", "newer")
	}
}

func TestFileThatComesAndIsRotatedBetweenLooksIsReadThoughNoneWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	writeFile(t, path+".2", "old\n")
	s := startStepped(t, Options{}, Spec{File: path})
	writeFile(t, path+".1", "one\n")
	s.step()
	s.want("one")
	must(t, os.Rename(path+".1", path+".3"))
	writeFile(t, path+".1", "two\n")
	writeFile(t, path, "three\n")
	s.step()
	s.want("two", "three")
}

// What rotation made of a log, a glob may match as well; when the log itself
// is gone for long, those files are nobody's rotations any more.
func TestGlobDoesNotReadOldRotatedFilesWhenTheLogIsGone(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	for _, old := range []string{path + ".1", path + ".2"} {
		writeFile(t, old, "old\n")
		day := time.Now().Add(-24 * time.Hour)
		must(t, os.Chtimes(old, day, day))
	}
	s := startStepped(t, Options{Quiet: time.Nanosecond}, Spec{File: path + "*"})
	appendTo(t, path, "one\n")
	must(t, os.Rename(path, path+".0"))
	for s.followers[path] != nil {
		s.step()
	}
	s.step()
	s.want("one")
	appendTo(t, path+".2", "two\n")
	s.step()
	s.want("two")
	writeFile(t, path, "three\n")
	s.step()
	s.want("three")
}

func TestFileThatComesWhileNobodyFollowsIsReadWhole(t *testing.T) {
	dir := t.TempDir()
	missing, glob := filepath.Join(dir, "app.log"), filepath.Join(dir, "day.*.txt")
	writeFile(t, filepath.Join(dir, "day.20.txt"), "old\n")
	writeFile(t, filepath.Join(dir, "other.txt"), "old\n")
	specs := []Spec{{File: missing}, {File: glob}}
	saved := startStepped(t, Options{}, specs...).stop()
	writeFile(t, missing, "one\n")
	writeFile(t, filepath.Join(dir, "day.21.txt"), "two\n")
	specs = append(specs, Spec{File: filepath.Join(dir, "*other.txt")})
	s := startStepped(t, Options{Saved: saved}, specs...)
	s.want("one", "two")
	if len(s.problems) > 0 {
		t.Errorf("got problems %q, want none", s.problems)
	}
	for _, g := range s.lines {
		if !g.backlog {
			t.Errorf("%q is not marked as backlog", g.text)
		}
	}
}
