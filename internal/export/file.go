package export

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"stoplog/internal/atomicfile"
)

// File is what ToFile did.
type File struct {
	Changed bool
	Len     int // prefixes in the file
	Left    int // prefixes that the cap left out
	Limited int // limited blocks that are left out; see LeftOut
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
	f := File{Len: l.Len(), Left: l.Left, Limited: l.Limited}
	var text bytes.Buffer
	if err := l.Write(&text); err != nil {
		return f, err
	}
	same, err := holds(path, text.Bytes())
	if err == nil && !same {
		err = atomicfile.Write(path, text.Bytes(), dress)
		f.Changed = err == nil
	}
	if err != nil {
		return f, fmt.Errorf("export to %s: %w", path, err)
	}
	return f, nil
}

// holds reports whether path holds text already.
func holds(path string, text []byte) (bool, error) {
	fi, err := atomicfile.Lstat(path)
	if err != nil || fi == nil || fi.Size() != int64(len(text)) {
		return false, err
	}
	b, err := os.ReadFile(path)
	return err == nil && bytes.Equal(b, text), nil // what is not readable is perhaps still replaceable
}

// dress gives the new file the owner and mode of the old one.
func dress(tmp *os.File, old fs.FileInfo) error {
	mode := fs.FileMode(0o644)
	if old != nil {
		mode = old.Mode().Perm()
		if uid, gid := atomicfile.Owner(old); uid != os.Geteuid() || gid != os.Getegid() {
			if err := keepOwner(tmp.Chown, mode, uid, gid); err != nil {
				return err
			}
		}
	}
	return tmp.Chmod(mode)
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
	return errors.New("it belongs to another user and group and is not world-readable: change its owner to the user of the daemon")
}
