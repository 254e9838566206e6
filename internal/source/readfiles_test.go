package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readAll returns every line as "file:number:text".
func readAll(t testing.TB, o ReadOptions, paths ...string) ([]string, error) {
	t.Helper()
	var all []string
	err := ReadFiles(context.Background(), paths, o, func(b *Batch) error {
		for _, l := range b.Lines {
			all = append(all, fmt.Sprintf("%s:%d:%s", filepath.Base(b.Origin.Name), l.Number, l.Text))
		}
		if !b.Backlog {
			t.Error("a batch of a finished file is not marked as backlog")
		}
		b.Release()
		return nil
	})
	return all, err
}

func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// pack compresses text by the program, into path.
func pack(t testing.TB, program, path, text string) string {
	t.Helper()
	cmd := exec.Command(need(t, program), "-c")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	must(t, os.WriteFile(path, out, 0o644))
	return path
}

// leadingNumber reads a stamp from lines such as "42 text".
func leadingNumber(line []byte) (int64, bool) {
	word, _, ok := bytes.Cut(line, []byte(" "))
	n, err := strconv.ParseInt(string(word), 10, 64)
	return n, ok && err == nil
}

func TestReadFilesUnpacksByContent(t *testing.T) {
	text := strings.Repeat("a line of a log\n", 50_000)
	for _, program := range []string{"gzip", "zstd", "xz", "bzip2", "cat"} {
		t.Run(program, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "named-as-it-likes.txt")
			if program == "cat" {
				writeFile(t, path, text)
			} else {
				pack(t, program, path, text)
			}
			all, err := readAll(t, ReadOptions{}, path)
			if err != nil || len(all) != 50_000 {
				t.Fatalf("got %d lines and %v, want 50000", len(all), err)
			}
			if want := "named-as-it-likes.txt:50000:a line of a log"; all[49_999] != want {
				t.Errorf("got %q, want %q", all[49_999], want)
			}
		})
	}
}

func TestReadFilesOrdersOneLogByItsContent(t *testing.T) {
	dir := t.TempDir()
	a := func(name string) string { return filepath.Join(dir, name) }
	// Written in an order that tells nothing.
	writeFile(t, a("app.log"), "30 c\n31 c\n")
	writeFile(t, a("app.log.1"), "no stamp\n20 b\n")
	pack(t, "gzip", a("app.log.2.gz"), "10 a\n")
	writeFile(t, a("other.log"), "5 o\n")
	for _, paths := range [][]string{
		{"app.log", "app.log.1", "app.log.2.gz", "other.log"},
		{"app.log.1", "other.log", "app.log.2.gz", "app.log"},
	} {
		for i := range paths {
			paths[i] = a(paths[i])
		}
		all, err := readAll(t, ReadOptions{Stamp: stampsOf(leadingNumber)}, paths...)
		want := []string{"app.log.2.gz:1:10 a", "app.log.1:1:no stamp", "app.log.1:2:20 b", "app.log:1:30 c", "app.log:2:31 c", "other.log:1:5 o"}
		if err != nil || !slices.Equal(all, want) {
			t.Errorf("%q:\n got %q, %v\nwant %q", paths, all, err, want)
		}
	}
}

// An empty file has no time; copied files have that of the copying.
func TestReadFilesOrdersAroundAFileWithoutATime(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, text := range []string{"10 a\n", "20 b\n", "", "30 c\n"} {
		path := writeFile(t, filepath.Join(dir, fmt.Sprintf("app.log.%d", i+1)), text)
		past(t, path, len(paths)+1)
		paths = append(paths, path)
	}
	for range len(paths) {
		all, err := readAll(t, ReadOptions{Stamp: stampsOf(leadingNumber)}, paths...)
		want := []string{"app.log.1:1:10 a", "app.log.2:1:20 b", "app.log.4:1:30 c"}
		if err != nil || !slices.Equal(all, want) {
			t.Errorf("%q:\n got %q, %v\nwant %q", paths, all, err, want)
		}
		paths = append(paths[1:], paths[0])
	}
}

func TestReadFilesGoesOnAfterABadFile(t *testing.T) {
	dir := t.TempDir()
	good := writeFile(t, filepath.Join(dir, "good"), "fine\nno newline at the end")
	packed := pack(t, "gzip", filepath.Join(dir, "whole.gz"), strings.Repeat("x\n", 100_000))
	data, err := os.ReadFile(packed)
	must(t, err)
	short := writeFile(t, filepath.Join(dir, "short.gz"), string(data[:len(data)/2]))
	missing := filepath.Join(dir, "missing")

	all, err := readAll(t, ReadOptions{}, missing, short, good)
	if err == nil || !strings.Contains(err.Error(), "missing: no such file") || !strings.Contains(err.Error(), "short.gz after line") {
		t.Errorf("got error %v, want the missing and the short file named", err)
	}
	if n := len(all); n < 3 || all[n-2] != "good:1:fine" || all[n-1] != "good:2:no newline at the end" {
		t.Errorf("got %d lines, want those of the good file at the end", n)
	}
}

func TestReadFilesStops(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, filepath.Join(dir, "a"), strings.Repeat("x\n", 200_000))
	stop := errors.New("enough")
	n := 0
	err := ReadFiles(context.Background(), []string{path, path}, ReadOptions{}, func(b *Batch) error {
		n++
		b.Release()
		return stop
	})
	if n != 1 || !errors.Is(err, stop) {
		t.Errorf("after an error of emit: got %d batches and %v, want 1 and %v", n, err, stop)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := readAll(t, ReadOptions{}, path); err != nil {
		t.Error(err)
	}
	err = ReadFiles(ctx, []string{path}, ReadOptions{}, func(b *Batch) error { t.Error("read on"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestLineReader(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"\n", []string{""}},
		{"a\nb\r\n\r\nc", []string{"a", "b", "", "c"}},
		{"nul\x00 and \xff\xfe\n", []string{"nul\x00 and \xff\xfe"}},
		{strings.Repeat("x", 300) + "\nnext\n", []string{strings.Repeat("x", 300), "next"}},
		{strings.Repeat("y", 301) + "\r\nnext\n", []string{strings.Repeat("y", 300) + "~", "next"}},
		{strings.Repeat("z", 50_000) + "\nnext", []string{strings.Repeat("z", 300) + "~", "next"}},
		{"a\n" + strings.Repeat("e", 20_000), []string{"a", strings.Repeat("e", 300) + "~"}},
	} {
		for name, wrap := range readers {
			lines := newLineReader(wrap(strings.NewReader(tt.in)), &pools{}, 300)
			lines.last = true
			have := drain(lines)
			if !slices.Equal(have, tt.want) {
				t.Errorf("%s, %.20q: got %.30q, want %.30q", name, tt.in, have, tt.want)
			}
			if lines.off != int64(len(tt.in)) {
				t.Errorf("%s, %.20q: ended at %d, want %d", name, tt.in, lines.off, len(tt.in))
			}
		}
	}
}

// filledLate is a file that ends for the one who reads it first, and grows then.
type filledLate struct {
	now, then []byte
	ended     bool
}

func (l *filledLate) Read(p []byte) (n int, err error) {
	switch {
	case len(l.now) > 0:
		n = copy(p, l.now)
		l.now = l.now[n:]
		return n, nil
	case !l.ended:
		l.ended = true
		return 0, io.EOF
	case len(l.then) > 0:
		n = copy(p, l.then)
		l.then = l.then[n:]
		return n, nil
	}
	return 0, io.EOF
}

// gzip creates its output empty and fills it a moment later: between the look
// at the magic number and the first read.
func TestCompressedFileThatIsFilledWhileItIsOpenedIsNotText(t *testing.T) {
	for _, program := range []string{"gzip", "zstd", "pzstd", "xz", "bzip2"} {
		whole, err := os.ReadFile(pack(t, program, filepath.Join(t.TempDir(), "a"), "one\ntwo\n"))
		must(t, err)
		for n := range magicMax {
			u, err := unpack(&filledLate{now: bytes.Clone(whole[:n]), then: whole[n:]}, io.NopCloser(nil))
			if err != nil {
				continue // it is recognised, and seen to be incomplete
			}
			got, err := readHead(u)
			if err == nil && len(got) > n && string(got) != "one\ntwo\n" {
				t.Errorf("%s, %d bytes at first: got %q as text", program, n, got)
			}
		}
	}
}

// The smallest file was given the largest dictionary.
func TestSmallXzFileTakesLittleMemory(t *testing.T) {
	path := pack(t, "xz", filepath.Join(t.TempDir(), "a.xz"), "one\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u, err := openUnpacked(path)
	must(t, err)
	defer u.Close()
	_, err = readHead(u)
	must(t, err)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("took %d bytes, want no more than what xz packed it with", took)
	}
}
