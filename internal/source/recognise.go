package source

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"slices"
)

// What a rotated file holds is told by its content alone, never by its inode:
// gzip frees the inode of the file that it replaces, and the next copy gets it.
// A position holds two fingerprints, one of the file's start and one of the last
// bytes that were read. A file that agrees with both was read up to there.

const (
	// maxPast bounds how many closed files of a log are remembered, and
	// maxPastSaved how many of them, the last ones, over a restart.
	maxPast, maxPastSaved = 64, 16
	// listTries is how often the rotated files are listed again because their
	// names changed meanwhile.
	listTries = 10
)

// match is how a file's content compares to a position.
type match int

const (
	differs match = iota // another file
	agrees               // it was read up to the position
	shorter              // it begins the same and ends before the position
)

// matchPlain compares the open file to p.
func (s *segment) matchPlain(p Pos) match {
	start, last := fingerprint{p.Print, p.PLen}, fingerprint{p.Tail, p.TailLen}
	if p.PLen == 0 && p.Offset > 0 || !start.begins(s.head()) {
		return differs
	}
	if s.size < p.Offset {
		return shorter
	}
	var t tail
	if t.load(s.h, p.Offset); !t.ends(last) {
		return differs
	}
	return agrees
}

// seek compares s, just opened, to p. When they agree it goes on there. A packed
// file that does not agree is used up and must be closed.
func (s *segment) seek(p Pos) (match, error) {
	if s.packed == nil {
		m := s.matchPlain(p)
		if m == agrees {
			s.resume(p.Offset, p.Line)
			s.setPrint(s.head()[:p.PLen])
		}
		return m, nil
	}
	if p.PLen == 0 || !(fingerprint{p.Print, p.PLen}).begins(s.first) {
		return differs, nil
	}
	if s.contentSize() == p.Offset {
		s.stream.err = io.EOF // saves unpacking all of it
		s.stream.goOn(p.Offset)
		s.off, s.known = p.Offset, false
		return agrees, nil
	}
	m, err := s.stream.seek(p.Offset, fingerprint{p.Tail, p.TailLen})
	if m == agrees {
		s.off, s.known = p.Offset, p.Offset == 0
	}
	return m, err
}

// recognise compares s, a rotated file just opened at its start, with all that
// was read of f. It returns the file, at what is unread of it, or nil when that
// is nothing; s is closed then.
func (e *engine) recognise(f *follower, s *segment) (*segment, error) {
	for _, o := range f.chain {
		if o.fileID == s.fileID || o.isCopiedBy(s) {
			s.close()
			return nil, nil
		}
	}
	head := s.head()
	if len(head) < printMax && bytes.HasPrefix(f.truncatedHead, head) {
		s.close()
		return nil, nil
	}
	past := slices.DeleteFunc(slices.Clone(f.past), func(p Pos) bool {
		return p.PLen == 0 || !(fingerprint{p.Print, p.PLen}).begins(head)
	})
	slices.SortStableFunc(past, func(a, b Pos) int { return cmp.Compare(b.Offset, a.Offset) })
	for i, p := range past {
		if i > 0 {
			var err error
			if s, err = s.again(e.pool, f.maxLine); err != nil {
				return nil, err
			}
		}
		m, err := s.seek(p)
		switch {
		case err != nil:
			s.close()
			return nil, fmt.Errorf("reading %s: %w", s.path, err)
		case m == shorter || m == agrees && s.isRead():
			s.close()
			return nil, nil
		case m == agrees:
			return s, nil
		}
	}
	if len(past) > 0 {
		return s.again(e.pool, f.maxLine)
	}
	return s, nil
}

// again opens a packed file at its start again, for seek used it up. It fails
// with fs.ErrNotExist when the name leads to another file by now.
func (s *segment) again(pool *pools, maxLine int) (*segment, error) {
	if s.packed == nil {
		return s, nil
	}
	defer s.close()
	o, err := openPacked(s.path, pool, maxLine)
	if err == nil && o.fileID != s.fileID {
		o.close()
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// isRead reports whether nothing follows the offset.
func (s *segment) isRead() bool {
	if s.packed != nil {
		return s.stream.err != nil
	}
	return s.size <= s.off
}

// isCopiedBy reports whether o, a rotated file just opened, holds what s is
// open for: it is read from s. If s was truncated since, which nobody noticed
// yet, its position agrees with the copy, and the truncation finds it.
func (s *segment) isCopiedBy(o *segment) bool {
	head := o.head()
	if p := s.pos(); p.PLen > 0 && p.begins(head) {
		return o.packed != nil || o.matchPlain(p) != differs
	}
	mine := s.head()
	n := min(len(head), len(mine))
	return n > 0 && bytes.Equal(head[:n], mine[:n]) && (s.off == 0 || len(head) < len(mine))
}

func (p Pos) begins(head []byte) bool { return (fingerprint{p.Print, p.PLen}).begins(head) }

// remember keeps where a file was read to that is closed, or was there first.
func (f *follower) remember(p Pos) {
	if p.PLen == 0 {
		return // it was empty: all that comes into it is new
	}
	p.Older, p.Twin, p.Dir, p.Unread, p.Closed = nil, "", "", 0, true
	f.past = slices.DeleteFunc(f.past, func(o Pos) bool {
		return o.Print == p.Print && o.PLen == p.PLen && o.Offset <= p.Offset && o.Ino == p.Ino
	})
	f.past = append(f.past, p)
	f.past = f.past[max(0, len(f.past)-maxPast):]
	f.pastPos = nil
	for i := max(0, len(f.past)-maxPastSaved); i < len(f.past); i++ {
		next := f.past[i]
		next.Older = f.pastPos
		f.pastPos = &next
	}
}

// hasGrown reports whether sib is a closed file that was written to since.
func (f *follower) hasGrown(sib sibling) bool {
	return slices.ContainsFunc(f.past, func(p Pos) bool {
		return sib.fileID == fileID{p.Dev, p.Ino} && sib.size > p.Offset && !isCompressedName(sib.path)
	})
}

// resumeAt goes on at p in s when s is the file of p, and reports whether it is.
func (e *engine) resumeAt(s *segment, p Pos) bool {
	if s.packed != nil || s.fileID != (fileID{p.Dev, p.Ino}) {
		return false
	}
	m, _ := s.seek(p)
	return m == agrees
}

// locate finds the file of p among the rotated ones and opens it there: by its
// inode and content, so that it can be followed further, else by its content
// alone. When all of a file's content was read, it is not opened.
func (e *engine) locate(f *follower, list []sibling, p Pos) (s *segment, found bool) {
	for range listTries {
		s, found, stale := e.locateListed(f, list, p)
		if found || !stale {
			return s, found
		}
		list = f.siblings()
	}
	return nil, false
}

// locateListed is locate in a list, and reports whether that is stale.
func (e *engine) locateListed(f *follower, list []sibling, p Pos) (s *segment, found, stale bool) {
	for _, sib := range list {
		if sib.fileID != (fileID{p.Dev, p.Ino}) || e.byFile[sib.fileID] != nil || isCompressedName(sib.path) {
			continue
		}
		s, err := openRotated(sib.path, e.pool, f.maxLine)
		if err != nil {
			gone := errors.Is(err, fs.ErrNotExist)
			if !gone && !errors.Is(err, errUnfinished) {
				e.report(f.path, err)
			}
			stale = stale || gone
			continue
		}
		if e.resumeAt(s, p) {
			return s, true, false
		}
		stale = stale || s.fileID != sib.fileID
		s.close()
	}
	if stale {
		return nil, false, true
	}
	return e.copyListed(f, list, p)
}

// findCopy opens, at p, the newest file of list that has the content of p, nil
// when there is none or nothing in it is unread.
func (e *engine) findCopy(f *follower, list []sibling, p Pos) (s *segment, found bool) {
	for range listTries {
		s, found, stale := e.copyListed(f, list, p)
		if found || !stale {
			return s, found
		}
		list = f.siblings()
	}
	return nil, false
}

// copyListed is findCopy in a list, and reports whether that is stale. While a
// file is being packed there are two copies, of which only the plain one is
// sure to be whole.
func (e *engine) copyListed(f *follower, list []sibling, p Pos) (s *segment, found, stale bool) {
	if p.PLen == 0 {
		return nil, false, false
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
		m, err := s.seek(p)
		switch {
		case err != nil:
			e.report(f.path, fmt.Errorf("reading %s: %w", sib.path, err))
		case m == agrees:
			return s, true, false
		}
		found = found || m == shorter && err == nil
		s.close()
	}
	return nil, found, stale
}

// goOn takes a stream for read up to off.
func (s *lineReader) goOn(off int64) { s.off, s.known = off, off == 0 }

// seek reads on to off without handing on anything, and compares what comes
// last before it.
func (s *lineReader) seek(off int64, last fingerprint) (match, error) {
	var t tail
	buf := make([]byte, largeBlock)
	for at := int64(0); at < off; {
		n, err := s.r.Read(buf[:min(off-at, int64(len(buf)))])
		t.add(buf[:n])
		at += int64(n)
		if errors.Is(err, io.EOF) && at < off {
			return shorter, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return differs, err
		}
	}
	if !t.ends(last) {
		return differs, nil
	}
	s.goOn(off)
	s.before = t
	return agrees, nil
}

const (
	// printMax is how much of a file's start its fingerprint covers.
	printMax = 1 << 10
	// tailMax is how much of what was read last is remembered.
	tailMax = 256
)

// fingerprint tells one file's content from another's by its first bytes: an
// inode is reused, and a truncated file may have grown past the old offset.
type fingerprint struct {
	hash uint64
	n    int64 // bytes covered; 0 matches everything
}

func printOf(b []byte) fingerprint {
	return fingerprint{hash: hashBytes(b), n: int64(len(b))}
}

// begins reports whether head, the start of a file, begins with the bytes
// that f covers.
func (f fingerprint) begins(head []byte) bool {
	return f.n == 0 || int64(len(head)) >= f.n && hashBytes(head[:f.n]) == f.hash
}

// tail holds the last bytes before an offset, tailMax at most. Two files whose
// starts are the same, like those that begin with one header, differ here.
type tail struct {
	n     int
	bytes [tailMax]byte
}

// add appends bytes that were read on.
func (t *tail) add(b []byte) {
	if len(b) >= tailMax {
		t.n = copy(t.bytes[:], b[len(b)-tailMax:])
		return
	}
	if keep := tailMax - len(b); t.n > keep {
		t.n = copy(t.bytes[:], t.bytes[t.n-keep:t.n])
	}
	t.n += copy(t.bytes[t.n:], b)
}

// load takes the bytes before off from r, none when they cannot be read.
func (t *tail) load(r io.ReaderAt, off int64) {
	t.n = int(min(off, tailMax))
	if _, err := r.ReadAt(t.bytes[:t.n], off-int64(t.n)); err != nil && !errors.Is(err, io.EOF) {
		t.n = 0
	}
}

func (t *tail) print() fingerprint { return printOf(t.bytes[:t.n]) }

// ends reports whether t ends with the bytes that f covers.
func (t *tail) ends(f fingerprint) bool {
	return f.n <= int64(t.n) && f.begins(t.bytes[t.n-int(f.n):t.n])
}

// hashBytes is stable over runs, machines and versions: it is kept in
// snapshots. It multiplies 64 by 64 bits and folds, eight bytes at a time.
func hashBytes(b []byte) uint64 {
	const m1, m2 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	h := uint64(len(b)) * m1
	for len(b) >= 8 {
		h = fold(h^binary.LittleEndian.Uint64(b), m1)
		b = b[8:]
	}
	var last [8]byte
	copy(last[:], b)
	return fold(h^binary.LittleEndian.Uint64(last[:]), m2)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo ^ bits.RotateLeft64(a, 32)
}
