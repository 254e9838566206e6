package rules

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bundle is the text of every file that a Set was made of: what a start falls
// back on when those files cannot be used. Lists of prefixes are not part of
// it; they are read from their own files, as ever.
type Bundle struct {
	Saved time.Time `json:"saved"`
	// Main is the absolute path of the rules file, "" for the built-in rules.
	Main  string            `json:"main,omitempty"`
	Dir   string            `json:"dir"` // where relative paths are taken from
	Files map[string]string `json:"files"`
}

// NewBundle reads the files that s was loaded from, and dir beside them. It
// fails when they have changed so that they no longer make a Set.
func NewBundle(s *Set, example []byte, main, dir string, now time.Time) (*Bundle, error) {
	b := &Bundle{Saved: now.UTC(), Main: main, Dir: dir, Files: map[string]string{}}
	for _, name := range s.Files {
		data, err := readFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a file of customers, which may be missing
		}
		if err != nil {
			return nil, err
		}
		b.Files[name] = string(data)
	}
	if set, problems := b.Load(example); set == nil {
		return nil, problems[0]
	}
	return b, nil
}

// Load makes a Set of the bundle's texts; example is the built-in rules.
func (b *Bundle) Load(example []byte) (*Set, []Problem) {
	name, data := "built-in", example
	if b.Main != "" {
		name, data = b.Main, []byte(b.Files[b.Main])
	}
	return load(name, data, b.Dir, b.Main, b)
}

func (b *Bundle) read(name string) ([]byte, error) {
	text, ok := b.Files[name]
	if !ok {
		return nil, &os.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

func (b *Bundle) list(dir string) (names []string, err error) {
	for name := range b.Files {
		if filepath.Dir(name) == filepath.Clean(dir) && strings.HasSuffix(name, ".yaml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// files is where rules are read from.
type files interface {
	read(name string) ([]byte, error)
	// list names the YAML files of a folder, sorted; the error says that there
	// is no such folder.
	list(dir string) ([]string, error)
}

// disk reads the files as they are now.
type disk struct{}

func (disk) read(name string) ([]byte, error) { return readFile(name) }

func (disk) list(dir string) ([]string, error) {
	names, _ := filepath.Glob(filepath.Join(escapeGlob(dir), "*.yaml"))
	_, err := os.Stat(dir)
	return names, err
}
