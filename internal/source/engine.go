package source

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/nxadm/tail/watch"
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

	listing    dirCache
	dirs       *dirWatch // nil: poll
	queue      []*follower
	begun      time.Time
	first      bool // within the first scan
	pending    int  // followers that existed at start and did not catch up
	caughtUp   func()
	fullNoted  bool
	lastSweep  time.Time
	lastMissed time.Time
	busy       []*follower // those that wakeByTimer

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

// dirChanged is called by dirWatch. Over a thousand waiting events everything is
// looked at instead.
func (e *engine) dirChanged(ev dirEvent) {
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
		case <-e.busyTimer():
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
		if f.wakes == byPolling {
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
	// A position says when its file was last seen under the name. A start lists
	// what was rotated since, and knows no more than maxPastSaved of it.
	if f.check || f.name == leading && time.Since(f.lastSame) > missingEvery {
		e.look(f)
	}
	before := f.lines
	e.read(ctx, f)
	e.bound(f)
	e.pace(f, f.lines-before)
	e.retire(f)
	e.twins.setAlive(f.path, f.why == nil)
	f.showState()
}

// listen makes the kernel report changes to s, or f be polled.
func (e *engine) listen(f *follower, s *segment) {
	if s.state == archive {
		return
	}
	if e.dirs == nil || needsPolling(s.h) {
		e.wakeByPolling(f)
		return
	}
	if f.wakes == byTimer {
		return // it is watched once that ends
	}
	w, err := watchFile(s.h, func() { e.wakeUp(f) })
	if err != nil {
		if f.wakes != byPolling {
			e.report(f.path, err)
		}
		e.wakeByPolling(f)
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
		e.remove(f, 0, wasDropped)
	}
}

// A writer that writes line by line as fast as it can is slowed by being
// watched: every write wakes us, and we read a line or two. Such a file is not
// watched but looked at every busyInterval, until it is idle.
const (
	busyInterval = 500 * time.Microsecond
	// busyAfter is how many visits in quick succession begin that, and fewLines
	// how many lines each reads at most.
	busyAfter, fewLines = 500, 64
	// idleAfter is how many looks that find nothing end it.
	idleAfter = 20
)

// pace decides after a visit to f, which read so many lines, what wakes the
// engine for it from now on.
func (e *engine) pace(f *follower, lines int64) {
	now := time.Now()
	since := now.Sub(f.visited)
	f.visited = now
	switch f.wakes {
	case byTimer:
		if f.idle++; lines > 0 {
			f.idle = 0
		}
		if f.idle > idleAfter {
			e.wakeByInotify(f)
		}
	case byInotify:
		if f.quick++; since > busyInterval || lines > fewLines {
			f.quick = 0
		}
		if f.quick > busyAfter && e.dirs != nil {
			e.wakeByTimer(f)
		}
	}
}

// wakeByTimer stops watching the files of f.
func (e *engine) wakeByTimer(f *follower) {
	f.wakes, f.idle, f.quick = byTimer, 0, 0
	for _, s := range f.chain {
		if s.wake != nil {
			s.wake.close()
			s.wake = nil
		}
	}
	e.busy = append(e.busy, f)
}

// wakeByInotify watches them again, and looks at what happened meanwhile.
func (e *engine) wakeByInotify(f *follower) {
	f.wakes = byInotify
	e.notBusy(f)
	for _, s := range f.chain {
		if s.wake == nil && s.packed == nil {
			e.listen(f, s)
		}
	}
	f.check = true
	e.enqueue(f)
}

// wakeByPolling is for files of which the kernel cannot report changes.
func (e *engine) wakeByPolling(f *follower) {
	f.wakes = byPolling
	e.notBusy(f)
}

func (e *engine) notBusy(f *follower) {
	e.busy = slices.DeleteFunc(e.busy, func(o *follower) bool { return o == f })
}

// busyTimer is a channel that says when to look at the busy files, nil when
// there are none.
func (e *engine) busyTimer() <-chan time.Time {
	if len(e.busy) == 0 {
		return nil
	}
	return time.After(busyInterval)
}

func (e *engine) lookAtBusy() {
	for _, f := range e.busy {
		e.enqueue(f)
	}
}

// waker reports changes to an open file, by nxadm/tail's inotify tracker, of
// which a process has one: a single inotify instance for all files.
//
// The package ends the process when it can make no inotify instance, when a
// file that its ChangeEvents or BlockUntilExists watch cannot be looked at,
// and it stops listening to a file that was renamed. So a waker
//   - asks for an instance itself before the tracker first does,
//   - uses the tracker alone, none of the watchers built on it,
//   - watches /proc/self/fd/N, a name that stays good through rename, removal
//     and lost permissions, and watches it again after a rename,
//   - empties its channel at all times: the tracker waits for each of them.
type waker struct {
	name string
	// ops gathers what happened since it was last taken.
	ops  atomic.Uint32
	done chan struct{}
}

// watchFile starts to listen to h. The first change since the last take calls
// notify, from a goroutine that ends with close; notify must not block. Before the first call in a
// process, canWatch must have succeeded.
func watchFile(h handle, notify func()) (*waker, error) {
	w := &waker{name: h.procPath(), done: make(chan struct{})}
	if err := watch.Watch(w.name); err != nil {
		// The tracker counts a watch only when it succeeded, so there is none
		// to take back; its channel stays for the next try.
		return nil, fmt.Errorf("inotify: %w", err)
	}
	go w.pump(watch.Events(w.name), notify)
	return w, nil
}

func (w *waker) pump(events <-chan fsnotify.Event, notify func()) {
	defer close(w.done)
	for e := range events {
		if w.ops.Or(uint32(e.Op)) == 0 {
			notify()
		}
	}
}

// take returns and forgets what happened.
func (w *waker) take() fsnotify.Op { return fsnotify.Op(w.ops.Swap(0)) }

// close stops listening and waits for the goroutine. It must come before the
// descriptor is closed, whose number another file may get.
func (w *waker) close() {
	// An error means that inotify forgot the file first, as after a rename.
	_ = watch.RemoveWatch(w.name)
	<-w.done
}
