package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lines are the numbered lines from first to last.
func linesFrom(first, last int) (texts []string) {
	for i := first; i <= last; i++ {
		texts = append(texts, fmt.Sprintf("line %d", i))
	}
	return texts
}

func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// meanwhile is what happens to a log between two runs: it holds lines 1 to 3,
// which were read, and 4 to 6, which were not. It returns the lines to come.
type meanwhile struct {
	name string
	do   func(t *testing.T, path string) []string
}

var meanwhiles = []meanwhile{
	{"nothing", func(t *testing.T, path string) []string { return linesFrom(4, 6) }},
	{"renamed and created", func(t *testing.T, path string) []string {
		must(t, os.Rename(path, path+".1"))
		writeFile(t, path, text(linesFrom(7, 8)))
		return linesFrom(4, 8)
	}},
	{"renamed and not created", func(t *testing.T, path string) []string {
		must(t, os.Rename(path, path+"-20261120"))
		return linesFrom(4, 6)
	}},
	{"rotated three times", func(t *testing.T, path string) []string {
		must(t, os.Rename(path, path+".3"))
		past(t, path+".3", 3)
		writeFile(t, path+".2", text(linesFrom(7, 8)))
		past(t, path+".2", 2)
		writeFile(t, path+".1", text(linesFrom(9, 9)))
		past(t, path+".1", 1)
		writeFile(t, path, text(linesFrom(10, 11)))
		return linesFrom(4, 11)
	}},
	{"rotated and compressed", func(t *testing.T, path string) []string {
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, os.Remove(path))
		pack(t, "gzip", path+".2.gz", string(data))
		past(t, path+".2.gz", 2)
		pack(t, "xz", path+".1.xz", text(linesFrom(7, 9)))
		past(t, path+".1.xz", 1)
		writeFile(t, path, text(linesFrom(10, 10)))
		return linesFrom(4, 10)
	}},
	{"the extension kept", func(t *testing.T, path string) []string {
		must(t, os.Rename(path, strings.TrimSuffix(path, ".log")+"-20261120.log"))
		writeFile(t, path, text(linesFrom(7, 7)))
		return linesFrom(4, 7)
	}},
	{"copied and truncated", func(t *testing.T, path string) []string {
		copyFile(t, path, path+".1")
		must(t, os.Truncate(path, 0))
		appendTo(t, path, text(linesFrom(7, 8)))
		return linesFrom(4, 8)
	}},
	{"copied, compressed, truncated and grown past", func(t *testing.T, path string) []string {
		data, err := os.ReadFile(path)
		must(t, err)
		pack(t, "zstd", path+".1.zst", string(data))
		must(t, os.Truncate(path, 0))
		appendTo(t, path, text(linesFrom(7, 30)))
		return linesFrom(4, 30)
	}},
	{"the middle one deleted", func(t *testing.T, path string) []string {
		must(t, os.Rename(path, path+".2"))
		past(t, path+".2", 2)
		writeFile(t, path, text(linesFrom(9, 9)))
		return append(linesFrom(4, 6), "line 9")
	}},
	{"half a line finished", func(t *testing.T, path string) []string {
		appendTo(t, path, "line 7\n")
		return linesFrom(4, 7)
	}},
}

// past sets a file's time to some seconds after now: the files of a test are
// written in one instant.
func past(t testing.TB, path string, order int) {
	t.Helper()
	at := time.Now().Add(time.Duration(10-order) * time.Second)
	must(t, os.Chtimes(path, at, at))
}

func TestRestartReadsWhatWasWrittenMeanwhile(t *testing.T) {
	for _, m := range meanwhiles {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "app.log")
			writeFile(t, path, "")
			r := startSet(t, Options{}, Spec{File: path})
			r.caughtUp()
			appendTo(t, path, text(linesFrom(1, 3)))
			r.wantTexts(linesFrom(1, 3)...)
			saved := r.stop()

			appendTo(t, path, text(linesFrom(4, 6)))
			want := m.do(t, path)
			r = startSet(t, Options{Saved: saved}, Spec{File: path})
			r.caughtUp()
			r.wantTexts(want...)
			r.mu.Lock()
			for _, g := range r.lines {
				if !g.backlog {
					t.Errorf("%q is not marked as backlog", g.text)
				}
			}
			r.mu.Unlock()

			// What comes now is live, and nothing was counted twice.
			appendTo(t, path, "line 100\n")
			r.wantTexts(append(want, "line 100")...)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.lines[len(want)].backlog {
				t.Error("a live line is marked as backlog")
			}
		})
	}
}

// Every batch's position must lead to exactly the lines after it.
func TestAnyPositionResumesExactly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	w := openAppend(t, path)
	c := &counter{t: t}
	r := startSet(t, Options{}, Spec{File: path})
	r.caughtUp()
	for i := range 4 { // a late writer at each rotation
		c.write(w, 4)
		must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		n := openAppend(t, path)
		for range 3 {
			c.write(w, 1)
			r.until("it", func() bool { return len(r.lines) == c.next })
			c.write(n, 1)
			r.until("it", func() bool { return len(r.lines) == c.next })
		}
		w.Close()
		w = n
	}
	r.stop()
	for i, g := range r.lines {
		if i+1 < len(r.lines) && r.lines[i+1].pos == g.pos {
			continue // not the last of its batch
		}
		again := startSet(t, Options{Saved: map[string]Pos{path: g.pos}}, Spec{File: path})
		again.caughtUp()
		again.until("the rest", func() bool { return len(again.lines) >= len(r.lines)-i-1 })
		again.stop()
		all := &counter{t: t, next: c.next}
		all.exactly(append(r.texts()[:i+1], again.texts()...))
	}
}

func TestRestartThatFindsNothingSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	writeFile(t, path, "")
	r := startSet(t, Options{}, Spec{File: path})
	r.caughtUp()
	appendTo(t, path, "one\n")
	r.wantTexts("one")
	saved := r.stop()
	must(t, os.Remove(path))
	writeFile(t, path, "two\n")
	r = startSet(t, Options{Saved: saved}, Spec{File: path})
	r.wantTexts("two")
	st := r.state(path, Following)
	if len(st.Notes) != 1 || !strings.Contains(st.Notes[0], "after byte 4 may be lost") {
		t.Errorf("got notes %q, want one of what may be lost", st.Notes)
	}
}

func TestFirstStart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.log")
	old := writeFile(t, path+".1", "10 a\n20 b\n")
	writeFile(t, path, "30 c\n40 d\n50 half")
	past(t, old, 1)
	for _, tt := range []struct {
		name  string
		since time.Time
		want  []string
	}{
		{"at the end", time.Time{}, nil},
		{"since before all", time.Unix(0, 5), []string{"10 a", "20 b", "30 c", "40 d"}},
		{"since a line of the rotated file", time.Unix(0, 15), []string{"20 b", "30 c", "40 d"}},
		{"since a line", time.Unix(0, 40), []string{"40 d"}},
		{"since later than all", time.Unix(0, 60), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			size := int64(len("30 c\n40 d\n50 half"))
			must(t, os.Truncate(path, size))
			r := startSet(t, Options{Since: tt.since, Stamp: stampsOf(leadingNumber)}, Spec{File: path})
			r.caughtUp()
			appendTo(t, path, " line\n60 e\n")
			r.wantTexts(append(tt.want, "50 half line", "60 e")...)
		})
	}
}

func TestSinceFindsItsLineByBisection(t *testing.T) {
	var b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&b, "%d a line of the log\nits continuation\n", i)
	}
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), b.String())
	s, err := openSegment(path, defaultMaxLine)
	must(t, err)
	defer s.close()
	for _, n := range []int{0, 1, 777, 30_000, 59_999, 60_000} {
		s.startSince(int64(n), leadingNumber)
		want := int64(strings.Index(b.String(), fmt.Sprintf("\n%d a line", n)) + 1)
		if n == 60_000 {
			want = int64(b.Len())
		}
		if s.off != want {
			t.Errorf("since %d: begins at %d, want %d", n, s.off, want)
		}
	}
}

func TestSinceGoesOverALongStretchWithoutStampsOnce(t *testing.T) {
	var b strings.Builder
	line := func(n int) string { return fmt.Sprintf("%06d a line of the log\n", n) }
	for i := range 60_000 {
		if i == 30_000 {
			b.WriteString(strings.Repeat(strings.Repeat("-", 1000)+"\n", 400))
			b.WriteString(strings.Repeat("=", 2*largeBlock) + "\n")
		}
		b.WriteString(line(i))
	}
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), b.String())
	s, err := openSegment(path, defaultMaxLine)
	must(t, err)
	defer s.close()
	asked := 0
	stamp := func(line []byte) (int64, bool) {
		asked++
		return leadingNumber(line)
	}
	for _, n := range []int{100, 29_999, 30_000, 59_990} {
		asked = 0
		s.startSince(int64(n), stamp)
		if want := int64(strings.Index(b.String(), line(n))); s.off != want {
			t.Errorf("since %d: begins at %d, want %d", n, s.off, want)
		}
		if asked > 20_000 {
			t.Errorf("since %d: looked at %d lines, want few of 60000", n, asked)
		}
	}
}

// The log is rotated where the link leads to, not beside the link.
func TestRotationBehindALinkIsFound(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
	target := writeFile(t, filepath.Join(dir, "data", "svc.log"), "")
	must(t, os.Symlink("data/svc.log", filepath.Join(dir, "svc")))
	path := filepath.Join(dir, "app.log")
	must(t, os.Symlink("svc", path))
	s := startStepped(t, Options{}, Spec{File: path})
	appendTo(t, target, "one\n")
	must(t, os.Rename(target, target+".2"))
	writeFile(t, target+".1", "two\n")
	writeFile(t, target, "three\n")
	s.step()
	s.want("one", "two", "three")
	saved := s.stop()
	appendTo(t, target, "four\n")
	must(t, os.Rename(target, target+".0"))
	writeFile(t, target, "five\n")
	startStepped(t, Options{Saved: saved}, Spec{File: path}).want("four", "five")
}

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
