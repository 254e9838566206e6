package export

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File is what ToFile did.
type File struct {
	Changed bool
	Len     int // prefixes in the file
	Left    int // prefixes that the cap left out
}

// ToFile makes path hold what Write writes, if it does not already: a reader
// sees the old text or the new one and nothing between, and the file keeps its
// owner, as far as we may give files away, and mode (a new one is 0644). Text of
// a format that Counts is new every second while something is blocked. Anything
// at path but a regular file is left alone and an error.
func ToFile(path, format string, es []Entry, o Options) (File, error) {
	l, err := Build(format, es, o)
	if err != nil {
		return File{}, err
	}
	f := File{Len: l.Len(), Left: l.Left}
	var text bytes.Buffer
	if err := l.Write(&text); err != nil {
		return f, err
	}
	old, same, err := compare(path, text.Bytes())
	if err != nil {
		return f, fmt.Errorf("export to %s: %w", path, err)
	}
	if same {
		return f, nil
	}
	if err := replace(path, old, text.Bytes()); err != nil {
		return f, fmt.Errorf("export to %s: %w", path, err)
	}
	f.Changed = true
	return f, nil
}

// compare reports what is at path, nil for nothing, and whether it is text.
func compare(path string, text []byte) (fs.FileInfo, bool, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, cause(err)
	}
	if !fi.Mode().IsRegular() {
		return nil, false, errors.New("there is something else than a regular file; not touching it")
	}
	if fi.Size() != int64(len(text)) {
		return fi, false, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fi, false, nil // not readable, perhaps still replaceable
	}
	return fi, bytes.Equal(b, text), nil
}

func replace(path string, old fs.FileInfo, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return cause(err)
	}
	err = fill(tmp, old, text)
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(cause(err), os.Remove(tmp.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// fill writes and closes tmp.
func fill(tmp *os.File, old fs.FileInfo, text []byte) error {
	defer tmp.Close()
	mode := fs.FileMode(0o644)
	if old != nil {
		mode = old.Mode().Perm()
		if uid, gid := owner(old); uid != os.Geteuid() || gid != os.Getegid() {
			if err := keepOwner(tmp.Chown, mode, uid, gid); err != nil {
				return err
			}
		}
	}
	if err := tmp.Chmod(mode); err != nil {
		return err
	}
	if _, err := tmp.Write(text); err != nil {
		return err
	}
	return tmp.Sync()
}

// keepOwner gives the new file to whom the old one belonged. Who may not give
// files away keeps its group alone; not even that is needed where everybody
// may read it: somebody made it as root before the daemon, which is not root,
// wrote to it first.
func keepOwner(chown func(uid, gid int) error, mode fs.FileMode, uid, gid int) error {
	err := chown(uid, gid)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if chown(-1, gid) == nil || mode&0o004 != 0 {
		return nil
	}
	return errors.New("it belongs to another user and group, and not everybody may read it: give it to the user that writes it")
}

func owner(fi fs.FileInfo) (uid, gid int) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return os.Geteuid(), os.Getegid()
}

// syncDir makes the rename last.
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
