package source

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// look finds out which file the name of f leads to now, and puts it at the
// end of the chain when it is another one.
func (e *engine) look(f *follower) {
	f.check = false
	now := time.Now()
	info, err := statPath(f.path)
	if err == nil && !info.regular {
		err = errors.New("not a regular file")
	}
	if err != nil {
		e.lost(f, err)
		return
	}
	cur := f.current()
	if cur != nil && cur.packed == nil && cur.fileID == info.fileID {
		e.freshen(f, cur, info)
		f.lastSame, f.gone = now, nil
		e.addUnfinished(f, cur, now)
		e.addGrown(f, cur, now)
		return
	}
	if o := e.byFile[info.fileID]; o != nil && o != f {
		f.gone = sameFileError{o.path}
		f.showState()
		return
	}
	if i := f.indexOf(info.fileID); i >= 0 && f.chain[i] != cur {
		f.chain = append(append(f.chain[:i:i], f.chain[i+1:]...), f.chain[i])
		f.lastSame, f.gone = now, nil
		return
	}
	f.noteDir(cur)
	e.open(f, info, now)
}

// freshen opens the file of s anew when it grew where its name leads to but
// not where it is open: overlayfs copied it up.
func (e *engine) freshen(f *follower, s *segment, now fileInfo) {
	if !f.polled {
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

// lost records that the name of f leads to no file that can be read.
func (e *engine) lost(f *follower, err error) {
	was := f.gone
	f.gone = err
	if was == nil && !(e.first && errors.Is(err, fs.ErrNotExist)) || was != nil && was.Error() != err.Error() {
		if len(f.chain) == 0 || !errors.Is(err, fs.ErrNotExist) {
			e.report(f.path, err)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		now := time.Now()
		f.noteDir(f.current())
		f.fresh = false // it will be new, all of it unread
		e.resumeWithout(f, now)
		e.setAside(f)
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
		if f.fresh && f.unread != seen.fileID {
			f.unread, f.unreadAt = seen.fileID, seen.size
		}
		e.lost(f, err)
		return
	}
	if f.glob {
		var head [6]byte
		n, _ := s.h.ReadAt(head[:], 0)
		if p := packingOf(head[:n]); p != nil {
			s.close()
			e.lost(f, fmt.Errorf("compressed by %s: not a live log", p.name))
			return
		}
	}
	f.gone = nil
	was := f.current()
	e.place(f, s, now)
	s.expect(s.head()) // it may be truncated before it is read
	if was != nil && was.rotated == newest {
		was.rotated, was.rotatedAt = rotatedAway, now
	}
	e.add(f, s)
	e.setAside(f)
	e.bound(f)
	f.lastSame = now
	e.expect(f)
	e.enqueue(f)
}

// place decides where reading of s begins, and puts what must be read before
// it into the chain.
func (e *engine) place(f *follower, s *segment, now time.Time) {
	saved := f.saved
	fresh := f.fresh
	f.saved, f.fresh = nil, false
	switch {
	case saved != nil:
		e.resume(f, s, *saved)
	case !f.lastSame.IsZero():
		// The name may have led to other files since it was last looked at.
		e.addMissed(f, s, f.lastSame.Add(-clockTick))
		e.fromElsewhere(s)
	case e.fromElsewhere(s): // another name led to it until now
	case fresh:
		e.begin(f, s)
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

// setAside remembers where the rotated files end that are not to be read because
// they were there first. Only what is added to them is new.
func (e *engine) setAside(f *follower) {
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
