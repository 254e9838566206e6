package source

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// packing is a compression format, known by the first bytes of a file.
type packing struct {
	name  string
	magic []byte
	open  func(io.Reader) (io.Reader, func(), error)
}

// maxWindow bounds the memory that a zstd file can ask for; what an xz file does
// is up to 4 GiB by its format, of which only what is written to is taken.
const maxWindow = 64 << 20

// The magic numbers: RFC 1952 section 2.3.1, RFC 8878 section 3.1.1 and, for
// the skippable frame that pzstd begins with, 3.1.2, the xz file format 2.1.1.1,
// and bzip2's "BZh" with the block size that follows.
var packings = []packing{
	{"gzip", []byte{0x1f, 0x8b, 8}, openGzip},
	{"zstd", []byte{0x28, 0xb5, 0x2f, 0xfd}, openZstd},
	{"zstd", []byte{0x50, 0x2a, 0x4d, 0x18}, openZstd},
	{"xz", []byte{0xfd, '7', 'z', 'X', 'Z', 0}, openXz},
	{"bzip2", []byte("BZh"), openBzip2},
}

// magicMax is the length of the longest magic number.
const magicMax = 6

func openGzip(r io.Reader) (io.Reader, func(), error) {
	z, err := gzip.NewReader(r)
	return z, func() {}, err
}

func openZstd(r io.Reader) (io.Reader, func(), error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

func openXz(r io.Reader) (io.Reader, func(), error) {
	// This is the least that is taken, not the most.
	z, err := xz.ReaderConfig{DictCap: lzma.MinDictCap}.NewReader(r)
	return z, func() {}, err
}

func openBzip2(r io.Reader) (io.Reader, func(), error) {
	return bzip2.NewReader(r), func() {}, nil
}

// packingOf returns how a file that begins with head is compressed, nil when it
// is not.
func packingOf(head []byte) *packing {
	for i := range packings {
		if bytes.HasPrefix(head, packings[i].magic) {
			return &packings[i]
		}
	}
	return nil
}

// mayBePacked reports whether a file that holds only head so far may become a
// compressed one: head is shorter than a magic number and agrees with it.
func mayBePacked(head []byte) bool {
	return slices.ContainsFunc(packings, func(p packing) bool {
		return len(head) < len(p.magic) && bytes.HasPrefix(p.magic, head)
	})
}

// unpacked reads a file, unpacked when it is compressed.
type unpacked struct {
	io.Reader
	packed bool
	gzip   bool
	free   func()
	file   io.Closer
}

// fd is the descriptor of a file that openUnpacked opened.
func (u *unpacked) fd() int {
	if f, ok := u.file.(*os.File); ok {
		return int(f.Fd())
	}
	return -1
}

func (u *unpacked) Close() error {
	u.free()
	return u.file.Close()
}

// unpack returns r, unpacked when its first bytes say that it is compressed,
// whatever its name. Closing the result closes file. If r ends within these
// bytes the result ends there too, although a file may grow after that: bytes
// that were not looked at must not be taken for text.
func unpack(r io.Reader, file io.Closer) (*unpacked, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	head, err := br.Peek(magicMax)
	if err != nil && err != io.EOF {
		return nil, err
	}
	p := packingOf(head)
	if p == nil {
		u := &unpacked{Reader: br, free: func() {}, file: file}
		if err == io.EOF {
			u.Reader = bytes.NewReader(bytes.Clone(head))
		}
		return u, nil
	}
	z, free, err := p.open(br)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return &unpacked{Reader: z, packed: true, gzip: p.name == "gzip", free: free, file: file}, nil
}

// openUnpacked opens path like unpack.
func openUnpacked(path string) (*unpacked, error) { return openCounted(path, nil) }

// counted adds what is read to n.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// openCounted is openUnpacked that adds the bytes read of the file to n, if set.
func openCounted(path string, n *atomic.Int64) (*unpacked, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var r io.Reader = f
	if n != nil {
		r = counted{f, n}
	}
	u, err := unpack(r, f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return u, nil
}

// readHead reads the beginning of unpacked content, as much as a fingerprint
// covers or all there is. An error tells that it ended within its packing.
func readHead(r io.Reader) ([]byte, error) {
	head := make([]byte, printMax)
	for n := 0; ; {
		m, err := r.Read(head[n:])
		n += m
		if n == len(head) || err == io.EOF {
			return head[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

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
	s := &segment{path: path, h: -1, fileInfo: info, print: printOf(head), first: head, packed: u, state: archive}
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
	s.state, s.maybePacked = replaced, true
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
