package source

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// take returns what a segment gives until there is nothing now.
func take(t testing.TB, s *segment, pool *pools) []string {
	t.Helper()
	var all []string
	for {
		b, err := s.next(pool)
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
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

// FuzzSegment writes a file piece by piece: what is read must not depend on
// where the pieces end, and be what a stream of the same bytes gives.
func FuzzSegment(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nhalf"), uint8(10), uint8(3))
	f.Add(bytes.Repeat([]byte("0123456789"), 60), uint8(20), uint8(7))
	f.Add([]byte("\x00\x00\n\x00a\n"), uint8(5), uint8(1))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, in []byte, limit, piece uint8) {
		limit, piece = max(limit, 1), max(piece, 1)
		path := filepath.Join(dir, "fuzz.log")
		w, err := os.Create(path)
		must(t, err)
		defer w.Close()
		s, err := openSegment(path, int(limit))
		must(t, err)
		defer s.close()
		var pool pools
		var got []string
		for rest := in; len(rest) > 0; rest = rest[min(int(piece), len(rest)):] {
			_, err := w.Write(rest[:min(int(piece), len(rest))])
			must(t, err)
			got = append(got, take(t, s, &pool)...)
		}
		want := drain(newLineReader(bytes.NewReader(in), &pool, int(limit)))
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if end := int64(bytes.LastIndexByte(in, '\n') + 1); s.off != end {
			t.Fatalf("the offset is %d, want %d", s.off, end)
		}
	})
}

func TestSegmentNoticesATruncation(t *testing.T) {
	long := strings.Repeat("a line that was read\n", 100)
	for _, tt := range []struct {
		name, now string
		want      error
	}{
		{"grown", long + "more\n", nil},
		{"emptied", "", errTruncated},
		{"shorter", long[:100], errTruncated},
		{"of the same size", strings.ToUpper(long), errTruncated},
		{"grown past", strings.ToUpper(long) + "more\n", errTruncated},
		{"changed after the fingerprint", long[:printMax] + "X" + long[printMax+1:], nil},
	} {
		path := writeFile(t, filepath.Join(t.TempDir(), "a.log"), long)
		s, err := openSegment(path, defaultMaxLine)
		must(t, err)
		var pool pools
		take(t, s, &pool)
		must(t, os.WriteFile(path, []byte(tt.now), 0o644))
		b, err := s.next(&pool)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		if b != nil {
			b.put()
		}
		s.close()
	}
}

func TestReleasedBlocksKeepNothing(t *testing.T) {
	var pool pools
	b := pool.get(10)
	b.lines = append(b.lines, Line{Text: []byte("secret"), Entry: &Entry{}})
	batch := b.asBatch()
	batch.Release()
	if again := pool.get(10); again == b {
		if all := again.lines[:cap(again.lines)]; all[0].Text != nil || all[0].Entry != nil || len(again.lines) != 0 {
			t.Errorf("a block came back with %v", all[0])
		}
	}
	if big := pool.get(largeBlock + 1); len(big.bytes) <= largeBlock || big.home != nil {
		t.Error("a block over the limit is pooled")
	}
}

func FuzzTwinHash(f *testing.F) {
	f.Add([]byte("Nov 20 10:00:00 host sshd[7]: a message"))
	f.Add([]byte("2026-11-20T10:00:00Z host tag: m"))
	f.Fuzz(func(t *testing.T, in []byte) {
		ident, message, ok := syslogTag(in)
		if ok && !bytes.HasSuffix(in, message) {
			t.Fatalf("%q: message %q is not its end", in, message)
		}
		if bytes.ContainsAny(ident, " [") {
			t.Fatalf("%q: identifier %q", in, ident)
		}
	})
}
