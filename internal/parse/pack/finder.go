package pack

// finder finds which of many literals occur in a line (Wu and Manber, "A fast
// algorithm for multi-pattern searching", 1994): it looks at the three bytes
// at the end of a window as wide as the shortest literal, and moves on by as
// far as no literal can begin. Time is bounded by the line's length times the
// literals that share three bytes at one place; memory by 24 kB and the
// literals.
type finder struct {
	width int
	shift [hashSize]uint8
	heads [hashSize]int16 // first literal of the bucket, plus 1
	next  []int16         // next literal of the same bucket, plus 1
	lits  []string
}

const (
	hashSize   = 1 << hashBits
	hashBits   = 13
	minLiteral = 3
	maxWidth   = 16
)

func hash3(a, b, c byte) uint32 {
	return (uint32(a)<<16 | uint32(b)<<8 | uint32(c)) * 0x9e3779b1 >> (32 - hashBits)
}

// newFinder prepares lits, none shorter than minLiteral.
func newFinder(lits []string) *finder {
	f := &finder{width: maxWidth, lits: lits, next: make([]int16, len(lits))}
	for _, l := range lits {
		f.width = min(f.width, len(l))
	}
	for i := range f.shift {
		f.shift[i] = uint8(f.width - 2)
	}
	for i, l := range lits {
		f.add(int16(i), l)
	}
	return f
}

func (f *finder) add(i int16, l string) {
	for j := 2; j < f.width; j++ {
		h := hash3(l[j-2], l[j-1], l[j])
		f.shift[h] = min(f.shift[h], uint8(f.width-1-j))
	}
	last := hash3(l[f.width-3], l[f.width-2], l[f.width-1])
	f.next[i], f.heads[last] = f.heads[last], i+1
}

// search walks one line.
type search struct {
	f     *finder
	line  []byte
	pos   int   // end of the next window to look at
	start int   // of the window whose bucket is being compared
	lit   int16 // next literal of that bucket, plus 1
}

func (f *finder) search(line []byte) search {
	return search{f: f, line: line, pos: f.width - 1}
}

// next returns the index of a literal that occurs, -1 when there are no more.
// The same literal is returned once for each time that it occurs.
func (s *search) next() int {
	for {
		for s.lit > 0 {
			i := int(s.lit - 1)
			s.lit = s.f.next[i]
			l := s.f.lits[i]
			if len(s.line)-s.start >= len(l) && string(s.line[s.start:s.start+len(l)]) == l {
				return i
			}
		}
		if !s.advance() {
			return -1
		}
	}
}

// advance moves to the next window that some literal may begin.
func (s *search) advance() bool {
	f, line, pos := s.f, s.line, s.pos
	for pos < len(line) {
		h := hash3(line[pos-2], line[pos-1], line[pos])
		d := int(f.shift[h])
		if d == 0 {
			s.pos, s.start, s.lit = pos+1, pos-f.width+1, f.heads[h]
			return true
		}
		pos += d
	}
	s.pos = pos
	return false
}
