package source

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// manyLines are numbered lines that do not pack well.
func manyLines(n int) (texts []string) {
	for i := range n {
		texts = append(texts, fmt.Sprintf("line %d %x", i, rand.Uint64()))
	}
	return texts
}

// packHalf leaves the first share percent of text, packed, at path.
func packHalf(t *testing.T, path, text string, share int) {
	t.Helper()
	whole, err := os.ReadFile(pack(t, "gzip", path, text))
	must(t, err)
	must(t, os.Truncate(path, int64(len(whole)*share/100)))
}

// While logrotate packs a file both are there, and the packed one, though it
// begins as it must, may not be whole.
func TestFileAndItsPackedCopyAreReadOnce(t *testing.T) {
	for _, tt := range []struct{ lines, share int }{{3, 100}, {5000, 100}, {5000, 60}} {
		for _, what := range []string{"read before", "never seen", "copied"} {
			t.Run(fmt.Sprintf("%s %d lines %d%%", what, tt.lines, tt.share), func(t *testing.T) {
				path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
				s := startStepped(t, Options{}, Spec{File: path})
				appendTo(t, path, "one\n")
				s.step()
				s.want("one")
				saved := s.stop()
				unread := manyLines(tt.lines)
				content := "one\n" + text(unread)
				switch what {
				case "read before":
					appendTo(t, path, text(unread))
					must(t, os.Rename(path, path+".1"))
				case "never seen":
					must(t, os.Rename(path, path+".2"))
					content = text(unread)
					writeFile(t, path+".1", content)
				case "copied":
					writeFile(t, path+".1", content)
					must(t, os.Truncate(path, 0))
				}
				packHalf(t, path+".1.gz", content, tt.share)
				appendTo(t, path, "last\n")
				s = startStepped(t, Options{Saved: saved}, Spec{File: path})
				s.want(append(unread, "last")...)
			})
		}
	}
}

func TestPackedCopyOfAFileThatIsStillWrittenToIsKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	w := openAppend(t, path)
	s := startStepped(t, Options{}, Spec{File: path})
	fmt.Fprintln(w, "one")
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "two\n")
	s.step()
	s.want("one", "two")
	fmt.Fprintln(w, "late")
	s.step()
	s.want("late")
	pack(t, "gzip", path+".2.gz", "one\n")
	must(t, os.Remove(path+".1"))
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "three\n")
	s.step()
	s.want("three")
}

// The commonest rotation made at home, of several logs: gzip frees the inode of
// one copy, and the copy of the next log gets it.
func TestLoopThatCopiesTruncatesAndPacksIsReadOnce(t *testing.T) {
	need(t, "gzip")
	sh := need(t, "sh")
	dir := t.TempDir()
	var logs []*os.File
	for i := range 4 {
		logs = append(logs, openAppend(t, filepath.Join(dir, fmt.Sprintf("app%d.log", i))))
	}
	c := &counter{t: t}
	r := startSet(t, Options{}, Spec{File: filepath.Join(dir, "*.log")})
	r.caughtUp()
	for range rounds() {
		for _, f := range logs {
			c.write(f, 1+rand.IntN(20))
		}
		r.until("the lines", func() bool { return len(r.lines) >= c.next })
		cmd := exec.Command(sh, "-c", `for f in *.log; do cp $f $f.1; : > $f; gzip -f $f.1; done`)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, f := range logs {
		c.write(f, 1)
	}
	c.check(r)
}

// Content decides what is compressed, not the name that a rotation gives it.
func TestCompressedFileUnderAPlainNameIsUnpacked(t *testing.T) {
	for _, program := range []string{"gzip", "zstd", "pzstd", "xz", "bzip2"} {
		for _, found := range []string{"at the start", "while following"} {
			t.Run(program+" "+found, func(t *testing.T) {
				path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
				s := startStepped(t, Options{}, Spec{File: path})
				appendTo(t, path, "one\n")
				s.step()
				s.want("one")
				rotate := func() {
					pack(t, program, path+".1", "one\ntwo\n")
					must(t, os.Remove(path))
					writeFile(t, path, "three\n")
				}
				if found == "at the start" {
					saved := s.stop()
					rotate()
					s = startStepped(t, Options{Saved: saved}, Spec{File: path})
				} else {
					appendTo(t, path, "two\n")
					rotate()
					s.step()
				}
				s.want("two", "three")
			})
		}
	}
}

// The beginning of a compressed file may be there before the rest.
func TestCompressedFileIsReadOnceItIsWhole(t *testing.T) {
	for _, name := range []string{".1", ".1.gz"} {
		for _, n := range []int{1, 2, 5, 15} {
			path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
			s := startStepped(t, Options{}, Spec{File: path})
			saved := s.stop()
			whole, err := os.ReadFile(pack(t, "gzip", path+".x", "unseen\n"))
			must(t, err)
			must(t, os.Remove(path))
			writeFile(t, path+name, string(whole[:n]))
			writeFile(t, path, "last\n")
			s = startStepped(t, Options{Saved: saved}, Spec{File: path})
			s.want("last")
			writeFile(t, path+name, string(whole))
			s.step()
			s.want("unseen")
			s.closeAll()
		}
	}
}

// It was empty when it was opened.
func TestRotatedFileThatTurnsOutCompressedIsUnpacked(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	f := s.list[0]
	writeFile(t, path+".1", "")
	empty, err := openRotated(path+".1", s.pool, f.maxLine)
	must(t, err)
	s.insert(f, 0, func() { s.add(f, empty) })
	pack(t, "gzip", path+".1", "unseen\n")
	s.step()
	s.step()
	s.want("unseen")
}

// Names change while they are gone through.
func TestStaleListOfRotatedFilesIsSeen(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	writeFile(t, path+".1", "unseen\n")
	list := siblings(path)
	must(t, os.Rename(path+".1", path+".2"))
	f := s.list[0]
	if _, stale := s.addListed(f, nil, list); !stale {
		t.Error("a file that has another name now counts as looked at")
	}
	print := printOf([]byte("unseen\n"))
	got, _ := s.findCopy(f, list, Pos{Print: print.hash, PLen: print.n})
	if got == nil {
		t.Fatal("a copy that has another name now is not found")
	}
	got.close()
}
