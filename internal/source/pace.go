package source

import (
	"slices"
	"time"
)

// A writer that writes line by line as fast as it can is slowed by being
// watched: every write wakes us, and we read a line or two. Such a file is not
// watched but looked at every breath, until it rests.
const (
	breath = 500 * time.Microsecond
	// hasteAfter is how many visits in quick succession begin the haste, and
	// fewLines how many lines each reads at most.
	hasteAfter, fewLines = 500, 64
	// restAfter is how many looks that find nothing end it.
	restAfter = 20
)

// pace is told of each visit to f and how many lines it read.
func (e *engine) pace(f *follower, lines int64) {
	if e.dirs == nil || f.polled {
		return
	}
	now := time.Now()
	since := now.Sub(f.visited)
	f.visited = now
	if f.haste {
		if f.idle++; lines > 0 {
			f.idle = 0
		}
		if f.idle > restAfter {
			e.rest(f)
		}
		return
	}
	if f.quick++; since > breath || lines > fewLines {
		f.quick = 0
	}
	if f.quick > hasteAfter {
		e.hasten(f)
	}
}

// hasten stops watching the files of f.
func (e *engine) hasten(f *follower) {
	f.haste, f.idle, f.quick = true, 0, 0
	for _, s := range f.chain {
		if s.wake != nil {
			s.wake.close()
			s.wake = nil
		}
	}
	e.busy = append(e.busy, f)
}

// rest watches them again, and looks at what happened meanwhile.
func (e *engine) rest(f *follower) {
	f.haste, f.quick = false, 0
	e.busy = slices.DeleteFunc(e.busy, func(o *follower) bool { return o == f })
	for _, s := range f.chain {
		if s.wake == nil && s.packed == nil {
			e.listen(f, s)
		}
	}
	f.check = true
	e.enqueue(f)
}

// breath is a channel that tells when to look at the busy files, nil when
// there are none.
func (e *engine) breath() <-chan time.Time {
	if len(e.busy) == 0 {
		return nil
	}
	return time.After(breath)
}

func (e *engine) lookAtBusy() {
	for _, f := range e.busy {
		e.enqueue(f)
	}
}
