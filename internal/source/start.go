package source

import "bytes"

// startAtEnd begins after the last whole line of the first size bytes.
func (s *segment) startAtEnd(size int64) {
	s.enc = encodingOf(s.head())
	at := s.enc.whole(min(size, s.size))
	s.resume(s.lineStart(at), 0)
	s.takePrint()
}

func (s *segment) takePrint() {
	s.setPrint(s.head())
}

// lineStart is the offset just after the last newline before at, and 0 when
// there is none. Over the line limit it looks no further and is at itself.
func (s *segment) lineStart(at int64) int64 {
	buf := make([]byte, smallBlock)
	for end := at; end > 0 && at-end <= int64(s.max); {
		from := max(0, end-int64(len(buf)))
		n, err := s.h.ReadAt(buf[:end-from], from)
		if err != nil {
			return at
		}
		if next := s.enc.lastLine(buf[:n]); next >= 0 {
			return from + int64(next)
		}
		end = from
		if end == 0 {
			return 0
		}
	}
	return at
}

// startSince begins at the first line with a stamp of at least since, found
// by bisection: logs are written in order. Lines without a stamp belong to
// the one before.
func (s *segment) startSince(since int64, stamp func([]byte) (int64, bool)) {
	s.enc = encodingOf(s.head())
	low, high := int64(0), s.enc.whole(s.size) // the line is in between, or the next stamped one
	any := func(int64) bool { return true }
	for high-low > largeBlock {
		mid := s.enc.whole(low + (high-low)/2)
		start, at, ok := s.findStamp(mid, high, stamp, any)
		if ok && at < since {
			low = start
		} else {
			high = mid
		}
	}
	start, _, ok := s.findStamp(low, s.size, stamp, func(at int64) bool { return at >= since })
	if !ok {
		start = s.lineStart(s.size)
	}
	s.resume(start, 0)
	s.takePrint()
}

// findStamp finds the first line that begins at or after off and before end and
// whose stamp is good. It reads what is in between once.
func (s *segment) findStamp(off, end int64, stamp func([]byte) (int64, bool), good func(int64) bool) (start, at int64, ok bool) {
	if off > 0 {
		off = s.nextLine(off - s.enc.unitSize())
	}
	buf := make([]byte, largeBlock)
	for off < end {
		n, err := s.h.ReadAt(buf[:min(int64(len(buf)), s.size-off)], off)
		rest := buf[:n]
		for off < end {
			i, next := s.enc.newline(rest, false)
			if i < 0 {
				break
			}
			if at, ok := stamp(bytes.TrimSuffix(s.enc.text(rest[:i]), []byte("\r"))); ok && good(at) {
				return off, at, true
			}
			off, rest = off+int64(next), rest[next:]
		}
		switch {
		case err != nil || n < len(buf) && len(rest) == n:
			return 0, 0, false
		case len(rest) == n: // the beginning of a line longer than the block
			if at, ok := stamp(s.enc.text(rest)); ok && good(at) {
				return off, at, true
			}
			off = s.nextLine(off + int64(n))
		}
	}
	return 0, 0, false
}

// nextLine is the offset just after the next newline at or after off, or the
// size.
func (s *segment) nextLine(off int64) int64 {
	buf := make([]byte, smallBlock)
	for off < s.size {
		n, err := s.h.ReadAt(buf, off)
		if i, next := s.enc.newline(buf[:n], false); i >= 0 {
			return off + int64(next)
		}
		if err != nil {
			break
		}
		off = s.enc.whole(s.h.data(off + int64(n))) // there is no newline in a hole
	}
	return s.size
}
