package source

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

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
