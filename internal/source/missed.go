package source

import (
	"errors"
	"io/fs"
	"slices"
	"time"
)

// retryFor is how long those that cannot be read yet are tried: about as long
// as a file may take to be packed until its beginning can be read.
const retryFor = time.Minute

// addMissed appends the rotated files that were last written since t and that
// are neither s nor known. Those that cannot be read now are tried again for a
// while: most are just being packed.
func (e *engine) addMissed(f *follower, s *segment, t time.Time) {
	if !f.retry.since.IsZero() && f.retry.since.Before(t) {
		t = f.retry.since // what could not be read before is still missed
	}
	f.missedFrom = t
	f.retry.since, f.retry.until = time.Time{}, time.Now().Add(retryFor)
	if !e.addSince(f, s, t) {
		f.retry.since = t
	}
}

// addSince does once what addMissed promises, and reports whether every file
// could be read.
func (e *engine) addSince(f *follower, s *segment, t time.Time) bool {
	for range listTries {
		failed, stale := e.addListed(f, s, f.writtenSince(t))
		if !stale {
			e.reportFailed(f, failed)
			return len(failed) == 0
		}
	}
	return false
}

// reportFailed reports each rotated file that cannot be read, once. One that is
// not finished yet most likely will be.
func (e *engine) reportFailed(f *follower, failed []error) {
	before := f.retry.failed
	f.retry.failed = make(map[string]bool, len(failed))
	for _, err := range failed {
		told := before[err.Error()]
		if !told && !errors.Is(err, errUnfinished) {
			e.report(f.path, err)
			told = true
		}
		f.retry.failed[err.Error()] = told
	}
}

// addUnfinished tries again what could not be read when it was found rotated,
// and puts it before s, the newest file, if there is one.
func (e *engine) addUnfinished(f *follower, s *segment, now time.Time) {
	if f.retry.since.IsZero() {
		return
	}
	e.extend(f, s, func() {
		if e.addSince(f, s, f.retry.since) {
			f.retry.since = time.Time{}
		}
	})
	if now.Before(f.retry.until) || f.retry.since.IsZero() {
		return
	}
	f.retry.since = time.Time{}
	for text, told := range f.retry.failed {
		if err := f.note("%s: its lines may be lost", text); !told {
			e.report(f.path, err)
		}
	}
}

// packedLate gives up chain[i], which turned out to be compressed after it was
// opened as text, and has it read as such.
func (e *engine) packedLate(f *follower, i int) {
	t := f.chain[i].mtime.Add(-clockTick)
	e.remove(f, i, wasCompressed)
	if f.retry.since.IsZero() || t.Before(f.retry.since) {
		f.retry.since = t
	}
	f.retry.until = time.Now().Add(retryFor)
	f.check = true
	e.enqueue(f)
}

// crowdedFor is how long files are looked at that were closed although they were
// still written to.
const crowdedFor = 10 * time.Minute

// addGrown reads what was written to files after they were closed for want of
// room.
func (e *engine) addGrown(f *follower, s *segment, now time.Time) {
	if f.crowded.IsZero() || now.Sub(f.crowded) > crowdedFor {
		return
	}
	known := len(f.chain)
	e.extend(f, s, func() { e.addSince(f, s, now.Add(time.Hour)) })
	if len(f.chain) > known {
		e.noteCrowd(f)
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
	before := len(f.chain)
	if s != nil {
		before--
	}
	if e.insert(f, before, add) {
		if s == nil {
			e.replace(f.chain[:before], time.Now())
		}
		e.bound(f)
		e.enqueue(f)
	}
}

// insert has what add appends to the chain put before chain[i], and reports
// whether there was anything. Meanwhile the chain is whole: a file that is open
// must not be opened again, wherever it stands.
func (e *engine) insert(f *follower, i int, add func()) bool {
	known := len(f.chain)
	add()
	added := slices.Clone(f.chain[known:])
	f.chain = slices.Insert(f.chain[:known:known], i, added...)
	return len(added) > 0
}

// addListed appends what addMissed wants of list, and returns why it could not
// read others, or that one no longer had the name by which it was listed.
func (e *engine) addListed(f *follower, s *segment, list []sibling) (failed []error, stale bool) {
	for _, sib := range list {
		if s != nil && sib.fileID == s.fileID || e.byFile[sib.fileID] != nil {
			continue
		}
		missed, err := openRotated(sib.path, e.pool, f.maxLine)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, true
		case err != nil:
			failed = append(failed, err)
		case missed.packed != nil && len(missed.first) == 0:
			missed.close() // a packed empty file
		case missed.fileID != sib.fileID:
			missed.close()
			return nil, true
		case s != nil && s.isCopiedBy(missed):
			missed.close()
		default:
			missed, err = e.recognise(f, missed)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, true
			}
			if err != nil {
				failed = append(failed, unfinished(sib.path, err))
			} else if missed != nil {
				e.add(f, missed)
			}
		}
	}
	return failed, false
}

// resume puts into the chain what is unread since pos was saved, up to cur,
// the file that the name leads to now: the rest of the file that was being
// read, wherever a rotation put it, then what was rotated away after it.
func (e *engine) resume(f *follower, cur *segment, pos Pos) {
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
	since := time.Unix(0, pos.Time).Add(-clockTick)
	if unread := time.Unix(0, pos.Unread); pos.Unread != 0 && unread.Before(since) {
		since = unread
	}
	if cur != nil && e.resumeAt(cur, pos) {
		// What was truncated away from an empty file shows only in a copy.
		if pos.PLen == 0 && pos.Time != 0 || pos.Unread != 0 {
			e.addMissed(f, cur, since)
		}
		return
	}
	if pos.Ino != 0 && !e.goOn(f, list, pos) { // else there was no file yet
		e.unfound(f, cur, pos)
	}
	if pos.Time != 0 {
		e.addMissed(f, cur, since)
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
	e.add(f, s)
	return true
}

// resumeWithout reads what was rotated away while the name leads to nothing.
func (e *engine) resumeWithout(f *follower, now time.Time) {
	if f.begins != fromSaved {
		return
	}
	pos := f.saved
	f.begins, f.saved = fromRotation, Pos{}
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
