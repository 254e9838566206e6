package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"stoplog/internal/atomicfile"
)

// Names of a node's files in its state directory.
const (
	MemberFile = "fleet.json"
	CacheFile  = "fleet-nodes.json"
)

// maxFile bounds the files that are read.
const maxFile = 16 << 20

// checked is what a file of a fleet holds.
type checked interface{ Check() error }

// Read reads a file of an administrator, operator or member.
func Read(path string, v checked) error {
	b, err := read(path)
	if err != nil {
		return err
	}
	if json.Unmarshal(b, v) != nil {
		return fmt.Errorf("%s is damaged", path)
	}
	if err := v.Check(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// read reads a regular file of bounded size. The user of the daemon can put anything
// in its place, and root reads it too.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return b, err
}

// Write writes such a file, readable by its owner alone: the owner of the file
// that it replaces, or of its folder.
func Write(path string, v checked) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := write(path, append(b, '\n')); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func write(path string, b []byte) error {
	return atomicfile.Write(path, b, func(f *os.File, old fs.FileInfo) error {
		if old == nil {
			var err error
			if old, err = os.Stat(filepath.Dir(path)); err != nil {
				return err
			}
		}
		if uid, gid := atomicfile.Owner(old); uid != os.Getuid() && os.Getuid() == 0 {
			return f.Chown(uid, gid)
		}
		return nil
	})
}

// Start reads the member of the state directory and counts its start: what the
// node says from now on is later than all that it said before. It returns nil
// without an error if the machine has not joined a fleet.
func Start(stateDir string) (*Member, error) {
	path := filepath.Join(stateDir, MemberFile)
	m := &Member{}
	err := Read(path, m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.Incarnation++
	return m, Write(path, m)
}

// Leave removes what Start and Run keep in the state directory; false when there
// was nothing.
func Leave(stateDir string) (bool, error) {
	err := os.Remove(filepath.Join(stateDir, MemberFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = os.Remove(filepath.Join(stateDir, CacheFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return true, err
}

// LoadCache and SaveCache keep Options.Cache in the state directory.
func LoadCache(stateDir string) []byte {
	b, err := read(filepath.Join(stateDir, CacheFile))
	if err != nil {
		return nil
	}
	return b
}

// SaveCache writes what LoadCache reads.
func SaveCache(stateDir string, b []byte) error {
	return write(filepath.Join(stateDir, CacheFile), b)
}
