package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// read hands on what the files of f hold, the oldest file first, and queues f
// again when its turn ends before they do.
func (e *engine) read(ctx context.Context, f *follower) {
	for i, blocks := 0, 0; i < len(f.chain); {
		if blocks == turnBlocks {
			e.enqueue(f)
			return
		}
		s := f.chain[i]
		b, err := s.next(e.pool)
		switch {
		case err == nil && b == nil:
			e.step(s, atItsEnd)
			if i == len(f.chain)-1 {
				f.failure = ""
			}
			i++
		case err == nil:
			blocks++ // files with nothing to read do not use up the turn
			e.step(s, gaveLines)
			if !e.deliver(ctx, f, i, b) {
				return
			}
		case errors.Is(err, errTruncated):
			blocks++
			e.step(s, startedAgain)
			e.truncated(f, i)
		case errors.Is(err, errRefilled):
			blocks++
			e.step(s, startedAgain)
			e.addCopies(f, i, s.grown.Add(-clockTick))
			s.grown = s.writtenAt()
		case errors.Is(err, errPacked):
			e.packedLate(f, i)
		case errors.Is(err, io.EOF):
			e.remove(f, i, wasReadUp)
		default:
			e.fail(f, i, err)
		}
	}
	e.readAll(ctx, f)
}

// readAll is told that f was read to its end.
func (e *engine) readAll(ctx context.Context, f *follower) {
	switch {
	case len(f.chain) == 0:
		if f.name == missing {
			e.sendMissing(ctx, f)
		}
		e.arrived(f) // nothing came after what was rotated away
	case f.backlog:
		// Where the first line to come will stand is worth keeping: a start
		// that finds no position begins at the end as it is by then.
		if f.lines == 0 && !e.sendPos(ctx, f) {
			return
		}
		f.backlog = false
		f.showState() // before anyone is told
		e.arrived(f)
	}
}

// arrived records that f caught up, or never will.
func (e *engine) arrived(f *follower) {
	if !f.counted {
		return
	}
	f.counted = false
	e.pending--
	if e.pending == 0 && !e.first {
		e.caughtUp()
	}
}

// deliver hands on lines of chain[i], and reports whether to go on.
func (e *engine) deliver(ctx context.Context, f *follower, i int, b *block) bool {
	s := f.chain[i]
	lines, cut := int64(len(b.lines)), s.cut-s.cutCounted
	s.cutCounted = s.cut
	now := time.Now()
	batch := b.asBatch()
	batch.Origin, batch.Arrival, batch.Backlog = f.origin, now, f.backlog
	batch.Pos = f.posAfter(i, now)
	e.standBy(f, batch, now)
	f.lines += lines
	f.count(int64(len(batch.Lines)), cut)
	e.saved.set(f.path, batch.Pos)
	return e.send(ctx, batch)
}

// sendPos hands on where f stands, without lines.
func (e *engine) sendPos(ctx context.Context, f *follower) bool {
	now := time.Now()
	batch := &Batch{Origin: f.origin, Arrival: now, Backlog: f.backlog, Pos: f.posAfter(len(f.chain)-1, now)}
	e.saved.set(f.path, batch.Pos)
	return e.send(ctx, batch)
}

// sendMissing hands on, unless there is a position, since when all of f will be
// unread.
func (e *engine) sendMissing(ctx context.Context, f *follower) {
	if e.saved.get(f.path) != (Pos{}) {
		return
	}
	now := time.Now()
	pos := Pos{Time: now.UnixNano()}
	e.saved.set(f.path, pos)
	e.send(ctx, &Batch{Origin: f.origin, Arrival: now, Pos: pos})
}

// standBy leaves out lines that come from another origin as well. The batch is
// handed on all the same, for its position.
func (e *engine) standBy(f *follower, batch *Batch, now time.Time) {
	other := ""
	if batch.Backlog {
		other = e.twins.standsBy(f.path)
	} else {
		other = e.twins.compare(f.path, batch.Lines, now)
	}
	if other != f.twin {
		e.reportTwin(f.path, f.twin, other)
		f.twin = other
	}
	if other != "" {
		batch.Pos.Twin, batch.Lines = other, nil
	}
}

func (e *engine) reportTwin(name, before, now string) {
	if now != "" {
		e.report(name, fmt.Errorf("standby: %s has the same lines", now))
		return
	}
	e.report(name, fmt.Errorf("in use again: %s no longer has the same lines", before))
}

// truncated starts chain[i] again. What was unread of it may be in a copy that
// was made first (logrotate's copytruncate), which then comes before it.
func (e *engine) truncated(f *follower, i int) {
	s := f.chain[i]
	left := s.pos()
	if s.scanned > 0 {
		e.report(f.path, f.note("truncated in the middle of a line"))
	}
	f.truncatedHead = bytes.Clone(s.start)
	s.restart()
	f.remember(left)
	since := s.grown.Add(-clockTick)
	dup, _ := e.findCopy(f, writtenSince(f.siblings(), since), left)
	if dup != nil {
		since = dup.mtime
		f.chain = slices.Insert(f.chain, i, dup)
		i++
	}
	e.addCopies(f, i, since) // it may have been truncated again since
}

// addCopies puts copies of chain[i], made since t and unread, before it; those
// that are still being packed follow later. A copy of what the file holds now is
// none of them: that is read from the file.
func (e *engine) addCopies(f *follower, i int, t time.Time) {
	s := f.chain[i]
	s.expect(s.head())
	e.insert(f, i, func() { e.addMissed(f, s, t) })
}

// remove gives up chain[i] because of why, and remembers how far it was read in case its
// writer comes back to it.
func (e *engine) remove(f *follower, i int, why fileEvent) {
	s := f.chain[i]
	e.step(s, why)
	if half := s.half(); half > 0 && i < len(f.chain)-1 {
		e.report(f.path, f.note("%s ends with an incomplete line of %d bytes, which is ignored", s.path, half))
	}
	if s.packed == nil {
		delete(e.byFile, s.fileID)
	}
	for id := range e.closedAt {
		if len(e.closedAt) < maxClosed {
			break
		}
		delete(e.closedAt, id)
	}
	p := s.pos()
	if s.packed == nil {
		e.closedAt[s.fileID] = p
	}
	f.remember(p)
	s.close()
	f.chain = slices.Delete(f.chain, i, i+1)
}

// maxClosed bounds how many files are remembered after they were closed.
const maxClosed = 1024

// fail gives up chain[i] after an error. The file that the name leads to is
// opened again with the next sweep; the rest of a rotated one is lost.
func (e *engine) fail(f *follower, i int, err error) {
	s := f.chain[i]
	named := i == len(f.chain)-1 && s.packed == nil && f.why == nil
	switch {
	case !named:
		e.report(f.path, f.note("reading %s: %w: the rest of it may be lost", s.path, err))
	case f.failure != err.Error():
		e.report(f.path, fmt.Errorf("reading: %w", err))
	}
	if named {
		f.leadsTo(unreadable, err)
		f.failure = err.Error()
	}
	e.remove(f, i, couldNotRead)
}

// retire gives up the files of f that were rotated away, were read to their
// end, and have not grown for a while.
func (e *engine) retire(f *follower) {
	now := time.Now()
	for i := len(f.chain) - 1; i >= 0; i-- {
		s := f.chain[i]
		if i == len(f.chain)-1 && f.why == nil || s.packed != nil || !s.atEnd {
			continue
		}
		quiet := e.opts.Quiet
		if s.links == 0 {
			quiet = min(quiet, deletedQuiet)
		}
		if now.Sub(s.silentSince()) >= quiet {
			e.remove(f, i, stayedQuiet)
		}
	}
}

// noteCrowd says, once, that rotated files were closed that are written to.
func (e *engine) noteCrowd(f *follower) {
	if f.crowdNoted {
		return
	}
	f.crowdNoted = true
	e.report(f.path, f.note("programs still write to more than %d rotated files: the others are read about a second late, and lines written shortly before a file is deleted may be lost", maxOlder))
}

// bound gives up files over maxOlder that were read to their end, those first
// that did not grow for the longest time: a writer that hears of rotations
// late may be many of them behind, and is known by what it writes.
func (e *engine) bound(f *follower) {
	for len(f.chain) > maxOlder+1 {
		i := f.stalest()
		if i < 0 {
			return
		}
		if f.chain[i].state == late {
			e.noteCrowd(f)
		}
		f.crowded = time.Now()
		e.remove(f, i, wasTooMany)
	}
}
