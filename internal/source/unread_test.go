package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// packLater leaves a packed file whose beginning cannot be read yet, and returns
// what makes it whole: with the time of what was packed, as logrotate does.
func packLater(t *testing.T, path, content string, written time.Time) (finish func()) {
	t.Helper()
	pack(t, "gzip", path, content)
	whole, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Truncate(path, int64(len(whole)/2)))
	return func() {
		t.Helper()
		must(t, os.WriteFile(path, whole, 0o644))
		must(t, os.Chtimes(path, written, written))
	}
}

// Tried again for a minute means from when it was found, whenever it was written.
func TestFileThatIsBeingPackedAtAStartLongAfterItIsReadWhole(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	appendTo(t, path, "one\n")
	s.step()
	s.want("one")
	saved := s.stop()
	pos := saved[path]
	pos.Time = time.Now().Add(-time.Hour).UnixNano()
	saved[path] = pos
	must(t, os.Rename(path, path+".2"))
	ago(t, path+".2", 59)
	finish := packLater(t, path+".1.gz", "two\n", time.Now().Add(-30*time.Minute))
	writeFile(t, path, "three\n")
	s = startStepped(t, Options{Saved: saved}, Spec{File: path})
	s.want("three")
	s.step()
	finish()
	s.step()
	s.want("two")
	s.step()
	s.want()
}

func TestFileThatIsBeingPackedWhileTheNameIsMissingIsReadWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.log")
	s := startStepped(t, Options{}, Spec{File: path})
	written := time.Now()
	finish := packLater(t, path+".1.gz", "one\n", written)
	ago(t, dir, 1)
	s.step()
	s.step()
	finish()
	s.step()
	s.want("one")
}

func TestFileThatIsBeingPackedOverTwoRotationsIsReadWhole(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	appendTo(t, path, "one\n")
	must(t, os.Rename(path, path+".3"))
	finish := packLater(t, path+".2.gz", "two\n", time.Now())
	writeFile(t, path, "three\n")
	s.step()
	s.want("one", "three")
	s.list[0].lastSame = time.Now().Add(2 * clockTick) // as if that were long ago
	must(t, os.Rename(path, path+".1"))
	finish()
	writeFile(t, path, "four\n")
	s.step()
	s.want("two", "four")
}

// unreadable begins as a packed file does, and goes on as none can.
const unreadable = "\x28\xb5\x2f\xfd no zstd"

func TestRotatedFileThatCannotBeReadIsToldOnceAndTriedAgain(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	must(t, os.Rename(path, path+".2"))
	bad := writeFile(t, path+".1.zst", unreadable)
	empty := writeFile(t, path+".0.gz", "")
	writeFile(t, path, "one\n")
	for range 3 {
		s.step()
	}
	s.want("one")
	if len(s.problems) != 1 || !strings.Contains(s.problems[0], bad) {
		t.Errorf("got problems %q, want one of %s", s.problems, bad)
	}
	pack(t, "zstd", bad, "two\n")
	s.step()
	s.want("two")
	s.list[0].relistEnd = time.Now()
	s.step()
	s.step()
	if len(s.problems) != 2 || !strings.Contains(s.problems[1], empty) {
		t.Errorf("got problems %q, want one more, of %s", s.problems, empty)
	}
	if !s.list[0].relist.IsZero() {
		t.Error("it is tried for ever")
	}
}

func TestPackedFileOfAnEmptyOneIsNothingToWaitFor(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	for i, program := range []string{"gzip", "zstd", "xz", "bzip2"} {
		pack(t, program, fmt.Sprint(path, ".", i+2, rotatedSuffixes[i]), "")
	}
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "one\n")
	s.step()
	s.want("one")
	if f := s.list[0]; !f.relist.IsZero() || len(f.failed) > 0 {
		t.Errorf("waits for %v", f.failed)
	}
}

// The file that was being read may be what cannot be read at the start.
func TestRestOfAFileThatCannotBeReadAtTheStartIsReadLater(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	appendTo(t, path, "one\n")
	s.step()
	s.want("one")
	saved := s.stop()
	finish := packLater(t, path+".1.gz", "one\ntwo\n", time.Now())
	must(t, os.Remove(path))
	writeFile(t, path, "three\n")
	s = startStepped(t, Options{Saved: saved}, Spec{File: path})
	s.want("three")
	finish()
	s.step()
	s.want("two")
}

// What a dangling link leads to is rotated in another directory than the link's.
func TestRotationBehindADanglingLinkIsFound(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	must(t, os.Mkdir(data, 0o755))
	path, target := filepath.Join(dir, "app.log"), filepath.Join(data, "svc.log")
	must(t, os.Symlink(target, path))
	ago(t, dir, 1)
	ago(t, data, 2)
	s := startStepped(t, Options{}, Spec{File: path})
	writeFile(t, target+".1", "one\n")
	s.step()
	s.want("one")
}
