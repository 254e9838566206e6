package source

import (
	"slices"
	"time"
)

// resume puts into the chain what is unread since pos was saved, up to cur,
// the file that the name leads to now: the rest of the file that was being
// read, wherever a rotation put it, then what was rotated away after it.
func (e *engine) resume(f *follower, cur *segment, pos Pos) {
	f.backlog = true
	f.dir = pos.Dir
	list := f.siblings()
	var older []Pos
	for p := pos.Older; p != nil; p = p.Older {
		older = append(older, *p)
	}
	slices.Reverse(older)
	for _, p := range older {
		if p.Closed {
			f.remember(p)
			continue
		}
		e.goOn(f, list, p)
	}
	if cur != nil && e.resumeAt(cur, pos) {
		if pos.PLen == 0 && pos.Time != 0 {
			// It was empty, so what was truncated away shows only in a copy.
			e.addMissed(f, cur, time.Unix(0, pos.Time).Add(-clockTick))
		}
		return
	}
	if pos.Ino != 0 && !e.goOn(f, list, pos) { // else there was no file yet
		e.unfound(f, cur, pos)
	}
	if pos.Time != 0 {
		e.addMissed(f, cur, time.Unix(0, pos.Time).Add(-clockTick))
	}
}

// goOn reads on in the file of p, wherever rotation put it, and reports whether
// it was found. It is remembered in any case: a copy may turn up later.
func (e *engine) goOn(f *follower, list []sibling, p Pos) bool {
	s, found := e.locate(f, list, p)
	if !found && f.dir == "" {
		for _, dir := range f.dirsBelow() {
			f.dir = dir
			if s, found = e.locate(f, f.siblings(), p); found {
				break
			}
			f.dir = ""
		}
	}
	if s == nil {
		f.remember(p)
		return found
	}
	s.rotated = rotatedAway
	e.add(f, s)
	return true
}

// resumeWithout reads what was rotated away while the name leads to nothing.
func (e *engine) resumeWithout(f *follower, now time.Time) {
	if f.saved == nil {
		return
	}
	pos := *f.saved
	f.saved = nil
	e.resume(f, nil, pos)
	f.lastSame = now
	if len(f.chain) > 0 {
		e.expect(f)
		e.enqueue(f)
	}
}

// expect makes the Set wait for f to catch up, when f was there at the start.
func (e *engine) expect(f *follower) {
	if e.first && !f.counted {
		f.counted = true
		e.pending++
	}
}

// unfound says that the rest of the file at pos is not to be had.
func (e *engine) unfound(f *follower, cur *segment, pos Pos) {
	what := "was rotated away and not found"
	if cur != nil && cur.fileID == (fileID{pos.Dev, pos.Ino}) {
		what = "was truncated or replaced"
	}
	e.report(f.path, f.note("the file %s while it was not read: lines after byte %d may be lost", what, pos.Offset))
}

// begin places the first start in a file without a saved position.
func (e *engine) begin(f *follower, s *segment) {
	f.backlog = true
	since := f.since
	if since.IsZero() && f.unread == s.fileID {
		s.startAtEnd(f.unreadAt)
		return
	}
	if since.IsZero() {
		s.startAtEnd(s.size)
		return
	}
	if s.size > 0 && s.mtime.Before(since) {
		s.startAtEnd(s.size)
		return
	}
	e.addMissed(f, s, since)
	if e.opts.Stamp == nil {
		return
	}
	stamp := e.opts.Stamp(f.origin)
	for _, old := range append(f.chain[:len(f.chain):len(f.chain)], s) {
		if old.packed == nil {
			old.startSince(since.UnixNano(), stamp)
		}
	}
}
