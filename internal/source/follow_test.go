package source

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHalfALineWaitsForItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	w := openAppend(t, path)
	r := startSet(t, Options{}, Spec{File: path})
	r.caughtUp()
	for _, piece := range []string{"one\ntw", "o", "\r\nthree", "\n\n", "a\x00b\xff\n"} {
		_, err := w.WriteString(piece)
		must(t, err)
		r.until("it to be seen", func() bool { return r.Status()[0].Lag == 0 || !strings.HasSuffix(piece, "\n") })
	}
	r.wantTexts("one", "two", "three", "", "a\x00b\xff")
	for i, g := range r.lines {
		if g.number != int64(i+1) {
			t.Errorf("%q has number %d, want %d", g.text, g.number, i+1)
		}
	}
	if end, want := r.lines[4].pos.Offset, int64(len("one\ntwo\r\nthree\n\na\x00b\xff\n")); end != want {
		t.Errorf("the position is %d, want %d", end, want)
	}
}

func TestLinesOverTheLimitAreCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	w := openAppend(t, path)
	r := startSet(t, Options{MaxLine: 1000}, Spec{File: path})
	r.caughtUp()
	full := strings.Repeat("x", 1000)
	for _, size := range []int{1000, 1001, 5000, 300_000, 5 << 20} {
		_, err := w.WriteString(strings.Repeat("x", size))
		must(t, err)
		r.until("the half line to be seen", func() bool { return r.Status()[0].Lag >= int64(size) })
		_, err = w.WriteString("\nshort\n")
		must(t, err)
	}
	r.wantTexts(full, "short", full, "short", full, "short", full, "short", full, "short")
	for i, g := range r.lines {
		if want := i%2 == 0 && i > 0; g.cut != want {
			t.Errorf("line %d: cut is %v, want %v", i, g.cut, want)
		}
	}
	if got := r.Status()[0].Cut; got != 4 {
		t.Errorf("counted %d cut lines, want 4", got)
	}
}

func TestFileThatDoesNotExistYet(t *testing.T) {
	for _, o := range []Options{{}, {NoInotify: true, Poll: 5 * time.Millisecond}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a", "b", "app.log")
		r := startSet(t, o, Spec{File: path})
		r.caughtUp()
		if st := r.state(path, Waiting); st.Why != "missing" {
			t.Errorf("waits because of %q, want missing", st.Why)
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		writeFile(t, path, "one\n")
		r.wantTexts("one")
		appendTo(t, path, "two\n")
		r.wantTexts("one", "two")
		r.state(path, Following)
	}
}

func TestGlobGainsFiles(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	writeFile(t, name("one-access.log"), "old\n")
	writeFile(t, name("one-access.log.1"), "older\n")
	writeFile(t, name("skip-access.log"), "")
	pack(t, "gzip", name("two-access.log.gz"), "packed\n")
	pack(t, "gzip", name("odd-access.log"), "packed under another name\n")
	r := startSet(t, Options{}, Spec{File: name("*access.log*"), Exclude: []string{"skip-*"}})
	r.caughtUp()
	var names []string
	for _, st := range r.Status() {
		names = append(names, filepath.Base(st.Name)+" "+string(st.State))
	}
	if want := []string{"odd-access.log waiting", "one-access.log following"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	writeFile(t, name("new-access.log"), "first of new\n")
	r.wantTexts("first of new")
	appendTo(t, name("one-access.log"), "next of one\n")
	r.wantTexts("first of new", "next of one")
	// A rotation within the glob is a rotation, not another file.
	must(t, os.Rename(name("new-access.log"), name("new-access.log.1")))
	writeFile(t, name("new-access.log"), "second of new\n")
	r.wantTexts("first of new", "next of one", "second of new")
}

func TestGlobOverDirectories(t *testing.T) {
	dir := t.TempDir()
	glob := filepath.Join(dir, "*", "logs", "*.log")
	r := startSet(t, Options{}, Spec{File: glob})
	r.caughtUp()
	if st := r.state(glob, Waiting); st.Why != "no file matches" {
		t.Errorf("got %q", st.Why)
	}
	path := filepath.Join(dir, "site", "logs", "a.log")
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	writeFile(t, path, "one\n")
	r.wantTexts("one")
}

func TestOneFileIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, filepath.Join(dir, "app.log"), "")
	link := filepath.Join(dir, "link.log")
	must(t, os.Symlink(path, link))
	r := startSet(t, Options{}, Spec{File: path, Service: "first"}, Spec{File: path, Service: "second"}, Spec{File: filepath.Join(dir, "*.log")})
	r.caughtUp()
	if st := r.state(link, Standby); st.Why != "same file as "+path {
		t.Errorf("got %q", st.Why)
	}
	appendTo(t, path, "one\n")
	r.wantTexts("one")
	appendTo(t, path, "two\n")
	r.wantTexts("one", "two")
}

func TestUpdateKeepsThePlace(t *testing.T) {
	dir := t.TempDir()
	a, b := writeFile(t, filepath.Join(dir, "a"), ""), writeFile(t, filepath.Join(dir, "b"), "")
	r := startSet(t, Options{}, Spec{File: a}, Spec{File: b})
	r.caughtUp()
	appendTo(t, a, "a1\n")
	r.wantTexts("a1")
	must(t, r.Update([]Spec{{File: b}}))
	r.until("a to be left", func() bool { return len(r.Status()) == 1 })
	appendTo(t, a, "a2\n")
	appendTo(t, b, "b1\n")
	r.wantTexts("a1", "b1")
	must(t, r.Update([]Spec{{File: b}, {File: a, Service: "again"}}))
	r.wantTexts("a1", "b1", "a2")
	if err := r.Update([]Spec{{File: "relative"}}); err == nil {
		t.Error("a wrong spec was accepted")
	}
	appendTo(t, b, "b2\n")
	r.wantTexts("a1", "b1", "a2", "b2")
}

func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	r := startSet(t, Options{}, Spec{File: dir})
	if st := r.state(dir, Waiting); !strings.Contains(st.Why, "not a regular file") {
		t.Errorf("got %q", st.Why)
	}
}

func TestSpecsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		specs []Spec
		want  string
	}{
		{[]Spec{{}}, "source 1: a source is exactly one of"},
		{[]Spec{{File: "/a", Stdin: true}}, "source 1: a source is exactly one of"},
		{[]Spec{{File: "/a"}, {File: "a"}}, "source 2: a: not an absolute path"},
		{[]Spec{{File: "/[a"}}, "source 1: /[a: syntax error in pattern"},
		{[]Spec{{Stdin: true}, {Stdin: true}}, "only one source can read standard input"},
	} {
		if _, err := New(tt.specs, Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.specs, err, tt.want)
		}
	}
}

func TestRunOnlyOnce(t *testing.T) {
	r := startSet(t, Options{}, Spec{File: "/nonexistent"})
	r.caughtUp()
	if err := r.Run(t.Context(), nil); err == nil {
		t.Error("a Set ran twice at once")
	}
}

func TestRotatedNames(t *testing.T) {
	for _, tt := range []struct {
		name, base string
		want       bool
	}{
		{"auth.log.1", "auth.log", true},
		{"auth.log.12.gz", "auth.log", true},
		{"auth.log-20261120", "auth.log", true},
		{"auth.log-20261120.zst", "auth.log", true},
		{"auth.log.2026-11-20-13", "auth.log", true},
		{"auth-20261120.log", "auth.log", true},
		{"auth.1.log.xz", "auth.log", true},
		{"auth.log.old", "auth.log", true},
		{"auth.log-20261120-2026112011.backup", "auth.log", true},
		{"auth.log", "auth.log", false},
		{"auth.log.gz", "auth.log", false},
		{"auth.log.bak", "auth.log", false},
		{"auth.log.1.swp", "auth.log", false},
		{"auth.log.", "auth.log", false},
		{"auth.log-", "auth.log", false},
		{"auth.log-.", "auth.log", false},
		{"auth2.log", "auth.log", false},
		{"author.log.1", "auth.log", false},
	} {
		if got := isRotated(tt.name, tt.base); got != tt.want {
			t.Errorf("isRotated(%q, %q) is %v, want %v", tt.name, tt.base, got, tt.want)
		}
	}
}

func TestSiblingsAreInOrder(t *testing.T) {
	dir := t.TempDir()
	at := time.Now()
	for i, name := range []string{"l.3", "l.2.gz", "l.1"} {
		path := writeFile(t, filepath.Join(dir, name), "")
		must(t, os.Chtimes(path, at, at.Add(time.Duration(i)*time.Second)))
	}
	for _, name := range []string{"l-20261121", "l-20261120"} {
		must(t, os.Chtimes(writeFile(t, filepath.Join(dir, name), ""), at, at.Add(-time.Hour)))
	}
	var names []string
	for _, s := range siblings(filepath.Join(dir, "l"), nil) {
		names = append(names, filepath.Base(s.path))
	}
	if want := []string{"l-20261120", "l-20261121", "l.3", "l.2.gz", "l.1"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func TestFingerprint(t *testing.T) {
	text := strings.Repeat("some text ", 300)
	for _, n := range []int{0, 1, 7, 8, 9, 1000, 1024} {
		p := printOf([]byte(text[:n]))
		if !p.begins([]byte(text)) {
			t.Errorf("%d bytes do not match what they are of", n)
		}
		for _, other := range []string{text[:max(0, n-1)], "S" + text[1:], ""} {
			if n > 0 && p.begins([]byte(other)) {
				t.Errorf("%d bytes match %.10q", n, other)
			}
		}
	}
	// It is kept on disk: it must not change.
	if got, want := hashBytes([]byte("the quick brown fox")), uint64(0x85edd2bc02ac7f94); got != want {
		t.Errorf("got hash %#x, want %#x", got, want)
	}
}

func TestPositionOfOlderFiles(t *testing.T) {
	f := &follower{chain: []*segment{
		{fileInfo: fileInfo{fileID: fileID{1, 10}}, off: 100},
		{fileInfo: fileInfo{fileID: fileID{1, 11}}, off: 50},
		{fileInfo: fileInfo{fileID: fileID{1, 12}}},
	}}
	pos := f.posAfter(0, time.Unix(0, 7))
	if got := fmt.Sprintf("%d@%d %d@%d", pos.Ino, pos.Offset, pos.Older.Ino, pos.Older.Offset); got != "11@50 10@100" || pos.Older.Older != nil {
		t.Errorf("got %s, want the newest that was begun, and the one before", got)
	}
	if pos.Time != 7 {
		t.Errorf("got time %d, want 7", pos.Time)
	}
}

// What is in the queue, or woken by the timer, when the rules drop it is not opened again.
func TestFollowerThatIsDroppedStaysSo(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	f := s.list[0]
	s.wakeByTimer(f)
	f.check = true
	s.enqueue(f)
	s.specs = nil
	s.scan()
	appendTo(t, path, "unasked\n")
	s.turn(t.Context())
	s.want()
	if len(f.chain) > 0 || len(s.busy) > 0 {
		t.Errorf("%d files of it are open, and %d are busy", len(f.chain), len(s.busy))
	}
}

// A file can be given any size without a byte in it. What is never there must
// not be waited for: everything else waits as well.
func TestHoleIsNotReadThrough(t *testing.T) {
	const size = 1 << 42                          // hours, byte by byte
	for _, zeros := range []int{-1, 0, 1 << 16} { // that are there, after a truncation
		path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
		s := startStepped(t, Options{}, Spec{File: path})
		appendTo(t, path, "one\n")
		s.step()
		s.want("one")
		if zeros >= 0 {
			must(t, os.Truncate(path, 0))
			s.step()
			appendTo(t, path, strings.Repeat("\x00", zeros))
		}
		if err := os.Truncate(path, size); err != nil {
			t.Skip(err) // file systems have limits
		}
		s.step()
		appendTo(t, path, "\ntwo\n")
		s.step()
		if n := len(s.lines); n == 0 || s.lines[n-1].text != "two" {
			t.Errorf("got %d lines, want the last one to be the one that came last", n)
		}
	}
}

// overlay mounts an overlayfs whose lower directory holds app.log, and returns
// the path of that in the mount.
func overlay(t *testing.T, text string) string {
	t.Helper()
	if os.Getuid() != 0 {
		unmet(t, "only root can mount")
	}
	dir := t.TempDir()
	for _, sub := range []string{"lower", "upper", "work", "all"} {
		must(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	writeFile(t, filepath.Join(dir, "lower", "app.log"), text)
	all := filepath.Join(dir, "all")
	err := unix.Mount("overlay", all, "overlay", 0,
		"lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work")
	if err != nil {
		unmet(t, "mounting an overlayfs: "+err.Error())
	}
	t.Cleanup(func() { must(t, unix.Unmount(all, unix.MNT_DETACH)) })
	return filepath.Join(all, "app.log")
}

// On overlayfs the first write copies the file up; who had it open reads the
// old one for ever.
func TestFileThatIsCopiedUp(t *testing.T) {
	path := overlay(t, "before\n")
	r := startSet(t, Options{Poll: 10 * time.Millisecond}, Spec{File: path})
	r.caughtUp()
	if st := r.state(path, Following); !st.Polled {
		t.Error("a file on an overlayfs is not polled")
	}
	appendTo(t, path, "one\n")
	r.wantTexts("one")
	appendTo(t, path, "two\n")
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "three\n")
	r.wantTexts("one", "two", "three")
}

func TestOrdinaryFilesAreNotPolled(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	r := startSet(t, Options{}, Spec{File: path})
	r.caughtUp()
	if st := r.state(path, Following); st.Polled {
		t.Skip("this machine's temporary directory is one where inotify misses changes")
	}
	r.stop()
	r = startSet(t, Options{NoInotify: true}, Spec{File: path})
	r.caughtUp()
	if st := r.state(path, Following); !st.Polled {
		t.Error("without inotify a file is not polled")
	}
}
