package source

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// testJournal is a directory of real journal files.
type testJournal struct {
	t    testing.TB
	dir  string
	next int
}

func newTestJournal(t testing.TB) *testJournal {
	need(t, "journalctl")
	need(t, "systemd-journal-remote")
	return &testJournal{t: t, dir: t.TempDir()}
}

func (j *testJournal) file() string { return filepath.Join(j.dir, "test.journal") }

// add writes n more entries, whose messages are numbered from 0.
func (j *testJournal) add(n int) {
	j.t.Helper()
	var in strings.Builder
	for range n {
		in.WriteString(journalEntry(j.next, fmt.Sprintf("message %d", j.next)))
		j.next++
	}
	writeJournal(j.t, j.file(), in.String())
}

func (j *testJournal) spec() Spec {
	return Spec{Journal: &JournalMatch{Directory: j.dir, Identifiers: []string{"sshd"}}}
}

// want waits for exactly the messages from the numbers from to to.
func (j *testJournal) want(r *running, from, to int) {
	j.t.Helper()
	var want []string
	for i := from; i < to; i++ {
		want = append(want, fmt.Sprintf("message %d", i))
	}
	r.wantTexts(want...)
}

func TestJournalIsFollowedFromItsEnd(t *testing.T) {
	j := newTestJournal(t)
	j.add(3)
	r := startSet(t, Options{}, j.spec())
	r.caughtUp()
	j.add(2)
	j.want(r, 3, 5)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.lines[0].entry
	if e == nil {
		t.Fatal("got no entry with the line")
	}
	have := fmt.Sprintf("%s %d %d %s %s", e.Ident, e.PID, e.UID, e.Exe, e.Unit)
	if want := "sshd 1003 0 /usr/sbin/sshd ssh.service"; have != want {
		t.Errorf("got entry %q, want %q", have, want)
	}
	if want := int64(1_700_000_000_003_000_000); e.Time != want {
		t.Errorf("got time %d, want %d", e.Time, want)
	}
	if r.lines[0].backlog {
		t.Error("a line that came live is marked as backlog")
	}
}

func TestJournalGoesOnAfterItsCursor(t *testing.T) {
	j := newTestJournal(t)
	j.add(2)
	r := startSet(t, Options{Since: time.Unix(1, 0)}, j.spec())
	j.want(r, 0, 2)
	saved := r.stop()
	j.add(3)
	r = startSet(t, Options{Saved: saved}, j.spec())
	r.caughtUp()
	j.want(r, 2, 5)
	r.mu.Lock()
	backlog := r.lines[0].backlog
	r.mu.Unlock()
	if !backlog {
		t.Error("a line from before the start is not marked as backlog")
	}
	j.add(1)
	j.want(r, 2, 6)
}

func TestJournalWhoseCursorIsRefused(t *testing.T) {
	j := newTestJournal(t)
	j.add(4)
	name := j.spec().Journal.name()
	saved := map[string]Pos{name: {Cursor: "nonsense", Offset: 1_700_000_000_001_000}}
	r := startSet(t, Options{Saved: saved}, j.spec())
	j.want(r, 2, 4)
}

func TestJournalThatIsRotatedAndVacuumed(t *testing.T) {
	j := newTestJournal(t)
	j.add(2)
	r := startSet(t, Options{}, j.spec())
	r.caughtUp()
	j.add(2)
	j.want(r, 2, 4)
	saved := r.stop()

	must(t, os.Rename(j.file(), filepath.Join(j.dir, "test@1.journal")))
	j.add(2)
	r = startSet(t, Options{Saved: saved}, j.spec())
	j.want(r, 4, 6)
	must(t, os.Remove(filepath.Join(j.dir, "test@1.journal")))
	j.add(2)
	j.want(r, 4, 8)
	saved = r.stop()

	// All that the cursor could mean is gone.
	must(t, os.Remove(j.file()))
	j.add(2)
	r = startSet(t, Options{Saved: saved}, j.spec())
	j.want(r, 8, 10)
}

// wrapped is a journalctl that first writes its process's number and rights
// to a file.
func wrapped(t testing.TB) (path, out string) {
	dir := t.TempDir()
	path, out = filepath.Join(dir, "journalctl"), filepath.Join(dir, "out")
	script := fmt.Sprintf("#!/bin/sh\n{ echo $$; env; cat /proc/self/status; } > %s.new\nmv %[1]s.new %[1]s\nexec %s \"$@\"\n", out, need(t, "journalctl"))
	must(t, os.WriteFile(path, []byte(script), 0o755))
	return path, out
}

func TestJournalctlThatDiesIsStartedAgain(t *testing.T) {
	j := newTestJournal(t)
	j.add(1)
	path, out := wrapped(t)
	r := startSet(t, Options{JournalctlPath: path}, j.spec())
	r.caughtUp()
	name := j.spec().Journal.name()
	for i := range 3 {
		r.state(name, Following)
		j.add(2)
		j.want(r, 1, 3+2*i)
		data, err := os.ReadFile(out)
		must(t, err)
		pid, err := strconv.Atoi(strings.Fields(string(data))[0])
		must(t, err)
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		r.until("the end to be reported", func() bool { return len(r.problems) > i })
	}
	j.add(1)
	j.want(r, 1, 8)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.Contains(r.problems[0], "killed") {
		t.Errorf("got problem %q, want it to say killed", r.problems[0])
	}
}

func TestJournalctlInheritsNothing(t *testing.T) {
	j := newTestJournal(t)
	j.add(1)
	path, out := wrapped(t)
	t.Setenv("SECRET", "of the daemon")
	r := startSet(t, Options{JournalctlPath: path}, j.spec())
	r.state(j.spec().Journal.name(), Following)
	j.add(1)
	j.want(r, 1, 2)
	data, err := os.ReadFile(out)
	must(t, err)
	text := string(data)
	if strings.Contains(text, "SECRET") {
		t.Error("journalctl got our environment")
	}
	for _, field := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb"} {
		if !strings.Contains(text, field+":\t0000000000000000\n") {
			t.Errorf("journalctl has a capability: %s", linesWith(text, field))
		}
	}
	if !strings.Contains(text, "NoNewPrivs:\t1\n") {
		t.Errorf("journalctl may gain rights: %s", linesWith(text, "NoNewPrivs"))
	}
	// Only the thread that starts it is without rights.
	own, err := os.ReadFile("/proc/self/status")
	must(t, err)
	if before, after := "CapBnd:\t0000000000000000\n", string(own); os.Getuid() == 0 && strings.Contains(after, before) {
		t.Error("the test itself lost its rights")
	}
}

func linesWith(text, word string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return !strings.Contains(l, word) }), "; ")
}

func TestJournalEntryOfMegabytes(t *testing.T) {
	j := newTestJournal(t)
	j.add(1)
	r := startSet(t, Options{MaxLine: 1000}, j.spec())
	r.caughtUp()
	writeJournal(t, j.file(), journalEntry(1, strings.Repeat("m", 3<<20)))
	j.next = 2
	j.add(1)
	r.wantTexts(strings.Repeat("m", 1000), "message 2")
	if st := r.state(j.spec().Journal.name(), Following); st.Cut != 1 {
		t.Errorf("counted %d cut lines, want 1", st.Cut)
	}
}

func TestJournalWithoutJournalctl(t *testing.T) {
	r := startSet(t, Options{JournalctlPath: "/nonexistent/journalctl"}, Spec{Journal: &JournalMatch{}})
	st := r.state("journal", Waiting)
	if !strings.Contains(st.Why, "no such file") {
		t.Errorf("got %q, want the cause", st.Why)
	}
}

func TestJournalMatchArgs(t *testing.T) {
	m := JournalMatch{Units: []string{"ssh", "x.socket"}, Identifiers: []string{"sshd"}, Raw: []string{"_UID=0"}}
	got := strings.Join(m.args(), " ")
	if want := "_SYSTEMD_UNIT=ssh.service _SYSTEMD_UNIT=x.socket + SYSLOG_IDENTIFIER=sshd + _UID=0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAuthReadsTheJournalWhereThereIsOne(t *testing.T) {
	dir := t.TempDir()
	o := Options{JournalSocket: filepath.Join(dir, "socket"), AuthFiles: []string{filepath.Join(dir, "auth.log"), filepath.Join(dir, "secure")}}
	names := func(o Options) []string {
		r := startSet(t, o, Spec{Auth: true})
		r.caughtUp()
		var all []string
		for _, st := range r.Status() {
			all = append(all, filepath.Base(st.Name))
		}
		r.stop()
		return all
	}
	if got := names(o); fmt.Sprint(got) != "[auth.log secure]" {
		t.Errorf("without a journal: got %q, want the files", got)
	}
	journalctl, err := exec.LookPath("journalctl")
	if err != nil {
		unmet(t, err.Error())
	}
	o.JournalctlPath = journalctl
	must(t, os.WriteFile(o.JournalSocket, nil, 0o644))
	o.JournalDirs = []string{filepath.Join(dir, "none"), dir}
	if got := names(o); fmt.Sprint(got) != "[auth.log secure]" {
		t.Errorf("with a journald that keeps nothing: got %q, want the files", got)
	}
	must(t, os.Mkdir(filepath.Join(dir, "machine"), 0o755))
	writeFile(t, filepath.Join(dir, "machine", "system.journal"), "")
	if got := names(o); fmt.Sprint(got) != "[journal]" {
		t.Errorf("with a journal: got %q, want it", got)
	}
}

func TestTwinHash(t *testing.T) {
	message := "Failed password for root from 192.0.2.1 port 1 ssh2"
	journal, ok := twinHash(Line{Text: []byte(message), Entry: &Entry{Ident: []byte("sshd"), PID: 7}})
	if !ok {
		t.Fatal("a line of the journal has no hash")
	}
	for _, tt := range []struct {
		text string
		same bool
	}{
		{"Nov 20 10:00:00 host sshd[7]: " + message, true},
		{"Nov  2 10:00:00 host sshd: " + message, true},
		{"2026-11-20T10:00:00.123456+00:00 host sshd[7]: " + message, true},
		{"Nov 20 10:00:00 host sudo[7]: " + message, false},
		{"Nov 20 10:00:00 host sshd[7]: " + message + ".", false},
		{"Nov 20 10:00:00 host no tag here: " + message, false},
		{`192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1`, false},
		{"", false},
		{"Nov 20 10:00:00 ", false},
		{"Nov 20 10:00:00 host sshd[7]: ", false},
	} {
		if h, ok := twinHash(Line{Text: []byte(tt.text)}); (ok && h == journal) != tt.same {
			t.Errorf("%q: got %v, want %v", tt.text, ok && h == journal, tt.same)
		}
	}
}

// twinTest feeds twins with numbered lines.
type twinTest struct {
	twins
	now time.Time
}

func newTwinTest() *twinTest {
	tt := &twinTest{now: time.Unix(1_000_000, 0)}
	tt.join("journal", true, "")
	tt.join("file", false, "")
	return tt
}

func (tt *twinTest) journal(n int) string {
	l := Line{Text: fmt.Appendf(nil, "a message, number %d", n), Entry: &Entry{Ident: []byte("sshd")}}
	return tt.compare("journal", []Line{l}, tt.now)
}

func (tt *twinTest) file(n int) string {
	l := Line{Text: fmt.Appendf(nil, "Nov 20 10:00:00 h sshd[1]: a message, number %d", n)}
	return tt.compare("file", []Line{l}, tt.now)
}

func TestTwins(t *testing.T) {
	for _, c := range []struct {
		name                string
		run                 func(tt *twinTest)
		journalBy, fileByIs string // what they stand by for
	}{
		{"the journal first", func(tt *twinTest) {
			for i := range 5 {
				tt.journal(i)
				tt.file(i)
			}
		}, "", "journal"},
		{"the file first", func(tt *twinTest) {
			for i := range 6 {
				tt.file(i)
				tt.journal(i)
			}
		}, "", "journal"},
		{"too few yet", func(tt *twinTest) {
			for i := range 4 {
				tt.journal(i)
				tt.file(i)
			}
		}, "", ""},
		{"too far apart", func(tt *twinTest) {
			for i := range 10 {
				tt.journal(i)
				tt.now = tt.now.Add(6 * time.Second)
				tt.file(i)
			}
		}, "", ""},
		{"the journal is a part of the file", func(tt *twinTest) {
			for i := range 10 {
				tt.file(100 + 2*i)
				tt.file(101 + 2*i)
				tt.file(i)
				tt.journal(i)
			}
		}, "file", ""},
		{"the file is a part of the journal", func(tt *twinTest) {
			for i := range 10 {
				tt.journal(100 + i)
				tt.journal(i)
				tt.file(i)
			}
		}, "", "journal"},
		{"some lines alike", func(tt *twinTest) {
			for i := range 20 {
				tt.journal(100 + i)
				tt.file(200 + i)
				if i%2 == 0 {
					tt.journal(i)
					tt.file(i)
				}
			}
		}, "", ""},
		{"no longer alike", func(tt *twinTest) {
			for i := range 10 {
				tt.journal(i)
				tt.file(i)
			}
			for i := range 40 {
				tt.file(100 + i)
			}
		}, "", ""},
		{"the journal is left", func(tt *twinTest) {
			for i := range 10 {
				tt.journal(i)
				tt.file(i)
			}
			tt.leave("journal")
		}, "", ""},
		{"the journal does not work", func(tt *twinTest) {
			for i := range 10 {
				tt.journal(i)
				tt.file(i)
			}
			tt.setAlive("journal", false)
		}, "", ""},
		{"one line again and again", func(tt *twinTest) {
			tt.journal(1)
			for range 10 {
				tt.file(1)
			}
		}, "", ""},
	} {
		tt := newTwinTest()
		c.run(tt)
		if got := tt.standsBy("journal"); got != c.journalBy {
			t.Errorf("%s: the journal stands by for %q, want %q", c.name, got, c.journalBy)
		}
		if got := tt.standsBy("file"); got != c.fileByIs {
			t.Errorf("%s: the file stands by for %q, want %q", c.name, got, c.fileByIs)
		}
	}
}

func TestFileThatCopiesTheJournalStandsBy(t *testing.T) {
	j := newTestJournal(t)
	j.add(1)
	path := writeFile(t, filepath.Join(t.TempDir(), "auth.log"), "")
	specs := []Spec{j.spec(), {File: path}}
	r := startSet(t, Options{}, specs...)
	r.caughtUp()
	r.state(j.spec().Journal.name(), Following)
	copied := 0
	both := func() {
		writeJournal(t, j.file(), journalEntry(j.next, fmt.Sprintf("the message number %d", j.next)))
		appendTo(t, path, fmt.Sprintf("Nov 20 10:00:00 h sshd[1]: the message number %d\n", j.next))
		j.next++
		copied++
	}
	name := j.spec().Journal.name()
	from := func(origin string) (n int) {
		for _, g := range r.lines {
			if g.origin == origin {
				n++
			}
		}
		return n
	}
	seen := func() bool {
		info, err := statPath(path)
		return err == nil && from(name) == copied && r.saved[path].Offset == info.size
	}
	for range 6 { // the fifth shows it, whichever comes first
		both()
		r.until("both", seen)
	}
	if st := r.state(path, Standby); st.Why != "same lines as "+name {
		t.Errorf("got %q", st.Why)
	}
	for range 3 {
		both()
		r.until("the journal's line, and the file's position", seen)
	}
	if n := from(path); n < 4 || n > 5 {
		t.Errorf("the file gave %d lines, want those until it stood by", n)
	}
	saved := r.stop()

	// It still stands by after a restart, for what was written meanwhile too.
	both()
	r = startSet(t, Options{Saved: saved}, specs...)
	both()
	r.until("the two lines", func() bool { return len(r.lines) >= 2 })
	both()
	r.until("the third", func() bool { return len(r.lines) >= 3 })
	for _, g := range r.lines {
		if g.origin != name {
			t.Errorf("got %q of %s, which stands by", g.text, g.origin)
		}
	}
	// Without the journal it is used.
	must(t, r.Update([]Spec{{File: path}}))
	r.until("the journal to be left", func() bool { return len(r.Status()) == 1 })
	appendTo(t, path, "only here\n")
	r.until("the file's line", func() bool { return r.lines[len(r.lines)-1].text == "only here" })
}

// TestReadJournalReadsWhatIsThere: what a journal holds is read once, within the
// time asked for, with the fields that journald vouches for.
func TestReadJournalReadsWhatIsThere(t *testing.T) {
	j := newTestJournal(t)
	j.add(5)
	for _, c := range []struct {
		since, until time.Time
		identifier   string
		want         int
	}{
		{time.Time{}, time.Time{}, "sshd", 5},
		{time.Time{}, time.Time{}, "nobody", 0},
		{time.Unix(1_700_000_000, 0), time.Unix(1_700_000_001, 0), "sshd", 5},
		{time.Unix(1_700_000_002, 0), time.Time{}, "sshd", 0},
	} {
		var texts []string
		var read atomic.Int64
		o := JournalRead{Match: &JournalMatch{Directory: j.dir, Identifiers: []string{c.identifier}}, Since: c.since, Until: c.until, Service: "s", Spec: 3, Bytes: &read}
		err := ReadJournal(t.Context(), o, func(b *Batch) error {
			if b.Origin.Spec != 3 || b.Origin.Service != "s" || !b.Backlog {
				t.Errorf("got %+v of %+v", b, b.Origin)
			}
			for _, l := range b.Lines {
				if l.Entry == nil || string(l.Entry.Unit) != "ssh.service" {
					t.Errorf("got the line %q without its unit", l.Text)
				}
				texts = append(texts, string(l.Text))
			}
			b.Release()
			return nil
		})
		if err != nil || len(texts) != c.want || c.want > 0 && (texts[0] != "message 0" || texts[4] != "message 4" || read.Load() == 0) {
			t.Errorf("%+v: got %q, %v", c, texts, err)
		}
	}
	stop := errors.New("enough")
	err := ReadJournal(t.Context(), JournalRead{Match: &JournalMatch{Directory: j.dir}}, func(b *Batch) error { b.Release(); return stop })
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of emit", err)
	}
	if err := ReadJournal(t.Context(), JournalRead{Match: &JournalMatch{Directory: "/no/such"}}, func(*Batch) error { return nil }); err == nil {
		t.Error("a directory that does not exist is no error")
	}
}
