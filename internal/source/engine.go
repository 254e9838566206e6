package source

import (
	"context"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// sweepEvery is how often files are looked at although the kernel would
	// tell of changes: its queue can overflow.
	sweepEvery = 15 * time.Second
	// missingEvery is how often a name that leads nowhere is tried.
	missingEvery = time.Second
	// turnBlocks is how many blocks one file gives before it is another's turn.
	turnBlocks = 16
	// maxFollowed bounds the files that globs can add.
	maxFollowed = 8192
)

// engine follows the files of a Set, in one goroutine.
type engine struct {
	opts Options
	send func(context.Context, *Batch) bool
	pool *pools

	specs     []Spec
	followers map[string]*follower
	list      []*follower // in order of appearance
	byFile    map[fileID]*follower
	closedAt  map[fileID]Pos // where files were closed that may get another name
	saved     *positions
	twins     *twins
	scanned   map[string]bool // globs that were expanded before
	rotated   map[string]bool // what globs match and is a rotation of another, and
	// wereRotated is the same of the scan before.
	wereRotated map[string]bool
	publish     func(list []*follower) // for Status

	dirs       *dirWatch // nil: poll
	queue      []*follower
	begun      time.Time
	first      bool // within the first scan
	pending    int  // followers that existed at start and did not catch up
	caughtUp   func()
	fullTold   bool
	lastSweep  time.Time
	lastMissed time.Time
	busy       []*follower // those that are in haste

	wake chan struct{} // capacity 1: something below is not empty

	mu     sync.Mutex // guards what other goroutines leave here
	woken  []*follower
	events []dirEvent
	update []Spec // nil: none
}

// nudge wakes the engine. It never blocks.
func (e *engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// wakeUp is called by wakers.
func (e *engine) wakeUp(f *follower) {
	e.mu.Lock()
	e.woken = append(e.woken, f)
	e.mu.Unlock()
	e.nudge()
}

// tellDir is called by dirWatch. Over a thousand untold events everything is
// looked at instead.
func (e *engine) tellDir(ev dirEvent) {
	e.mu.Lock()
	if len(e.events) >= 1000 {
		e.events, ev = e.events[:0], dirEvent{}
	}
	e.events = append(e.events, ev)
	e.mu.Unlock()
	e.nudge()
}

// run follows until ctx is done.
func (e *engine) run(ctx context.Context) {
	defer e.closeAll()
	e.begun = time.Now()
	e.first = true
	e.scan()
	for _, f := range e.list {
		e.look(f)
	}
	e.first = false
	e.arrange()
	if e.pending == 0 {
		e.caughtUp()
	}
	timer := time.NewTimer(e.tick())
	defer timer.Stop()
	for ctx.Err() == nil {
		e.takeIn()
		if len(e.queue) > 0 {
			e.turn(ctx)
			continue
		}
		select {
		case <-ctx.Done():
		case <-e.wake:
		case <-e.breath():
			e.lookAtBusy()
		case <-timer.C:
			e.sweep()
			timer.Reset(e.tick())
		}
	}
}

// tick is the time between two sweeps.
func (e *engine) tick() time.Duration {
	if e.dirs == nil {
		return e.opts.Poll
	}
	for _, f := range e.list {
		if f.polled {
			return e.opts.Poll
		}
	}
	return missingEvery
}

// takeIn takes what other goroutines left.
func (e *engine) takeIn() {
	e.mu.Lock()
	woken, events, update := e.woken, e.events, e.update
	e.woken, e.events, e.update = nil, nil, nil
	e.mu.Unlock()
	for _, f := range woken {
		e.enqueue(f)
	}
	if update != nil {
		e.specs = update
		e.scan()
		e.arrange()
	}
	if len(events) > 0 {
		e.onDirs(events)
	}
}

func (e *engine) enqueue(f *follower) {
	if !f.queued {
		f.queued = true
		e.queue = append(e.queue, f)
	}
}

// turn gives every queued follower its turn.
func (e *engine) turn(ctx context.Context) {
	queue := e.queue
	e.queue = nil
	for _, f := range queue {
		f.queued = false
		if ctx.Err() == nil {
			e.visit(ctx, f)
		}
	}
	if e.queue == nil {
		e.queue = queue[:0]
	}
}

// visit looks at what happened to f and reads what there is. One that was given
// up may still be in the queue.
func (e *engine) visit(ctx context.Context, f *follower) {
	if e.followers[f.path] != f {
		return
	}
	for _, s := range f.chain {
		if s.wake == nil {
			continue
		}
		ops := s.wake.take()
		if ops&^fsnotify.Write != 0 {
			f.check = true
		}
		if ops.Has(fsnotify.Rename) {
			e.rewatch(f, s)
		}
	}
	if f.check {
		e.look(f)
	}
	before := f.lines
	e.read(ctx, f)
	e.bound(f)
	e.pace(f, f.lines-before)
	e.retire(f)
	e.twins.setAlive(f.path, f.gone == nil)
	f.showState()
}

// listen makes the kernel tell of changes to s, or f be polled.
func (e *engine) listen(f *follower, s *segment) {
	if e.dirs == nil || s.finished || needsPolling(s.h) {
		f.polled = f.polled || !s.finished
		return
	}
	w, err := watchFile(s.h, func() { e.wakeUp(f) })
	if err != nil {
		if !f.polled {
			e.report(f.path, err)
		}
		f.polled = true
		return
	}
	s.wake = w
}

// rewatch listens to a file that was renamed, which inotify forgets.
func (e *engine) rewatch(f *follower, s *segment) {
	s.wake.close()
	s.wake = nil
	e.listen(f, s)
}

func (e *engine) report(origin string, err error) {
	e.opts.Report(Problem{Origin: origin, Err: err})
}

// closeAll gives up every file.
func (e *engine) closeAll() {
	for _, f := range e.list {
		e.drop(f)
	}
}

// drop gives up the files of f.
func (e *engine) drop(f *follower) {
	for len(f.chain) > 0 {
		e.remove(f, 0)
	}
}
