package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

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
