package source

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"
)

// take returns what a segment gives until there is nothing now.
func take(t testing.TB, s *segment, pool *pools) []string {
	t.Helper()
	var all []string
	for {
		b, err := s.next(pool)
		if errors.Is(err, errRefilled) {
			continue
		}
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

// caddyLine is what Caddy writes about a request with a long header.
func caddyLine(pad string) string {
	quoted, _ := json.Marshal(pad)
	return fmt.Sprintf(`{"level":"info","ts":1795172400,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.7","headers":{"X-Pad":[%s]}},"user_id":"","status":401}`, quoted)
}

// A client that makes its line long is seen all the same, and what it wrote stays
// within its own string.
func TestLongJSONKeepsItsFields(t *testing.T) {
	forged := `","status":200,"remote_ip":"198.51.100.66","x":"`
	for _, pad := range []string{
		strings.Repeat("x", 5000) + forged, strings.Repeat(forged, 500), strings.Repeat(`\`, 20_000), strings.Repeat("ä", 9000),
		strings.Repeat("\x01", 9000), strings.Repeat("\U0001F512", 9000), strings.Repeat("x", 4095) + "\x01\x01\\\"" + strings.Repeat("x", 9000),
	} {
		line := caddyLine(pad)
		for _, packed := range []bool{false, true} {
			path := writeFile(t, filepath.Join(t.TempDir(), "access.log"), "")
			s := startStepped(t, Options{MaxLine: 8192}, Spec{File: path})
			if packed {
				must(t, os.Rename(path, path+".2"))
				pack(t, "gzip", path+".1.gz", line+"\nnext\n")
				writeFile(t, path, "")
			} else {
				appendTo(t, path, line+"\nnext\n")
			}
			s.step()
			if len(s.lines) != 2 || s.lines[1].text != "next" {
				t.Fatalf("packed %v: got %d lines", packed, len(s.lines))
			}
			var got struct {
				Request struct {
					IP      string `json:"remote_ip"`
					Headers map[string][]string
				}
				Status int
				X      string
			}
			if err := json.Unmarshal([]byte(s.lines[0].text), &got); err != nil {
				t.Fatalf("%.60q: %v", pad, err)
			}
			if got.Request.IP != "192.0.2.7" || got.Status != 401 || got.X != "" || len(s.lines[0].text) > 8192 {
				t.Errorf("%.60q: got %+v in %d bytes", pad, got.Request.IP, len(s.lines[0].text))
			}
			if kept := got.Request.Headers["X-Pad"][0]; !strings.HasPrefix(pad, strings.TrimRight(kept, "\ufffd")) {
				t.Errorf("%.60q: what is kept is not its beginning", pad)
			}
			s.closeAll()
		}
	}
}

// What is over the limit without long strings is cut.
func TestJSONOfManyShortStringsIsCut(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "access.log"), "")
	s := startStepped(t, Options{MaxLine: 8192}, Spec{File: path})
	appendTo(t, path, `{"a":[`+strings.Repeat(`"x",`, 5000)+"1]}\nnext\n")
	s.step()
	if len(s.lines) != 2 || len(s.lines[0].text) != 8192 || s.list[0].snapshot().Cut != 1 {
		t.Errorf("got %d lines, cut %d", len(s.lines), s.list[0].snapshot().Cut)
	}
}

// A line of a MiB is read whole.
func TestLineOfOneMebibyteIsWhole(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "access.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	long := strings.Repeat("x", 1<<20)
	appendTo(t, path, long[:300_000])
	s.step()
	appendTo(t, path, long[300_000:]+"\nnext\n")
	s.step()
	if len(s.lines) != 2 || s.lines[0].text != long || s.lines[1].text != "next" {
		t.Errorf("got %d lines", len(s.lines))
	}
}

func FuzzSqueeze(f *testing.F) {
	f.Add(caddyLine(strings.Repeat(`\"`, 5000)), 7)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if !json.Valid([]byte(text)) || !strings.HasPrefix(text, "{") {
			return
		}
		whole, ok := squeeze([]byte(text), 1<<20)
		if !ok || !json.Valid(whole) {
			t.Fatalf("%q became %q, %v", text, whole, ok)
		}
		q := squeezer{max: 1 << 20}
		cut = max(0, cut) % (len(text) + 1)
		q.add([]byte(text[:cut]))
		q.add([]byte(text[cut:]))
		if parts, _ := q.line(); string(parts) != string(whole) {
			t.Fatalf("in parts %q, at once %q", parts, whole)
		}
	})
}

// units is text in UTF-16 of one byte order, without a mark.
func units(o binary.AppendByteOrder, text string) (b []byte) {
	for _, u := range utf16.Encode([]rune(text)) {
		b = o.AppendUint16(b, u)
	}
	return b
}

var orders = []struct {
	name string
	enc  encoding
	binary.AppendByteOrder
}{{"little endian", utf16LE, binary.LittleEndian}, {"big endian", utf16BE, binary.BigEndian}}

// Every cut of the file into two writes, also within a character, gives the same
// lines, and positions are good for a restart.
func TestUTF16IsFollowedWhereverWritesEnd(t *testing.T) {
	const content = "\ufeffLogin failed for 'sä\U0001F512'\r\nĊ ഀ are no newlines\nlast\n"
	want := []string{"Login failed for 'sä\U0001F512'", "Ċ ഀ are no newlines", "last"}
	for _, o := range orders {
		all := units(o, content)
		for cut := 2; cut <= len(all); cut++ {
			path := writeFile(t, filepath.Join(t.TempDir(), "errorlog"), "")
			s := startStepped(t, Options{}, Spec{File: path})
			appendTo(t, path, string(all[:cut]))
			s.step()
			read := len(s.lines)
			s.want(want[:read]...)
			if saved := s.stop(); read > 0 {
				s = startStepped(t, Options{Saved: saved}, Spec{File: path})
			}
			appendTo(t, path, string(all[cut:]))
			if read == 0 {
				s = startStepped(t, Options{Saved: s.saved}, Spec{File: path})
			}
			s.step()
			s.want(want[read:]...)
			s.closeAll()
		}
	}
}

func TestUTF16IsReadAfterRotationTruncationAndFromItsEnd(t *testing.T) {
	for _, o := range orders {
		t.Run(o.name, func(t *testing.T) {
			path := writeFile(t, filepath.Join(t.TempDir(), "errorlog"), string(units(o, "\ufeffold\nhalf")))
			s := startStepped(t, Options{}, Spec{File: path})
			s.want()
			appendTo(t, path, string(units(o, " a line\none\n")))
			s.step()
			s.want("half a line", "one")
			must(t, os.Rename(path, path+".1"))
			appendTo(t, path+".1", string(units(o, "late\n")))
			writeFile(t, path, string(units(o, "\ufefftwo\n")))
			s.step()
			s.want("late", "two")
			copyFile(t, path, path+".2")
			must(t, os.Truncate(path, 0))
			appendTo(t, path, string(units(o, "three, without a mark\n")))
			s.step()
			s.want("three, without a mark")
			saved := s.stop()
			pack(t, "gzip", path+".3.gz", string(units(o, "three, without a mark\nfour\n")))
			writeFile(t, path, string(units(o, "\ufefffive\n")))
			s = startStepped(t, Options{Saved: saved}, Spec{File: path})
			s.want("four", "five")
		})
	}
}

func TestUTF16LineOverTheLimitIsCut(t *testing.T) {
	for _, o := range orders {
		path := writeFile(t, filepath.Join(t.TempDir(), "errorlog"), "")
		s := startStepped(t, Options{MaxLine: 256}, Spec{File: path})
		appendTo(t, path, string(units(o, "\ufeff"+strings.Repeat("x", 1000)+"\nnext\n")))
		s.step()
		if len(s.lines) != 2 || !strings.HasPrefix(s.lines[0].text, "xxx") || len(s.lines[0].text) > 256 || s.lines[1].text != "next" {
			t.Errorf("%s: got %.80v", o.name, s.lines)
		}
	}
}

func TestSinceFindsItsLineInUTF16(t *testing.T) {
	for _, o := range orders {
		var b strings.Builder
		b.WriteRune('\ufeff')
		for i := range 50_000 {
			fmt.Fprintf(&b, "%d a line\n", i)
		}
		path := writeFile(t, filepath.Join(t.TempDir(), "errorlog"), string(units(o, b.String())))
		s := startStepped(t, Options{Since: time.Unix(0, 49_998), Stamp: stampsOf(leadingNumber)}, Spec{File: path})
		s.want("49998 a line", "49999 a line")
	}
}

func FuzzUTF16(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00\n\x00"), 3)
	f.Add([]byte("\xfe\xff\x00a\x00\n\xd8\x00"), 5)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		var pool pools
		lines := func(r func(p []byte) (int, error)) (all []string, off int64) {
			lr := newLineReader(readerFunc(r), &pool, minMaxLine*64)
			for {
				b, err := lr.next()
				if err != nil {
					return all, lr.off
				}
				for _, l := range b.lines {
					all = append(all, string(l.Text))
				}
				b.put()
			}
		}
		whole, off := lines(bytes.NewReader(data).Read)
		rest := bytes.NewReader(data)
		parts, off2 := lines(func(p []byte) (int, error) { return rest.Read(p[:min(len(p), 8+max(0, size%64))]) })
		if fmt.Sprint(whole) != fmt.Sprint(parts) || off != off2 || off > int64(len(data)) {
			t.Errorf("%q: %q to %d at once, %q to %d in parts", data, whole, off, parts, off2)
		}
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

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
