package source

import (
	"fmt"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
	"github.com/nxadm/tail/watch"
)

// waker tells of changes to an open file, by nxadm/tail's inotify tracker, of
// which a process has one: a single inotify instance for all files.
//
// The package ends the process when it can make no inotify instance, when a
// file that its ChangeEvents or BlockUntilExists watch cannot be looked at,
// and it stops listening to a file that was renamed. So a waker
//   - asks for an instance itself before the tracker first does,
//   - uses the tracker alone, none of the watchers built on it,
//   - watches /proc/self/fd/N, a name that stays good through rename, removal
//     and lost permissions, and watches it anew after a rename,
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
