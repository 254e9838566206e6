package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// errUnfinished says that a compressed file ends too early to tell what it is:
// somebody is writing it.
var errUnfinished = errors.New("not completely written yet")

// openPacked opens a finished file, compressed or not, at its start.
func openPacked(path string, pool *pools, maxLine int) (*segment, error) {
	u, err := openUnpacked(path)
	if err != nil {
		return nil, unfinished(path, err)
	}
	info, err := handle(u.fd()).stat()
	if err != nil {
		u.Close()
		return nil, err
	}
	head, err := readHead(u)
	if err == nil && !u.packed && isCompressedName(path) && mayBePacked(head) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		u.Close()
		return nil, unfinished(path, fmt.Errorf("reading %s: %w", path, err))
	}
	s := &segment{path: path, h: -1, fileInfo: info, print: printOf(head), first: head, packed: u, finished: true}
	s.stream = newLineReader(io.MultiReader(bytes.NewReader(head), u), pool, maxLine)
	s.stream.enc = encodingOf(head)
	return s, nil
}

// openRotated opens a rotated file at its start. Its content decides whether it
// is unpacked: some rotations leave a compressed file under a plain name.
func openRotated(path string, pool *pools, maxLine int) (*segment, error) {
	if isCompressedName(path) {
		return openPacked(path, pool, maxLine)
	}
	s, err := openSegment(path, maxLine)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	switch head := s.head(); {
	case packingOf(head) != nil:
		s.close()
		return openPacked(path, pool, maxLine)
	case len(head) > 0 && mayBePacked(head):
		s.close()
		return nil, unfinished(path, io.ErrUnexpectedEOF)
	}
	s.maybePacked = true
	return s, nil
}

// unfinished is errUnfinished when err is of a file that ends too early.
func unfinished(path string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading %s: %w", path, errUnfinished)
	}
	return err
}

// contentSize is how many bytes a gzip file holds when it is unpacked, by its
// trailer (RFC 1952, ISIZE, modulo 2^32), -1 for other files. One that is not yet
// written to its end, or has several members, says something else.
func (s *segment) contentSize() int64 {
	var last [4]byte
	h := handle(s.packed.fd())
	if !s.packed.gzip || s.size < 18 {
		return -1
	}
	if _, err := h.ReadAt(last[:], s.size-4); err != nil {
		return -1
	}
	return int64(binary.LittleEndian.Uint32(last[:]))
}
