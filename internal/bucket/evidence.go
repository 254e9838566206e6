package bucket

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// MaxLine is how many bytes of a line Evidence keeps.
const MaxLine = 1024

// headBytes is what a line takes besides its text: the position of the line
// before, the key, the time, and the key's tag with the scope and length.
const headBytes = 40

// maxSteps bounds how far Lines looks back, lines of other keys included.
const maxSteps = 256

// Evidence remembers recent lines by key, so that a breach can show what
// filled its bucket. All lines share one ring of bytes; the newest overwrite
// the oldest. A table of chain heads, indexed by the key's hash, leads to the
// latest line of a chain and each line to the one before; keys that meet in a
// head share a chain and are told apart when it is read. Which lines are left
// may depend on the seed; nothing is decided by them. It is not safe for
// concurrent use.
type Evidence struct {
	ring  []byte
	heads []uint64
	next  uint64 // position of the next line: counted from 1, never reused
	seed  Seed
}

// NewEvidence makes a store of so many bytes (0: 4 MiB; at least 64 KiB),
// rounded up to a power of two, and an eighth more for the heads.
func NewEvidence(size int, seed uint64) *Evidence {
	if size <= 0 {
		size = 4 << 20
	}
	size = 1 << bits.Len(uint(max(size, 1<<16)-1))
	e := &Evidence{ring: make([]byte, size), heads: make([]uint64, size/64), seed: NewSeed(seed)}
	e.next = 8 // so that 0 is no position
	return e
}

// Bytes is the memory the store takes once it is full.
func (e *Evidence) Bytes() int { return len(e.ring) + 8*len(e.heads) }

// Add remembers a line of k, or its first MaxLine bytes. Lines of one key are
// kept apart by scope (below 1<<24), such as the number of a rule.
func (e *Evidence) Add(k Key, scope uint32, at int64, line []byte) {
	if k.tag == 0 {
		return
	}
	line = line[:min(len(line), MaxLine)]
	size := uint64(headBytes+len(line)+7) &^ 7
	pos, mask := e.next, uint64(len(e.ring)-1)
	if pos&mask+size > uint64(len(e.ring)) {
		pos = (pos | mask) + 1 // a line is never torn over the end
	}
	head := &e.heads[e.slot(k, scope)]
	b := e.ring[pos&mask:]
	binary.LittleEndian.PutUint64(b, *head)
	binary.LittleEndian.PutUint64(b[8:], k.hi)
	binary.LittleEndian.PutUint64(b[16:], k.lo)
	binary.LittleEndian.PutUint64(b[24:], uint64(at))
	binary.LittleEndian.PutUint64(b[32:], meta(k, scope)|uint64(len(line)))
	copy(b[headBytes:], line)
	*head, e.next = pos, pos+size
}

// meta is the tag, the scope and room for a length.
func meta(k Key, scope uint32) uint64 {
	return uint64(k.tag)<<56 | uint64(scope&(1<<24-1))<<32
}

func (e *Evidence) slot(k Key, scope uint32) int {
	a, b := bits.Mul64(k.hi^e.seed[0], k.lo^e.seed[1]^meta(k, scope))
	p, _ := bits.Mul64((a^b)*e.seed[1], uint64(len(e.heads)))
	return int(p)
}

// live reports whether the line at pos is whole. The one that would be
// overwritten next is given up early: padding at the end may have taken it.
func (e *Evidence) live(pos uint64) bool {
	return pos != 0 && pos < e.next && e.next-pos <= uint64(len(e.ring))
}

// Line is a line as it was added, perhaps shortened.
type Line struct {
	At   int64
	Text string
}

// Lines gives the latest lines of k and scope, at most so many, the oldest
// first. partial tells that fewer are shown than the bucket held.
func (e *Evidence) Lines(k Key, scope uint32, most, held int) (lines []Line, partial bool) {
	mask := uint64(len(e.ring) - 1)
	pos := uint64(0)
	if k.tag != 0 {
		pos = e.heads[e.slot(k, scope)]
	}
	for range maxSteps {
		if len(lines) >= min(most, held) || !e.live(pos) {
			break
		}
		b := e.ring[pos&mask:]
		m := binary.LittleEndian.Uint64(b[32:])
		if m>>32 == meta(k, scope)>>32 && binary.LittleEndian.Uint64(b[8:]) == k.hi && binary.LittleEndian.Uint64(b[16:]) == k.lo {
			text := b[headBytes : headBytes+int(uint32(m))]
			lines = append(lines, Line{int64(binary.LittleEndian.Uint64(b[24:])), string(text)})
		}
		pos = binary.LittleEndian.Uint64(b)
	}
	slices.Reverse(lines)
	return lines, len(lines) < held
}

const evidenceVersion = 1

// AppendBinary appends the remembered lines to b, the oldest first.
func (e *Evidence) AppendBinary(b []byte) []byte {
	b = append(b, evidenceVersion)
	var at []uint64
	for _, pos := range e.heads {
		for e.live(pos) {
			at = append(at, pos)
			pos = binary.LittleEndian.Uint64(e.ring[pos&uint64(len(e.ring)-1):])
		}
	}
	slices.Sort(at)
	b = binary.AppendUvarint(b, uint64(len(at)))
	for _, pos := range at {
		rec := e.ring[pos&uint64(len(e.ring)-1):]
		n := binary.LittleEndian.Uint32(rec[32:])
		b = append(b, rec[8:headBytes+int(n)]...)
	}
	return b
}

// Restore forgets all lines, adds those that AppendBinary wrote at the
// beginning of b and returns what follows. On an error nothing is remembered.
func (e *Evidence) Restore(b []byte) (rest []byte, err error) {
	clear(e.heads)
	e.next = 8
	r := reader{b: b}
	version := r.byte()
	for range r.count(headBytes - 8) {
		k := Key{hi: r.uint64(), lo: r.uint64()}
		at, m := int64(r.uint64()), r.uint64()
		k.tag = uint8(m >> 56)
		if uint32(m) > MaxLine || k.tag == 0 {
			r.bad = true
			break
		}
		if text := r.take(int(uint32(m))); !r.bad {
			e.Add(k, uint32(m>>32)&(1<<24-1), at, text)
		}
	}
	if r.bad || version != evidenceVersion {
		clear(e.heads)
		e.next = 8
		return nil, errShort
	}
	return r.b, nil
}
