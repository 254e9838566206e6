package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCaughtUpOnlyAfterWhatFollowsABrokenFile(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	appendTo(t, path, "one\n")
	s.step()
	saved := s.stop()
	packHalf(t, path+".1.gz", "one\n"+text(manyLines(5000)), 60)
	must(t, os.Remove(path))
	writeFile(t, path, "last\n")
	s = startStepped(t, Options{Saved: saved}, Spec{File: path})
	if last := s.lines[len(s.lines)-1].text; last != "last" {
		t.Errorf("got %q at the end, want the last line", last)
	}
	if fmt.Sprint(s.caughtUp) != fmt.Sprint([]int{len(s.lines)}) {
		t.Errorf("caught up after %d lines, want once, after %d", s.caughtUp, len(s.lines))
	}
	if st := s.list[0].snapshot(); st.State != Following || len(st.Notes) == 0 || !strings.Contains(st.Notes[0], path+".1.gz") {
		t.Errorf("got %+v, want it to follow and to name the broken file", st)
	}
}

func TestCaughtUpWithPackedFilesAlone(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	appendTo(t, path, "one\n")
	s.step()
	saved := s.stop()
	must(t, os.Remove(path))
	pack(t, "gzip", path+".1.gz", "one\ntwo\n")
	s = startStepped(t, Options{Saved: saved}, Spec{File: path})
	s.want("two")
	if fmt.Sprint(s.caughtUp) != "[1]" {
		t.Errorf("caught up after %d lines, want once, after one", s.caughtUp)
	}
}

func TestFileThatCannotBeReadIsToldOnce(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	f := s.list[0]
	for range 3 {
		s.fail(f, 0, os.ErrClosed)
		s.look(f)
	}
	if len(s.problems) != 1 {
		t.Errorf("got problems %q, want one", s.problems)
	}
	appendTo(t, path, "one\n")
	s.step()
	s.want("one")
	s.fail(f, 0, os.ErrClosed)
	if len(s.problems) != 2 {
		t.Errorf("got problems %q, want another one after it was read", s.problems)
	}
}
