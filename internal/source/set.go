package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Set is the places that lines come from, as configured.
type Set struct {
	opts     Options
	saved    positions
	pool     pools
	twins    twins
	caughtUp chan struct{}

	mu        sync.Mutex // guards what follows
	specs     []Spec
	running   bool
	update    func([]Spec) // while it runs
	followers []*follower
	streams   []*stream
	// authJournal: Auth reads the journal.
	authJournal bool
	waitFor     int // parts that did not catch up yet
}

// positions is where each origin was read to, by its name.
type positions struct {
	mu sync.Mutex
	m  map[string]Pos
}

func (p *positions) get(name string) Pos {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m[name]
}

func (p *positions) set(name string, pos Pos) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.m[name] = pos
}

// gained reports whether the glob was read from before path came into being: it
// has positions, path has none, nor has its file under another name, and it was
// written to since the last of them.
func (p *positions) gained(path, glob string) bool {
	info, err := statPath(path)
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last := int64(0)
	for name, pos := range p.m {
		if isRotated(path, name) || (fileID{pos.Dev, pos.Ino}) == info.fileID {
			return false
		}
		if ok, _ := filepath.Match(glob, name); ok {
			last = max(last, pos.Time)
		}
	}
	return last > 0 && !info.mtime.Before(time.Unix(0, last).Add(-clockTick))
}

func (p *positions) drop(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.m, name)
}

// New makes a Set of specs, or says everything that is wrong with them. It
// opens nothing and starts nothing; specs and o.Saved are copied.
func New(specs []Spec, o Options) (*Set, error) {
	if err := checkAll(specs); err != nil {
		return nil, err
	}
	o.setDefaults()
	s := &Set{opts: o, specs: slices.Clone(specs), caughtUp: make(chan struct{})}
	s.saved.m = maps.Clone(o.Saved)
	if s.saved.m == nil {
		s.saved.m = map[string]Pos{}
	}
	return s, nil
}

func checkAll(specs []Spec) error {
	var errs []error
	stdin := 0
	for i, spec := range specs {
		if err := spec.check(); err != nil {
			errs = append(errs, fmt.Errorf("source %d: %w", i+1, err))
		}
		if spec.Stdin {
			stdin++
		}
	}
	if stdin > 1 {
		errs = append(errs, errors.New("only one source can read standard input"))
	}
	return errors.Join(errs...)
}

// CaughtUp returns a channel that is closed once every origin that existed
// when Run began was read to its end once.
func (s *Set) CaughtUp() <-chan struct{} { return s.caughtUp }

// Run reads until ctx is done, or until the last source that can end has, when
// there are no others. It sends to out, blocking as long as nobody receives;
// out is not closed. Run blocks; it starts a goroutine for each thing that can
// only be waited for (inotify, one a file; journalctl; a pipe) and has ended
// them all when it returns. (nxadm/tail's inotify tracker, of which a process
// has one, stays.) A Set can run once.
func (s *Set) Run(ctx context.Context, out chan<- *Batch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	e := s.newEngine(out)
	if e.dirs != nil {
		wg.Go(func() {
			if err := e.dirs.run(e.dirChanged); err != nil {
				e.report("inotify", err)
			}
		})
		defer e.dirs.close()
	}
	m := &streams{set: s, out: out, ended: cancel}
	defer m.all.Wait()
	defer cancel()
	if err := s.begin(ctx, e, m); err != nil {
		return err
	}
	wg.Go(func() { s.awaitJournal(ctx) })
	e.run(ctx)
	return nil
}

// begin connects a running engine and the streams with Update and Status.
func (s *Set) begin(ctx context.Context, e *engine, m *streams) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return errors.New("the sources are already running")
	}
	s.running = true
	s.waitFor = 1 // the engine
	e.specs = m.arrange(ctx, s.specs)
	s.update = func(specs []Spec) {
		files := m.arrange(ctx, specs)
		e.mu.Lock()
		e.update = files
		e.mu.Unlock()
		e.nudge()
	}
	return nil
}

// newEngine makes the engine that follows files, by inotify where it can.
func (s *Set) newEngine(out chan<- *Batch) *engine {
	e := &engine{
		opts: s.opts, pool: &s.pool, saved: &s.saved, twins: &s.twins,
		send:      func(ctx context.Context, b *Batch) bool { return send(ctx, out, b) },
		followers: map[string]*follower{},
		byFile:    map[fileID]*follower{},
		closedAt:  map[fileID]Pos{},
		scanned:   map[string]bool{},
		wake:      make(chan struct{}, 1),
		caughtUp:  s.arrived,
		publish: func(list []*follower) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.followers = slices.Clone(list)
		},
	}
	if s.opts.NoInotify {
		return e
	}
	err := canWatch()
	if err == nil {
		e.dirs, err = newDirWatch()
	}
	if err != nil {
		e.report("files", fmt.Errorf("%w; polling every %s", err, s.opts.Poll))
	}
	return e
}

// send hands b on, and gives it back when ctx ends first.
func send(ctx context.Context, out chan<- *Batch, b *Batch) bool {
	select {
	case out <- b:
		return true
	case <-ctx.Done():
		b.Release()
		return false
	}
}

// arrived records that one more part caught up.
func (s *Set) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitFor--
	if s.waitFor == 0 {
		close(s.caughtUp)
	}
}

// Update replaces the specs. Origins that stay keep their place; one that
// comes back goes on where it was left. It may be called at any time; when the
// specs are wrong it changes nothing.
func (s *Set) Update(specs []Spec) error {
	if err := checkAll(specs); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.specs = slices.Clone(specs)
	if s.update != nil {
		s.update(s.specs)
	}
	return nil
}

// Status reports every origin, and globs that match nothing. It may be
// called at any time.
func (s *Set) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status
	for _, f := range s.followers {
		all = append(all, f.snapshot())
	}
	for _, st := range s.streams {
		all = append(all, st.snapshot())
	}
	for _, spec := range s.specs {
		if hasMeta(spec.File) && !slices.ContainsFunc(s.followers, func(f *follower) bool { return f.pattern == spec.File }) {
			why := "no file matches"
			if err := closedFolder(spec.File); err != nil {
				why = err.Error()
			}
			all = append(all, Status{Name: spec.File, State: Waiting, Why: why})
		}
	}
	return all
}

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
