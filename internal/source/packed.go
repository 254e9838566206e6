package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errUnfinished says that a compressed file ends too early to tell what it is:
// somebody is writing it.
var errUnfinished = errors.New("not yet written to its end")

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
	if err == nil && len(head) == 0 && !u.packed && isCompressedName(path) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		u.Close()
		return nil, unfinished(path, fmt.Errorf("reading %s: %w", path, err))
	}
	s := &segment{path: path, h: -1, fileInfo: info, print: printOf(head), first: head, packed: u, finished: true}
	s.stream = newLineReader(io.MultiReader(bytes.NewReader(head), u), pool, maxLine)
	return s, nil
}

// unfinished is errUnfinished when err is of a file that ends too early.
func unfinished(path string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading %s: %w", path, errUnfinished)
	}
	return err
}

// skip goes on at the offset off of a packed file's content, or at its end
// when that comes before. Nothing was read of it yet.
func (s *segment) skip(off int64) error {
	if _, err := io.CopyN(io.Discard, s.stream.r, off); err != nil && err != io.EOF {
		return err
	}
	s.off, s.stream.off, s.stream.known = off, off, off == 0
	return nil
}
