package source

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// opened lists which files below dir this process has open.
func opened(t testing.TB, dir string) (paths []string) {
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(target, dir) {
			paths = append(paths, strings.TrimPrefix(target, dir+"/"))
		}
	}
	return paths
}

func TestRotatedFilesAreClosedOnceQuiet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.log")
	writeFile(t, path, "")
	r := startSet(t, Options{Quiet: 50 * time.Millisecond}, Spec{File: path})
	r.caughtUp()
	appendTo(t, path, "one\n")
	r.wantTexts("one")
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "two\n")
	r.wantTexts("one", "two")
	r.until("the rotated file to be closed", func() bool {
		return fmt.Sprint(opened(t, dir)) == "[app.log]"
	})

	// A writer that comes back to it after all is heard at the next rotation.
	appendTo(t, path+".1", "very late\n")
	must(t, os.Rename(path+".1", path+".2"))
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "three\n")
	r.until("three lines more", func() bool { return len(r.lines) == 4 })
	if got := strings.Join(r.texts()[2:], " "); got != "very late three" {
		t.Errorf("got %q, want what came late, once, and the new line", got)
	}
}

func TestDeletedFileIsClosedOnceQuiet(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, filepath.Join(dir, "app.log"), "")
	r := startSet(t, Options{Quiet: 50 * time.Millisecond}, Spec{File: path})
	r.caughtUp()
	must(t, os.Remove(path))
	r.state(path, Waiting)
	r.until("it to be closed", func() bool { return len(opened(t, dir)) == 0 })
	writeFile(t, path, "new\n")
	r.wantTexts("new")
}

// A log that is not created again (logrotate's nocreate) may come under its name
// and be rotated away before anybody looked.
func TestFileThatWasNeverSeenUnderItsNameIsRead(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, filepath.Join(dir, "app.log"), "")
	r := startSet(t, Options{}, Spec{File: path})
	r.caughtUp()
	appendTo(t, path, "one\n")
	r.wantTexts("one")
	must(t, os.Rename(path, path+".2"))
	r.state(path, Waiting)
	unseen := writeFile(t, filepath.Join(dir, "unseen"), "two\n")
	must(t, os.Rename(unseen, path+".1"))
	r.wantTexts("one", "two")
	appendTo(t, path+".1", "late\n")
	r.wantTexts("one", "two", "late")
}

// logrotate packs a file while we look at what was rotated: what is not yet
// whole is no copy of anything, and is looked at again.
func TestFileThatIsBeingPackedIsReadOnceWhole(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, filepath.Join(dir, "app.log"), "")
	r := startSet(t, Options{}, Spec{File: path})
	r.caughtUp()
	appendTo(t, path, "one\n")
	r.wantTexts("one")
	whole, err := os.ReadFile(pack(t, "gzip", filepath.Join(dir, "whole"), "unseen\n"))
	must(t, err)
	half := filepath.Join(dir, "app.log.2.gz")
	must(t, os.WriteFile(half, whole[:len(whole)/2], 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "app.log.3.gz"), nil, 0o644))
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "two\n")
	r.wantTexts("one", "two")
	must(t, os.WriteFile(half, whole, 0o644))
	r.wantTexts("one", "two", "unseen")
}

func TestHalfALineAtARotatedEndIsSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	w := openAppend(t, path)
	r := startSet(t, Options{Quiet: 50 * time.Millisecond}, Spec{File: path})
	r.caughtUp()
	_, err := w.WriteString("whole\nFailed password from 192.0.2.1")
	must(t, err)
	r.wantTexts("whole")
	must(t, os.Rename(path, path+".1"))
	writeFile(t, path, "next\n")
	r.until("the note", func() bool { return len(r.problems) > 0 })
	r.wantTexts("whole", "next")
	r.mu.Lock()
	defer r.mu.Unlock()
	if want := "ends with an incomplete line of 30 bytes"; !strings.Contains(r.problems[0], want) {
		t.Errorf("got %q, want %q", r.problems[0], want)
	}
}

func TestManyRotationsKeepFewFilesOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.log")
	writeFile(t, path, "")
	r := startSet(t, Options{}, Spec{File: path})
	r.caughtUp()
	for i := range 3 * maxOlder {
		must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		appendTo(t, path, fmt.Sprintf("line %d\n", i))
		r.until("the line", func() bool { return len(r.lines) == i+1 })
	}
	r.until("few files to be open", func() bool { return len(opened(t, dir)) <= maxOlder+1 })
	if notes := r.Status()[0].Notes; len(notes) > 0 {
		t.Errorf("got notes %q, want none: nobody writes to what was closed", notes)
	}
}

// A file that was closed for want of room is still read, and status says that
// it is read late.
func TestFileClosedAmongManyIsStillRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.log")
	var writers []*os.File
	lines := 0
	s := startStepped(t, Options{}, Spec{File: path})
	for i := range maxOlder + 2 {
		writers = append(writers, openAppend(t, path))
		s.step()
		must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		writeFile(t, path, "")
		s.step()
		var want []string
		for _, w := range writers {
			lines++
			want = append(want, fmt.Sprintf("late %d", lines))
			fmt.Fprintln(w, want[len(want)-1])
		}
		s.step()
		slices.SortFunc(s.lines, func(a, b got) int { return strings.Compare(a.text, b.text) })
		slices.Sort(want)
		s.want(want...)
	}
	notes := s.list[0].snapshot().Notes
	if want := "more than 16 rotated files"; len(notes) == 0 || !strings.Contains(notes[0], want) {
		t.Errorf("got notes %q, want %q", notes, want)
	}
}

// After a restart the file that was silent for the longest goes first, not the
// one that was opened first, which is the newest.
func TestLongestSilentFileIsClosedFirstAfterARestart(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	rotate := func(i int) {
		appendTo(t, path, fmt.Sprintf("%d\n", i))
		s.step()
		must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		writeFile(t, path, "")
		s.step()
	}
	rotate(0)
	rotate(1)
	appendTo(t, path, "2\n")
	s.step()
	s.want("0", "1", "2")
	ago(t, path+".0", 4)
	ago(t, path+".1", 9)
	s = startStepped(t, Options{Saved: s.stop(), Quiet: time.Hour}, Spec{File: path})
	rotate(3)
	f := s.list[0]
	if i := f.stalest(); i < 0 || f.chain[i].path != path+".1" {
		t.Errorf("%d of %d goes first, want the one that was silent for the longest", i, len(f.chain))
	}
}

// rsyslogd hears of a HUP when it gets round to it, and goes on writing to a
// file that was rotated, packed and deleted many rotations ago.
func TestWriterManyRotationsBehindIsHeard(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.log")
	w := openAppend(t, path)
	r := startSet(t, Options{}, Spec{File: path})
	r.caughtUp()
	c := &counter{t: t}
	for i := range 3 * maxOlder {
		c.write(w, 1)
		r.until("the line", func() bool { return len(r.lines) == c.next })
		must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		if i == 0 {
			must(t, os.Remove(path+".0"))
		}
		writeFile(t, path, "")
		r.until("the new file to be opened", func() bool { return slices.Contains(opened(t, dir), "app.log") })
	}
	c.check(r)
	r.until("few files to be open", func() bool { return len(opened(t, dir)) <= maxOlder+2 }) // and the writer's own
}

func TestFileThatCannotBeReadAnyMoreIsOpenedAnew(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "app.log"), "one\ntwo\n")
	set, err := New([]Spec{{File: path}}, Options{NoInotify: true, Since: time.Unix(1, 0)})
	must(t, err)
	out := make(chan *Batch, 10)
	e := set.newEngine(out)
	e.specs = set.specs
	e.begun, e.first = time.Now(), true
	e.scan()
	f := e.list[0]
	e.look(f)
	e.first = false
	e.read(t.Context(), f)
	if n := len((<-out).Lines); n != 2 {
		t.Fatalf("got %d lines, want 2", n)
	}
	e.fail(f, 0, os.ErrClosed) // as after ESTALE
	e.showAll()
	if st := f.snapshot(); st.State != Waiting || len(f.chain) != 0 {
		t.Errorf("got %+v with %d files, want it to wait", st, len(f.chain))
	}
	appendTo(t, path, "three\n")
	e.look(f)
	e.read(t.Context(), f)
	b := <-out
	if len(b.Lines) != 1 || string(b.Lines[0].Text) != "three" || b.Lines[0].Number != 3 {
		t.Errorf("got %v, want the third line", b.Lines)
	}
	e.closeAll()
}

// showAll brings every status up to date.
func (e *engine) showAll() {
	for _, f := range e.list {
		f.showState()
	}
}

func TestDirEvents(t *testing.T) {
	for _, tt := range []struct {
		ev            dirEvent
		path          string
		affects, glob bool // path as a name, and as a glob
	}{
		{dirEvent{"/var/log", "a.log"}, "/var/log/a.log", true, true},
		{dirEvent{"/var/log", "b.log"}, "/var/log/a.log", false, false},
		{dirEvent{"/var", "log"}, "/var/log/a.log", true, true},
		{dirEvent{"/var", "lo"}, "/var/log/a.log", false, false},
		{dirEvent{"/srv", "x"}, "/srv/*/a.log", false, true},
		{dirEvent{"/srv/x", "a.log"}, "/srv/*/a.log", false, true},
		{dirEvent{"/srv/x", "b.log"}, "/srv/*/a.log", false, false},
		{dirEvent{"/var/log", ""}, "/var/log/a.log", true, true},
		{dirEvent{}, "/var/log/a.log", true, true},
	} {
		if got := tt.ev.affects(tt.path); got != tt.affects {
			t.Errorf("%v affects %s: got %v, want %v", tt.ev, tt.path, got, tt.affects)
		}
		if got := tt.ev.mayMatch(tt.path); got != tt.glob {
			t.Errorf("%v may change %s: got %v, want %v", tt.ev, tt.path, got, tt.glob)
		}
	}
}

func TestDirWatchTellsOfNames(t *testing.T) {
	d, err := newDirWatch()
	must(t, err)
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	must(t, os.Mkdir(sub, 0o755))
	if !d.want(map[string]bool{dir: true, sub: true, filepath.Join(dir, "missing"): true}) {
		t.Error("watching two directories is no news")
	}
	if d.want(map[string]bool{dir: true, sub: true}) {
		t.Error("watching them again is news")
	}
	events := make(chan dirEvent, 100)
	done := make(chan error, 1)
	go func() { done <- d.run(func(ev dirEvent) { events <- ev }) }()
	want := func(ev dirEvent) {
		t.Helper()
		for {
			select {
			case got := <-events:
				if got == ev {
					return
				}
			case <-time.After(patience):
				t.Fatalf("waited for %v in vain", ev)
			}
		}
	}
	writeFile(t, filepath.Join(sub, "a"), "")
	want(dirEvent{sub, "a"})
	must(t, os.Rename(sub, sub+"2"))
	want(dirEvent{dir, "sub2"})
	want(dirEvent{sub, ""})
	must(t, os.Mkdir(sub, 0o755))
	if !d.want(map[string]bool{dir: true, sub: true}) {
		t.Error("the directory that took the name is no news")
	}
	must(t, os.Remove(sub))
	want(dirEvent{dir, "sub"})
	d.close()
	if err := <-done; err != nil {
		t.Errorf("after close: %v", err)
	}
}

func TestTailBuffer(t *testing.T) {
	var b tailBuffer
	for _, s := range []string{"first words\n", strings.Repeat("x", 10_000) + "\n", "the last ", "words\n"} {
		n, err := b.Write([]byte(s))
		if n != len(s) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if got := b.String(); got != "the last words" {
		t.Errorf("got %q", got)
	}
	if len(b.buf) > tailSize {
		t.Errorf("%d bytes are kept, want at most %d", len(b.buf), tailSize)
	}
}

func TestPackingByMagic(t *testing.T) {
	for head, want := range map[string]string{
		"\x1f\x8b\x08\x00": "gzip", "\x28\xb5\x2f\xfd": "zstd", "\xfd7zXZ\x00": "xz", "BZh9": "bzip2",
		"Nov 20": "", "": "", "\x1f\x8b": "",
	} {
		got := ""
		if p := packingOf([]byte(head)); p != nil {
			got = p.name
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", head, got, want)
		}
	}
}
