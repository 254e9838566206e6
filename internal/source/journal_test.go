package source

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
