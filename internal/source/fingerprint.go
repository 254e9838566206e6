package source

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

// printMax is how much of a file's start its fingerprint covers.
const printMax = 1 << 10

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

// matches is begins for a file.
func (f fingerprint) matches(r io.ReaderAt) bool {
	head := make([]byte, min(f.n, printMax))
	n, err := r.ReadAt(head, 0)
	return (err == nil || errors.Is(err, io.EOF)) && f.begins(head[:n])
}

// isOf reports whether a whole file whose first printMax bytes are head has
// just this fingerprint.
func (f fingerprint) isOf(head []byte) bool {
	return f.n > 0 && f.n == int64(len(head)) && hashBytes(head) == f.hash
}

// takePrint reads the fingerprint of r.
func takePrint(r io.ReaderAt) (fingerprint, error) {
	buf := make([]byte, printMax)
	n, err := r.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fingerprint{}, err
	}
	return printOf(buf[:n]), nil
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
