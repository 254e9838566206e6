package source

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// authEvery is how often a journal is looked for while Auth has nothing to read.
const authEvery = 10 * time.Second

// awaitJournal switches Auth to the journal if that appears before any of
// the files does. Once a file was read it stays with the files: never both.
func (s *Set) awaitJournal(ctx context.Context) {
	for sleep(ctx, authEvery) {
		s.mu.Lock()
		waits := !s.authJournal && slices.ContainsFunc(s.specs, func(spec Spec) bool { return spec.Auth })
		for _, f := range s.followers {
			read := f.snapshot().State != Waiting
			waits = waits && !(read && slices.Contains(s.opts.AuthFiles, f.path))
		}
		if waits && s.opts.journalRuns() {
			s.update(s.specs)
		}
		s.mu.Unlock()
	}
}

// authByJournal decides, once a journal was there, where Auth reads from. The
// Set's mutex is held.
func (s *Set) authByJournal() bool {
	if !s.authJournal {
		s.authJournal = s.opts.journalRuns()
	}
	return s.authJournal
}

// journalRuns reports whether this machine keeps a journal that can be read
// here: journald runs, did not only forward what it got (Storage=none), and
// lets us read.
func (o *Options) journalRuns() bool {
	if _, err := os.Stat(o.JournalSocket); err != nil || !o.journalReadable() {
		return false
	}
	if o.JournalctlPath != "" {
		_, err := os.Stat(o.JournalctlPath)
		return err == nil
	}
	_, err := exec.LookPath("journalctl")
	return err == nil
}

func (o *Options) journalReadable() bool {
	for _, dir := range o.JournalDirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*", "*.journal"))
		for _, file := range files {
			if unix.Access(file, unix.R_OK) == nil {
				return true
			}
		}
	}
	return false
}
