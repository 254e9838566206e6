package source

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

var readers = map[string]func(io.Reader) io.Reader{
	"at once":   func(r io.Reader) io.Reader { return r },
	"by bytes":  iotest.OneByteReader,
	"by halves": iotest.HalfReader,
	"with end":  iotest.DataErrReader,
}

// drain returns the lines of a reader, cut ones with a tilde.
func drain(r *lineReader) []string {
	var all []string
	for {
		b, err := r.next()
		if err != nil {
			return all
		}
		for _, l := range b.lines {
			text := string(l.Text)
			if l.Cut {
				text += "~"
			}
			all = append(all, text)
		}
		b.put()
	}
}

func FuzzLineReader(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nc"), uint8(3))
	f.Add(bytes.Repeat([]byte("x"), 2000), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, limit uint8) {
		limit = max(limit, 1)
		plain := newLineReader(bytes.NewReader(in), &pools{}, int(limit))
		pieces := newLineReader(iotest.HalfReader(bytes.NewReader(in)), &pools{}, int(limit))
		plain.last, pieces.last = true, true
		a, b := drain(plain), drain(pieces)
		if !slices.Equal(a, b) {
			t.Fatalf("read in pieces: %q, at once: %q", b, a)
		}
		if plain.off != int64(len(in)) || pieces.off != int64(len(in)) {
			t.Fatalf("ended at %d and %d, want %d", plain.off, pieces.off, len(in))
		}
		want := bytes.Count(in, []byte("\n"))
		if len(in) > 0 && in[len(in)-1] != '\n' {
			want++
		}
		if len(a) != want {
			t.Fatalf("got %d lines, want %d", len(a), want)
		}
	})
}
