// Package atomicfile replaces files as a whole: a reader, and a machine that
// loses power, finds the old content or the new one and nothing between.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// Write replaces path by data, through a temporary file beside it that nobody
// else can have made. dress, when not nil, sets owner and mode of that file,
// which is empty and has mode 0600 by then; old is what it replaces, nil for
// nothing. Anything at path but a regular file (a symbolic link, say) is left
// alone and an error. Errors do not name path.
func Write(path string, data []byte, dress func(f *os.File, old fs.FileInfo) error) error {
	old, err := Lstat(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return cause(err)
	}
	defer f.Cleanup()
	if dress != nil {
		if err := dress(f.File, old); err != nil {
			return cause(err)
		}
	}
	if _, err := f.Write(data); err != nil {
		return cause(err)
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return cause(err)
	}
	return syncDir(dir)
}

// Lstat returns the regular file at path, nil when there is nothing.
func Lstat(path string) (fs.FileInfo, error) {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, cause(err)
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("not a regular file; not changed")
	}
	return fi, nil
}

// Owner returns the owner and group of a file, our own when they are unknown.
func Owner(fi fs.FileInfo) (uid, gid int) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return os.Geteuid(), os.Getegid()
}

// syncDir puts the new name on disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil // a directory that may be written but not read
	}
	defer d.Close()
	return cause(d.Sync())
}

// cause drops the operation and path, which the caller names.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}
