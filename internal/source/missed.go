package source

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// relists is how often the rotated files are listed anew because they changed
// their names meanwhile.
const relists = 10

// relistFor is how long those that cannot be read yet are tried: about as long
// as a file may take to be packed until its beginning can be read.
const relistFor = time.Minute

// addMissed appends the rotated files that were last written since t and that
// are neither s nor known. Those that cannot be read now are tried again for a
// while: most are just being packed.
func (e *engine) addMissed(f *follower, s *segment, t time.Time) {
	if !f.relist.IsZero() && f.relist.Before(t) {
		t = f.relist // what could not be read before is still missed
	}
	f.missedFrom = t
	f.relist, f.relistEnd = time.Time{}, time.Now().Add(relistFor)
	if !e.addSince(f, s, t) {
		f.relist = t
	}
}

// addSince does once what addMissed promises, and reports whether every file
// could be read.
func (e *engine) addSince(f *follower, s *segment, t time.Time) bool {
	for range relists {
		failed, stale := e.addListed(f, s, writtenSince(siblings(f.path), t))
		if !stale {
			e.tellFailed(f, failed)
			return len(failed) == 0
		}
	}
	return false
}

// tellFailed tells of each rotated file that cannot be read, once. One that is
// not finished yet most likely will be.
func (e *engine) tellFailed(f *follower, failed []error) {
	before := f.failed
	f.failed = make(map[string]bool, len(failed))
	for _, err := range failed {
		told := before[err.Error()]
		if !told && !errors.Is(err, errUnfinished) {
			e.report(f.path, err)
			told = true
		}
		f.failed[err.Error()] = told
	}
}

// addUnfinished tries again what could not be read when it was found rotated,
// and puts it before s, the newest file, if there is one.
func (e *engine) addUnfinished(f *follower, s *segment, now time.Time) {
	if f.relist.IsZero() {
		return
	}
	e.extend(f, s, func() {
		if e.addSince(f, s, f.relist) {
			f.relist = time.Time{}
		}
	})
	if now.Before(f.relistEnd) || f.relist.IsZero() {
		return
	}
	f.relist = time.Time{}
	for text, told := range f.failed {
		if err := f.note("%s: its lines may be lost", text); !told {
			e.report(f.path, err)
		}
	}
}

// missedWithout puts into the chain what came under the name and was rotated
// away since it was last looked at: the next file may be long in coming.
func (e *engine) missedWithout(f *follower, now time.Time) {
	e.addUnfinished(f, nil, now)
	changed := namesChanged(f.path)
	if changed.Equal(f.listed) {
		return
	}
	e.extend(f, nil, func() { e.addMissed(f, nil, f.lastSame.Add(-clockTick)) })
	f.lastSame = now
	if now.Sub(changed) > clockTick {
		f.listed = changed // a change to come will show in it
	}
}

// extend has what add appends to the chain put before s, if there is one, and
// read.
func (e *engine) extend(f *follower, s *segment, add func()) {
	known := len(f.chain)
	if s != nil {
		f.chain = f.chain[:known-1]
	}
	add()
	if s != nil {
		f.chain = append(f.chain, s)
	}
	if len(f.chain) > known {
		e.bound(f)
		e.enqueue(f)
	}
}

// addListed appends what addMissed wants of list, and returns why it could not
// read others, or that one no longer had the name by which it was listed.
func (e *engine) addListed(f *follower, s *segment, list []sibling) (failed []error, stale bool) {
	for _, sib := range list {
		if s != nil && sib.fileID == s.fileID || e.byFile[sib.fileID] != nil {
			continue
		}
		missed, err := e.openSibling(f, sib)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, true
		case err != nil:
			failed = append(failed, err)
		case missed.fileID != sib.fileID:
			missed.close()
			return nil, true
		case e.known(f, missed) || s != nil && s.hasCopy(missed):
			missed.close()
		default:
			e.fromBefore(f, missed)
			e.add(f, missed)
		}
	}
	return failed, false
}

// known reports whether a rotated file, just opened, was read, or is a copy,
// compressed or not, of one that is open or was, or of an empty one.
func (e *engine) known(f *follower, s *segment) bool {
	if s.packed != nil && len(s.first) == 0 {
		return true
	}
	for _, o := range f.chain {
		if o.fileID == s.fileID || o.hasCopy(s) {
			return true
		}
	}
	head := s.head()
	for id, c := range e.closedAt {
		print := fingerprint{c.Print, c.PLen}
		switch {
		case c.path != f.path:
		case id != s.fileID && print.isOf(head):
			return true
		case id == s.fileID && c.finished && print.begins(head):
			return true
		}
	}
	return false
}

// openSibling opens a rotated file at its start.
func (e *engine) openSibling(f *follower, sib sibling) (*segment, error) {
	if isCompressedName(sib.path) {
		return openPacked(sib.path, e.pool, f.maxLine)
	}
	s, err := openSegment(sib.path, f.maxLine, time.Now())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", sib.path, err)
	}
	return s, nil
}
