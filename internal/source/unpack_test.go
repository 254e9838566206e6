package source

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// late is a file that ends for the one who reads it first, and grows then.
type late struct {
	now, then []byte
	ended     bool
}

func (l *late) Read(p []byte) (n int, err error) {
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
			u, err := unpack(&late{now: bytes.Clone(whole[:n]), then: whole[n:]}, io.NopCloser(nil))
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
