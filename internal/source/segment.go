package source

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// segment is one file in the history of a log: the current one, one that was
// rotated away and may still be written to, or one that is finished.
type segment struct {
	path string // where it was opened
	h    handle // of a plain file; -1 when packed
	fileInfo
	print fingerprint
	start []byte // what print covers, of a plain file

	// scanned bytes after off hold no newline: a half line, which is read
	// again when its end is there, so that nothing is kept of it.
	off, scanned int64
	tail         tail // the bytes before off
	splitter

	packed *unpacked // of a compressed file, with its reader
	stream *lineReader
	first  []byte // of a packed file: its content's beginning

	cutCounted int64 // of the cut lines, those in the status
	// maybePacked: it was found under a rotated name, when it held nothing that
	// shows whether it is text.
	maybePacked bool

	holed     bool      // it was truncated, and may begin with a hole
	empty     bool      // it was, when it was looked at, and nothing was read since
	emptyAt   time.Time // when it was last written to then
	atEnd     bool
	seen      bool      // at the end, and not changed since without its time showing it
	grown     time.Time // when it was last written to
	state     fileState // changed by engine.step alone
	rotatedAt time.Time // when it lost its name
	wake      *waker
}

// errTruncated says that a file is not what was read before: it shrank, or
// its beginning changed.
var errTruncated = errors.New("truncated")

// errRefilled says that a file that was empty was written to since. If that was
// truncated away, unseen, only a copy of it shows.
var errRefilled = errors.New("empty and written to")

// errPacked says that a file that was opened as text is compressed.
var errPacked = errors.New("compressed")

func openSegment(path string, maxLine int) (*segment, error) {
	h, info, err := openFile(path)
	if err != nil {
		return nil, err
	}
	s := &segment{path: path, h: h, fileInfo: info, state: newest, splitter: splitter{max: maxLine, known: true}}
	s.grown = s.writtenAt()
	// It may be filled, copied and truncated before it is read for the first time.
	s.empty, s.emptyAt = info.size == 0, info.mtime
	return s, nil
}

// writtenAt is when the file was last written to. It is not when that was seen:
// a copy that keeps the file's times (cp -p) must not look older.
func (s *segment) writtenAt() time.Time {
	if now := time.Now(); now.Before(s.mtime) {
		return now
	}
	return s.mtime
}

// head reads the beginning of the file, as much as a fingerprint covers,
// whatever was read of it.
func (s *segment) head() []byte {
	if s.packed != nil {
		return s.first
	}
	b := make([]byte, printMax)
	n, _ := s.h.ReadAt(b, 0)
	return b[:n]
}

// close gives up the file. It must not be used afterwards.
func (s *segment) close() {
	if s.wake != nil {
		s.wake.close()
	}
	if s.packed != nil {
		s.packed.Close()
		return
	}
	s.h.Close()
}

// resume sets the offset, and the number of the line before it.
func (s *segment) resume(off, line int64) {
	s.resumeAfter(off)
	s.enc = encodingOf(s.head())
	s.number, s.known = line, line > 0 || off == 0
}

// restart begins again at the start, after a truncation. A writer that does
// not append leaves a hole before what it writes next, which read skips.
func (s *segment) restart() {
	s.resume(0, 0)
	s.setPrint(nil)
	s.holed, s.empty = true, true
}

// skipNULs is the offset of the first byte from off on that is not NUL.
func (s *segment) skipNULs(pool *pools, off int64) int64 {
	buf := pool.head()
	defer pool.heads.Put(buf)
	for {
		n, _ := s.h.ReadAt(buf[:], off)
		rest := bytes.TrimLeft(buf[:n], "\x00")
		off += int64(n - len(rest))
		if len(rest) > 0 || n == 0 {
			return off
		}
		off = s.h.data(off)
	}
}

// expect notes how a file begins of which nothing was read yet: if it begins
// otherwise when it is read, it was truncated in between.
func (s *segment) expect(head []byte) {
	if s.packed == nil && s.off == 0 && s.print.n == 0 {
		s.setPrint(head)
	}
}

// setPrint takes head for the start of the file, at most printMax bytes.
func (s *segment) setPrint(head []byte) {
	s.print, s.start = fingerprint{}, append(s.start[:0], head...)
	if len(head) > 0 {
		s.print = printOf(head)
	}
}

// pos is where the segment was read to.
func (s *segment) pos() Pos {
	t := &s.tail
	if s.stream != nil {
		t = &s.stream.before
	}
	last := t.print()
	p := Pos{Dev: s.dev, Ino: s.ino, Print: s.print.hash, PLen: s.print.n, Offset: s.off, Tail: last.hash, TailLen: last.n}
	if s.known {
		p.Line = s.number
	}
	return p
}

// silentSince is when a file was rotated, or last grew after that.
func (s *segment) silentSince() time.Time {
	if s.rotatedAt.After(s.grown) {
		return s.rotatedAt
	}
	return s.grown
}

// unreadSince is when s, of which nothing was handed on, was last written to,
// and zero when there is nothing more in it to read.
func (s *segment) unreadSince() time.Time {
	if s.packed != nil {
		return s.mtime
	}
	if info, err := s.h.stat(); err == nil && info.size != s.scanned {
		return info.mtime
	}
	return time.Time{}
}

// half is how many bytes follow the last newline, at the end.
func (s *segment) half() int64 {
	if s.stream != nil {
		return s.stream.half()
	}
	return s.scanned
}

// lag is how many bytes are there and not handed on.
func (s *segment) lag() int64 {
	if s.packed != nil {
		return 0
	}
	return max(0, s.size-s.off)
}

// next returns the next lines, nil when there are none now, errTruncated when
// the file must be read from its start, and io.EOF at the end of a packed one.
func (s *segment) next(pool *pools) (*block, error) {
	if s.packed != nil {
		b, err := s.stream.next()
		s.off, s.number, s.known = s.stream.off, s.stream.number, s.stream.known
		s.cut, s.atEnd = s.stream.cut, err != nil
		return b, err
	}
	info, err := s.h.stat()
	if err != nil {
		return nil, err
	}
	grew, shrank := info.size != s.size, info.size < s.size
	if !grew && s.atEnd && s.seen && info.mtime.Equal(s.mtime) {
		s.fileInfo = info
		return nil, nil // as it was left
	}
	s.fileInfo, s.seen = info, false
	if s.size < s.off || shrank {
		return nil, errTruncated // also if nothing was read of it yet
	}
	if s.refilled() {
		return nil, errRefilled
	}
	b, err := s.read(pool)
	if err != nil {
		return nil, err
	}
	// A change within the kernel's clock tick would not show in its time.
	s.atEnd, s.seen = b == nil, b == nil && time.Since(s.mtime) > clockTick
	if grew {
		s.grown = s.writtenAt() // not when truncated: a copy is younger than this
	}
	return b, nil
}

// refilled reports whether an empty file was written to since this was last
// asked.
func (s *segment) refilled() bool {
	if s.off > 0 || s.print.n > 0 {
		s.empty = false
		return false
	}
	was := s.empty
	s.empty = was || s.size == 0
	if was && s.mtime.Equal(s.emptyAt) {
		return false
	}
	s.emptyAt = s.mtime
	return was
}

// read reads one block and cuts it. What was read counts only if the file
// began as before when it was read: it may have been truncated and have grown
// past the offset.
func (s *segment) read(pool *pools) (*block, error) {
	long := 0 // how much the next line takes, once that is known
	if s.scanned > 0 {
		end, next, err := s.findNewline(pool)
		if err != nil || end < 0 {
			return nil, err
		}
		if end-s.off > int64(s.max) {
			return s.readCut(pool, end, next)
		}
		long = int(next - s.off)
	}
	b := pool.get(max(s.blockSize(), long))
	n, err := s.h.ReadAt(b.bytes, s.off)
	if err != nil && err != io.EOF {
		b.put()
		return nil, err
	}
	if s.off == 0 && s.maybePacked && packingOf(b.bytes[:n]) != nil {
		b.put()
		return nil, errPacked // decided by the very bytes that would be handed on
	}
	if s.off == 0 {
		s.enc = encodingOf(b.bytes[:n])
	}
	if s.off == 0 && s.holed && n > 0 && b.bytes[0] == 0 && s.enc == utf8Text {
		b.put()
		s.resumeAfter(s.skipNULs(pool, 0))
		s.takePrint()
		return s.read(pool)
	}
	if s.off == 0 && s.print.n == 0 {
		s.setPrint(b.bytes[:min(n, printMax)])
	} else if err := s.verify(pool, int64(n)); err != nil {
		b.put()
		return nil, err
	}
	lines, used := s.split(b.bytes[:n], b.lines)
	b.lines = lines
	s.tail.add(b.bytes[:used])
	s.off += int64(used)
	s.scanned = s.enc.whole(int64(n - used))
	if used > 0 {
		return b, nil
	}
	b.put()
	if n == len(b.bytes) {
		return s.read(pool)
	}
	return nil, nil
}

// blockSize is a size that fits what is there to read.
func (s *segment) blockSize() int {
	if s.size-s.off <= smallBlock {
		return smallBlock
	}
	return largeBlock
}

// findNewline looks for the end of the half line and returns its offset and that
// of the next line, -1 when it is not there yet.
func (s *segment) findNewline(pool *pools) (end, next int64, err error) {
	b := pool.get(int(min(max(s.size-s.off-s.scanned, 1), largeBlock)))
	defer b.put()
	for {
		n, err := s.h.ReadAt(b.bytes, s.off+s.scanned)
		if err != nil && err != io.EOF {
			return -1, -1, err
		}
		from := s.off + s.scanned
		if at, after := s.enc.newline(b.bytes[:n], false); at >= 0 {
			return from + int64(at), from + int64(after), nil
		}
		if err := s.verify(pool, s.scanned+int64(n)); err != nil {
			return -1, -1, err
		}
		s.scanned = s.enc.whole(s.scanned + int64(n))
		if n < len(b.bytes) {
			return -1, -1, nil
		}
		s.scanned = s.enc.whole(s.h.data(s.off+s.scanned) - s.off) // there is no newline in a hole
	}
}

// readCut reads the beginning of a line that ends at end and is over the limit;
// the one after it begins at next.
func (s *segment) readCut(pool *pools, end, next int64) (*block, error) {
	b := pool.get(s.max + 2)
	n, err := s.h.ReadAt(b.bytes[:min(int64(s.max+2), end-s.off)], s.off)
	if err != nil && err != io.EOF {
		b.put()
		return nil, err
	}
	if err := s.verify(pool, end-s.off); err != nil {
		b.put()
		return nil, err
	}
	text := b.bytes[:n]
	if n > 0 && text[0] == '{' && s.enc == utf8Text {
		short, err := s.squeezeTo(pool, end)
		if err != nil {
			b.put()
			return nil, err
		}
		if short != nil {
			text = short
		}
	}
	if len(text) > s.max {
		b.lines = append(b.lines, s.line(text))
	} else {
		b.lines = append(b.lines, s.shortened(text))
	}
	s.resumeAfter(next)
	return b, nil
}

// squeezeTo shortens the JSON object that ends at end, nil when that is not
// enough. It reads the line once, however long.
func (s *segment) squeezeTo(pool *pools, end int64) ([]byte, error) {
	b := pool.get(largeBlock)
	defer b.put()
	q := squeezer{max: s.max}
	for off := s.off; off < end && !q.full; {
		n, err := s.h.ReadAt(b.bytes[:min(int64(len(b.bytes)), end-off)], off)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if n == 0 {
			return nil, errTruncated
		}
		q.add(b.bytes[:n])
		off += int64(n)
	}
	short, ok := q.line()
	if !ok {
		return nil, nil
	}
	return bytes.TrimSuffix(short, []byte("\r")), nil
}

// resumeAfter goes on at off, which need not follow what was read before.
func (s *segment) resumeAfter(off int64) {
	s.off, s.scanned = off, 0
	s.tail.load(s.h, off)
}

// verify reports whether n bytes just read at the offset belong to the file
// that was read before, and lengthens the fingerprint as long as it is short.
func (s *segment) verify(pool *pools, n int64) error {
	buf := pool.head()
	defer pool.heads.Put(buf)
	want := s.print.n
	if want < printMax {
		want = min(s.size, printMax)
	}
	m, err := s.h.ReadAt(buf[:max(want, s.print.n)], 0)
	if err != nil && err != io.EOF {
		return err
	}
	if !s.print.begins(buf[:m]) || !s.follows(buf[:m]) {
		if s.stillOld(n) {
			return nil
		}
		return errTruncated
	}
	if int64(m) > s.print.n {
		s.setPrint(buf[:m])
	}
	return nil
}

// follows reports whether the bytes before the offset are those that were read
// there. head is the start of the file.
func (s *segment) follows(head []byte) bool {
	if s.off <= int64(len(head)) {
		return s.tail.n == 0 || bytes.Equal(head[s.off-int64(s.tail.n):s.off], s.tail.bytes[:s.tail.n])
	}
	var now tail
	now.load(s.h, s.off)
	return now.n < s.tail.n || bytes.Equal(now.bytes[now.n-s.tail.n:now.n], s.tail.bytes[:s.tail.n])
}

// stillOld reports whether the n bytes just read can only be from before a
// truncation, because the file is too short for them now.
func (s *segment) stillOld(n int64) bool {
	info, err := s.h.stat()
	return err == nil && n > 0 && info.size < s.off+n
}
