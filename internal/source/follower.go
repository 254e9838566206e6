package source

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// follower follows one name through every rotation of the file behind it.
type follower struct {
	path    string
	link    string // where path leads when it is a symbolic link
	glob    bool   // found by a glob
	pattern string // of the spec
	origin  *Origin
	maxLine int
	since   time.Time

	// chain is the log's history that is not done with, the oldest first. They
	// are read in this order; only the last one can be the file that path names.
	chain []*segment

	// past is where files were read to that are no longer open, the last closed
	// one last: what is found again of them is not read again. pastPos is the
	// last of them as a position keeps them.
	past    []Pos
	pastPos *Pos
	// truncatedHead is how a file began that was truncated last. A copy that was
	// made while it was written to may hold less of it than was read.
	truncatedHead []byte

	crowded    time.Time // when a file was closed that may still be written to
	crowdNoted bool      // that one was

	dirs *dirCache
	dir  string // where rotation moves files to, when not beside the log

	listedFirst bool      // past holds what was there first, but for
	missedFrom  time.Time // what was written since, which is not to be left out

	retry retries

	name     nameState // changed by leadsTo alone
	why      error     // of missing, unreadable and shared
	begins   beginning
	saved    Pos    // of fromSaved
	unread   fileID // a file that was seen before it could be read, and
	unreadAt int64  // its size then
	backlog  bool   // the end was not reached yet
	counted  bool   // the Set waits for this one to catch up
	check    bool   // look at the name again
	lastSame time.Time
	listed   time.Time // namesChanged when they were listed last for want of a file
	queued   bool      // in the engine's queue
	wakes    wakeMode
	lines    int64     // handed on
	visited  time.Time // last
	quick    int       // visits in quick succession that read little each
	idle     int       // visits by timer that read nothing
	failure  string    // why reading failed, reported, until it succeeds

	twin string // the origin that this one stands by for

	mu     sync.Mutex // guards status
	status Status
}

// retries are what could not be read when it was found rotated, most likely because
// it is just being packed.
type retries struct {
	since  time.Time       // files written since then are tried; zero: none
	until  time.Time       // they are given up
	failed map[string]bool // the errors; true: reported
}

const (
	maxNotes = 8
	// maxOlder bounds how many rotated files are kept open for late writers.
	maxOlder = 16
	// deletedQuiet is how long a deleted file is kept, whose space is not free
	// until then.
	deletedQuiet = 10 * time.Second
)

// current is the newest file of the chain, nil when there is none.
func (f *follower) current() *segment {
	if len(f.chain) == 0 {
		return nil
	}
	return f.chain[len(f.chain)-1]
}

// indexOf finds a file in the chain, -1 when it is not there.
func (f *follower) indexOf(id fileID) int {
	for i, s := range f.chain {
		if s.packed == nil && s.fileID == id {
			return i
		}
	}
	return -1
}

// stalest is the rotated file that was read to its end and has not grown for
// the longest time, -1 when there is none.
func (f *follower) stalest() int {
	stalest := -1
	for i, s := range f.chain[:max(0, len(f.chain)-1)] {
		if !s.atEnd || s.packed != nil {
			continue
		}
		if stalest < 0 || s.silentSince().Before(f.chain[stalest].silentSince()) {
			stalest = i
		}
	}
	return stalest
}

// posAfter is where to resume once the lines of chain[i] up to now are
// handled: the newest file that was begun, the older ones still open, and since
// when newer ones are unread, which may be rotated away by then.
func (f *follower) posAfter(i int, now time.Time) Pos {
	newest := i
	for j := i + 1; j < len(f.chain); j++ {
		if f.chain[j].off > 0 {
			newest = j
		}
	}
	pos := f.chain[newest].pos()
	if f.lastSame.Before(now) && !f.lastSame.IsZero() {
		now = f.lastSame // what came and was rotated away since is not in the chain
	}
	for _, s := range f.chain[newest+1:] {
		if t := s.unreadSince(); !t.IsZero() && t.Before(now) {
			now = t
		}
	}
	pos.Time = now.UnixNano()
	if !f.retry.since.IsZero() {
		pos.Unread = f.retry.since.UnixNano()
	}
	pos.Older, pos.Dir = f.pastPos, f.dir
	if newest > 0 {
		pos.Older = f.olderPos(newest - 1)
	}
	return pos
}

// olderPos is where chain[i] and those before it were read to.
func (f *follower) olderPos(i int) *Pos {
	pos := f.chain[i].pos()
	pos.Older = f.pastPos
	if i > 0 {
		pos.Older = f.olderPos(i - 1)
	}
	return &pos
}

// note remembers that something may have been lost.
func (f *follower) note(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Notes = append(f.status.Notes, err.Error())
	if n := len(f.status.Notes); n > maxNotes {
		f.status.Notes = f.status.Notes[n-maxNotes:]
	}
	return err
}

// showState derives the state from what the follower knows.
func (f *follower) showState() {
	lag := int64(0)
	for _, s := range f.chain {
		lag += s.lag()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Lag, f.status.Polled = lag, f.wakes == byPolling
	f.status.Why = ""
	switch {
	case f.twin != "":
		f.status.State, f.status.Why = Standby, "same lines as "+f.twin
	case f.name == shared:
		f.status.State, f.status.Why = Standby, f.why.Error()
	case f.name == missing:
		f.status.State, f.status.Why = Waiting, "missing"
	case f.name == unreadable:
		f.status.State, f.status.Why = Waiting, unreadableWhy(f.why)
	case f.backlog:
		f.status.State = CatchingUp
	default:
		f.status.State = Following
	}
}

// leadsTo records what the name leads to, and why to no file of ours.
func (f *follower) leadsTo(state nameState, why error) { f.name, f.why = state, why }

func unreadableWhy(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "unreadable: permission denied"
	}
	return "unreadable: " + err.Error()
}

// snapshot copies the status.
func (f *follower) snapshot() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.status
	st.Notes = slices.Clone(st.Notes)
	return st
}

// count adds what a batch holds to the status.
func (f *follower) count(lines, cut int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Lines += lines
	f.status.Cut += cut
}

// look finds out what the name of f leads to now, and puts the file at the end
// of the chain when it is another one.
func (e *engine) look(f *follower) {
	f.check = false
	now := time.Now()
	found, info, err := e.find(f)
	cur := f.current()
	switch found {
	case foundSame:
		e.freshen(f, cur, info)
		f.lastSame = now
		f.leadsTo(leading, nil)
		e.addUnfinished(f, cur, now)
		e.addGrown(f, cur, now)
	case foundNew:
		f.noteDir(cur)
		e.open(f, info, now)
	case foundOlder:
		i := f.indexOf(info.fileID)
		older := f.chain[i]
		e.replace(f.chain, now)
		e.step(older, gotItsName)
		f.chain = append(slices.Delete(f.chain, i, i+1), older)
		f.lastSame = now
		f.leadsTo(leading, nil)
	case foundShared:
		f.leadsTo(shared, errors.New("same file as "+e.byFile[info.fileID].path))
		f.showState()
	case foundNothing:
		e.lost(f, missing, err)
	case foundOther:
		e.lost(f, unreadable, err)
	}
}

// find returns what the name of f leads to.
func (e *engine) find(f *follower) (finding, fileInfo, error) {
	info, err := statPath(f.path)
	if err == nil && !info.regular {
		err = errors.New("not a regular file")
	}
	i := f.indexOf(info.fileID)
	switch o := e.byFile[info.fileID]; {
	case errors.Is(err, fs.ErrNotExist):
		return foundNothing, info, err
	case err != nil:
		return foundOther, info, err
	case i >= 0 && i == len(f.chain)-1:
		return foundSame, info, nil
	case o != nil && o != f:
		return foundShared, info, nil
	case i >= 0:
		return foundOlder, info, nil
	}
	return foundNew, info, nil
}

// replace records that the newest of the files, if it is among them, lost its
// name.
func (e *engine) replace(files []*segment, now time.Time) {
	for _, s := range files {
		if s.state == newest {
			e.step(s, lostItsName)
			s.rotatedAt = now
		}
	}
}

// freshen opens the file of s again when it grew where its name leads to but
// not where it is open: overlayfs copied it up.
func (e *engine) freshen(f *follower, s *segment, now fileInfo) {
	if f.wakes != byPolling {
		return
	}
	open, err := s.h.stat()
	if err != nil || open.size >= now.size || open.mtime.Equal(now.mtime) {
		return
	}
	h, info, err := openFile(f.path)
	if err != nil {
		return
	}
	if info.fileID != s.fileID {
		h.Close()
		return
	}
	s.h.Close()
	s.h = h
}

// lost records that the name of f leads to nothing, or to what cannot be read.
func (e *engine) lost(f *follower, state nameState, err error) {
	was := f.why
	f.leadsTo(state, err)
	if was == nil && !(e.first && state == missing) || was != nil && was.Error() != err.Error() {
		if len(f.chain) == 0 || state != missing {
			e.report(f.path, err)
		}
	}
	if state == missing {
		now := time.Now()
		f.noteDir(f.current())
		e.resumeWithout(f, now)
		f.begins = fromRotation // what comes will be new, all of it unread
		e.rememberExisting(f)
		if f.lastSame.IsZero() {
			f.lastSame = now
		}
		e.missedWithout(f, now)
	}
	f.showState()
}

// open makes the file that the name of f leads to the newest of the chain.
func (e *engine) open(f *follower, seen fileInfo, now time.Time) {
	s, err := openSegment(f.path, f.maxLine)
	if err != nil {
		if f.begins == fromEnd && f.unread != seen.fileID {
			f.unread, f.unreadAt = seen.fileID, seen.size
		}
		state := unreadable
		if errors.Is(err, fs.ErrNotExist) {
			state = missing
		}
		e.lost(f, state, err)
		return
	}
	if f.glob {
		var head [6]byte
		n, _ := s.h.ReadAt(head[:], 0)
		if p := packingOf(head[:n]); p != nil {
			s.close()
			e.lost(f, unreadable, fmt.Errorf("compressed by %s: not a live log", p.name))
			return
		}
	}
	f.leadsTo(leading, nil)
	e.place(f, s, now)
	s.expect(s.head()) // it may be truncated before it is read
	e.replace(f.chain, now)
	e.add(f, s)
	e.rememberExisting(f)
	e.bound(f)
	f.lastSame = now
	e.expect(f)
	e.enqueue(f)
}

// place decides where reading of s begins, and puts what must be read before
// it into the chain.
func (e *engine) place(f *follower, s *segment, now time.Time) {
	begins, saved := f.begins, f.saved
	f.begins, f.saved = fromRotation, Pos{}
	switch begins {
	case fromSaved:
		e.resume(f, s, saved)
	case fromRotation:
		// The name may have led to other files since it was last looked at.
		e.addMissed(f, s, f.lastSame.Add(-clockTick))
		e.fromElsewhere(s)
	case fromEnd:
		if !e.fromElsewhere(s) { // else another name led to it until now
			e.begin(f, s)
		}
	case fromStart:
		e.fromElsewhere(s)
	}
}

// clockTick is more than the granularity of the times that the kernel gives
// to files.
const clockTick = 20 * time.Millisecond

// fromElsewhere goes on where the file was left under another name.
func (e *engine) fromElsewhere(s *segment) bool {
	p, ok := e.closedAt[s.fileID]
	return ok && e.resumeAt(s, p)
}

// rememberExisting remembers where the rotated files end that are not to be read because
// they were there first. Only what is added to them is new.
func (e *engine) rememberExisting(f *follower) {
	if f.listedFirst {
		return
	}
	f.listedFirst = true
	for _, sib := range f.siblings() {
		unread := !f.missedFrom.IsZero() && !sib.mtime.Before(f.missedFrom)
		left := slices.ContainsFunc(f.past, func(p Pos) bool { return sib.fileID == fileID{p.Dev, p.Ino} })
		if left || unread || e.byFile[sib.fileID] != nil || isCompressedName(sib.path) {
			continue
		}
		s, err := openSegment(sib.path, f.maxLine)
		if err != nil {
			continue // nor will it be read later
		}
		if packingOf(s.head()) != nil {
			s.close()
			continue // a compressed file does not grow
		}
		s.startAtEnd(s.size)
		f.remember(s.pos())
		s.close()
	}
}

// add appends s to the chain and listens to it.
func (e *engine) add(f *follower, s *segment) {
	f.chain = append(f.chain, s)
	if s.packed == nil {
		e.byFile[s.fileID] = f
		e.listen(f, s)
	}
}
