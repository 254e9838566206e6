package source

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// resume puts into the chain what is unread since pos was saved, up to cur,
// the file that the name leads to now: the rest of the file that was being
// read, wherever a rotation put it, then what was rotated away after it.
func (e *engine) resume(f *follower, cur *segment, pos Pos) {
	f.backlog = true
	list := siblings(f.path)
	var older []Pos
	for p := pos.Older; p != nil; p = p.Older {
		older = append(older, *p)
	}
	slices.Reverse(older)
	for _, p := range older {
		if s := e.locate(f, list, p); s != nil {
			e.add(f, s)
		} else {
			f.aside[fileID{p.Dev, p.Ino}] = p
		}
	}
	if cur != nil && e.resumeAt(cur, pos) {
		if pos.PLen == 0 && pos.Time != 0 {
			// It was empty, so what was truncated away shows only in a copy.
			cur.empty, cur.grown = true, time.Unix(0, pos.Time)
			f.missedFrom = cur.grown.Add(-clockTick)
		}
		return
	}
	if s := e.locate(f, list, pos); s != nil {
		e.add(f, s)
	} else if pos.Ino != 0 { // else there was no file yet
		f.aside[fileID{pos.Dev, pos.Ino}] = pos // it may be found later
		e.unfound(f, cur, pos)
	}
	if pos.Time != 0 {
		e.addMissed(f, cur, time.Unix(0, pos.Time).Add(-clockTick))
	}
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
	e.report(f.path, f.note("the file %s while it was not followed: lines after byte %d of it may be lost", what, pos.Offset))
}

// locate finds the file of p among the rotated ones, by its inode and
// fingerprint, else, when it was copied or compressed, by the fingerprint
// alone, and opens it there. It returns nil when there is none.
func (e *engine) locate(f *follower, list []sibling, p Pos) *segment {
	for range relists {
		s, stale := e.locateListed(f, list, p)
		if s != nil || !stale {
			return s
		}
		list = siblings(f.path)
	}
	return nil
}

// locateListed is locate in a list, and reports whether that is stale.
func (e *engine) locateListed(f *follower, list []sibling, p Pos) (found *segment, stale bool) {
	for _, sib := range list {
		if sib.fileID != (fileID{p.Dev, p.Ino}) || e.byFile[sib.fileID] != nil {
			continue
		}
		s, err := openSegment(sib.path, f.maxLine, time.Now())
		if err != nil {
			stale = stale || errors.Is(err, fs.ErrNotExist)
			if !stale {
				e.report(f.path, fmt.Errorf("reading %s: %w", sib.path, err))
			}
			continue
		}
		if e.resumeAt(s, p) {
			return s, false
		}
		stale = stale || s.fileID != sib.fileID
		s.close()
	}
	if stale {
		return nil, true
	}
	return e.copyListed(f, list, p)
}

// findCopy opens, at p, the newest file of list that begins like the file of
// p, nil when there is none.
func (e *engine) findCopy(f *follower, list []sibling, p Pos) *segment {
	for range relists {
		s, stale := e.copyListed(f, list, p)
		if s != nil || !stale {
			return s
		}
		list = siblings(f.path)
	}
	return nil
}

// copyListed is findCopy in a list, and reports whether that is stale. While a
// file is being packed there are two copies, of which only the plain one is
// sure to be whole.
func (e *engine) copyListed(f *follower, list []sibling, p Pos) (found *segment, stale bool) {
	print := fingerprint{p.Print, p.PLen}
	if print.n == 0 {
		return nil, false
	}
	for _, sib := range plainFirst(list) {
		if e.byFile[sib.fileID] != nil {
			continue
		}
		s, err := openPacked(sib.path, e.pool, f.maxLine)
		if err != nil {
			stale = stale || errors.Is(err, fs.ErrNotExist)
			continue // not one that can be read, nor that we ever read
		}
		if !print.begins(s.head()) {
			s.close()
			continue
		}
		if err := s.skip(p.Offset); err != nil {
			s.close()
			e.report(f.path, fmt.Errorf("reading %s: %w", sib.path, err))
			continue
		}
		return s, false
	}
	return nil, stale
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
	for _, old := range append(f.chain[:len(f.chain):len(f.chain)], s) {
		if old.packed == nil && e.opts.Stamp != nil {
			old.startSince(since.UnixNano(), e.opts.Stamp)
		}
	}
}
