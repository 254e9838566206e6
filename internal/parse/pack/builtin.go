package pack

import (
	"embed"
	"errors"
	"fmt"
	"slices"
)

//go:embed packs/*.yaml
var files embed.FS

//go:generate go test -run TestIndex -update .

// indexed is what is known of a built-in pack without reading its file: index
// lists them, written by go generate.
type indexed struct {
	file, name string
	programs   []string
	logs       []string
	literals   [][]string
	tagOnly    bool
}

// Builtin returns the built-in packs. Their files are read at the first line
// that may be theirs, so that a start costs nothing.
func Builtin() (*Set, error) {
	es := make([]entry, len(index))
	n := 0
	for i := range index {
		x := &index[i]
		es[i] = entry{literals: x.literals, pack: &Pack{
			name: x.name, programs: x.programs, logs: x.logs, tagOnly: x.tagOnly, anyTag: slices.Contains(x.programs, "*"), data: func() *Pack { return read(x.file) },
		}}
		n += len(x.literals)
	}
	if n > maxPatterns {
		return nil, fmt.Errorf("built-in packs hold %d patterns, the most is %d", n, maxPatterns)
	}
	return newSet(es), nil
}

// read loads a built-in file. A broken one, which the tests rule out, reads
// nothing.
func read(file string) *Pack {
	p, err := readFile(file)
	if err != nil {
		return &Pack{}
	}
	return p
}

func readFile(file string) (*Pack, error) {
	data, err := files.ReadFile("packs/" + file)
	if err != nil {
		return nil, err
	}
	l := &loader{file: file}
	p := l.pack(data)
	if Broken(l.problems) {
		errs := make([]error, len(l.problems))
		for i, p := range l.problems {
			errs[i] = p
		}
		return nil, errors.Join(errs...)
	}
	return p, nil
}

// ServiceOf names the first built-in pack with a log that matches says it is
// looking for, "" when there is none.
func ServiceOf(matches func(glob string) bool) string {
	for i := range index {
		if slices.ContainsFunc(index[i].logs, matches) {
			return index[i].name
		}
	}
	return ""
}

// BuiltinServices are the names of the built-in packs, without loading them.
func BuiltinServices() []string {
	names := make([]string, len(index))
	for i := range index {
		names[i] = index[i].name
	}
	return names
}
