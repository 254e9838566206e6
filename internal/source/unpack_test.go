package source

import (
	"path/filepath"
	"runtime"
	"testing"
)

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
