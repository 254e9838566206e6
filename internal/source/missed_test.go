package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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

// notZstd begins as a packed file does, and goes on as none can.
const notZstd = "\x28\xb5\x2f\xfd no zstd"

func TestRotatedFileThatCannotBeReadIsToldOnceAndTriedAgain(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	must(t, os.Rename(path, path+".2"))
	bad := writeFile(t, path+".1.zst", notZstd)
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
	s.list[0].retry.until = time.Now()
	s.step()
	s.step()
	if len(s.problems) != 2 || !strings.Contains(s.problems[1], empty) {
		t.Errorf("got problems %q, want one more, of %s", s.problems, empty)
	}
	if !s.list[0].retry.since.IsZero() {
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
	if f := s.list[0]; !f.retry.since.IsZero() || len(f.retry.failed) > 0 {
		t.Errorf("waits for %v", f.retry.failed)
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

// Between the look that opens an empty file and the first read of it.
func TestEmptyFileThatIsFilledAndCopiedBeforeItsFirstReadIsReadFromItsCopy(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "one\n")
	s := startStepped(t, Options{}, Spec{File: path})
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "")
	minute := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(path, minute, minute))
	s.look(s.list[0])
	appendTo(t, path, "unseen\n")
	copyFile(t, path, path+".2")
	must(t, os.Truncate(path, 0))
	s.step()
	s.want("unseen")
}

// Who is stopped while a copy is being packed must find it after the start: gzip
// gives its output the time of the input, which is before the position's.
func TestPositionKnowsOfACopyThatIsStillBeingPacked(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	appendTo(t, path, "one\n")
	age := func(path string, minutes int) {
		at := time.Now().Add(-time.Duration(minutes) * time.Minute)
		must(t, os.Chtimes(path, at, at))
	}
	age(path, 2)
	s.step()
	s.want("one")
	gz := pack(t, "gzip", path+".1.gz", "one\nunseen\n")
	whole, err := os.ReadFile(gz)
	must(t, err)
	must(t, os.Truncate(gz, 12))
	must(t, os.Truncate(path, 0))
	s.step()
	appendTo(t, path, "two\n")
	s.step()
	s.want("two")
	saved := s.stop()
	writeFile(t, gz, string(whole))
	age(gz, 1)
	s = startStepped(t, Options{Saved: saved}, Spec{File: path})
	s.want("unseen")
}

// Copies are found by the time of the position. If that were the time of the
// last sweep, a start would read those again that are no longer remembered.
func TestManyCopiesBetweenTwoSweepsAreNotReadAgainAfterAStart(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	f := s.list[0]
	visit := func() {
		f.lastSame = f.lastSame.Add(-time.Minute) // as if it had been long ago
		s.enqueue(f)
		for len(s.queue) > 0 {
			s.turn(t.Context())
		}
	}
	for i := range 2 * maxPastSaved {
		line := fmt.Sprintf("line %d\n", i)
		appendTo(t, path, line)
		visit()
		copyFile(t, path, fmt.Sprintf("%s.%d", path, i))
		at := time.Now().Add(-30 * time.Second)
		must(t, os.Chtimes(fmt.Sprintf("%s.%d", path, i), at, at))
		must(t, os.Truncate(path, 0))
		visit()
	}
	appendTo(t, path, "last\n")
	visit()
	s.lines = nil
	saved := s.stop()
	copyFile(t, path, path+".99")
	must(t, os.Truncate(path, 0))
	s = startStepped(t, Options{Saved: saved}, Spec{File: path})
	s.want()
}

// Names change while they are gone through.
func TestStaleListOfRotatedFilesIsSeen(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	writeFile(t, path+".1", "unseen\n")
	list := siblings(path, nil)
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
