package source

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

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
