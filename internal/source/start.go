package source

import "bytes"

// startAtEnd begins after the last whole line of the first size bytes.
func (s *segment) startAtEnd(size int64) {
	at := min(size, s.size)
	s.resume(s.lineStart(at), 0)
	s.takePrint()
}

func (s *segment) takePrint() {
	if print, err := takePrint(s.h); err == nil {
		s.print = print
	}
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
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return from + int64(i) + 1
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
	low, high := int64(0), s.size // the line is in between, or at high
	for high-low > largeBlock {
		mid := low + (high-low)/2
		start, at, ok := s.stampAfter(mid, high, stamp)
		switch {
		case !ok || at >= since:
			high = mid
		default:
			low = start
		}
	}
	for low < s.size {
		start, at, ok := s.stampAfter(low, s.size, stamp)
		if !ok {
			if s.size-low <= largeBlock {
				low = s.lineStart(s.size) // what is left belongs to the line before
			}
			break
		}
		if at >= since {
			low = start
			break
		}
		low = s.nextLine(start)
	}
	s.resume(low, 0)
	s.takePrint()
}

// stampAfter finds the first stamped line that begins at or after off and
// before end, within one block.
func (s *segment) stampAfter(off, end int64, stamp func([]byte) (int64, bool)) (start, at int64, ok bool) {
	if off > 0 {
		off = s.nextLine(off - 1)
	}
	buf := make([]byte, largeBlock)
	n, _ := s.h.ReadAt(buf[:max(0, min(int64(len(buf)), s.size-off))], off)
	buf = buf[:n]
	for off < end {
		i := bytes.IndexByte(buf, '\n')
		if i < 0 {
			return 0, 0, false
		}
		if at, ok := stamp(bytes.TrimSuffix(buf[:i], []byte("\r"))); ok {
			return off, at, true
		}
		off, buf = off+int64(i)+1, buf[i+1:]
	}
	return 0, 0, false
}

// nextLine is the offset just after the next newline at or after off, or the
// size.
func (s *segment) nextLine(off int64) int64 {
	buf := make([]byte, smallBlock)
	for off < s.size {
		n, err := s.h.ReadAt(buf, off)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return off + int64(i) + 1
		}
		if err != nil {
			break
		}
		off += int64(n)
	}
	return s.size
}
