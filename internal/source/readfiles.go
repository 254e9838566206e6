package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// ReadOptions are for ReadFiles. The zero value is usable.
type ReadOptions struct {
	// Stamp returns what reads the own time of an origin's lines, in Unix
	// nanoseconds. Without it the files of one log are ordered by the time they
	// were last written.
	Stamp func(o *Origin) func(line []byte) (int64, bool)
	// MaxLine is the longest line in bytes; a longer one is cut. Default 1 MiB.
	MaxLine int
	// Service and Format are hints for the parser, handed on in Origin.
	Service, Format string
	// As, when set, is the name that the rules know the files by; see Origin.Path.
	// Spec is then the index of their source, -1 for none.
	As   string
	Spec int
	// Bytes, when set, counts the bytes read of files, before they are unpacked.
	Bytes *atomic.Int64
	// Stdin is what "-" names; nil is the process's standard input.
	Stdin io.Reader
}

// ReadFiles reads finished files, unpacked when they begin like gzip, zstd, xz
// or bzip2 whatever their names; "-" is standard input. The files of one log
// that rotation named (auth.log.2.gz, auth.log.1, auth.log) are read in the
// order of their content's time, where the first of them is named; different
// logs stay in the order given.
//
// emit owns each batch until it releases it; Backlog is set, Arrival is when
// the file was last written (no line of it can be younger), and Origin.Spec is
// -1 unless ReadOptions.As is set. A file that cannot be read, or only in part, does not keep the others from being read:
// ReadFiles returns all such errors. An error of emit or of ctx ends it.
func ReadFiles(ctx context.Context, paths []string, o ReadOptions, emit func(*Batch) error) error {
	if o.MaxLine <= 0 {
		o.MaxLine = defaultMaxLine
	}
	var pool pools
	var errs []error
	for _, path := range orderFiles(paths, o) {
		origin := o.origin(path)
		err := readFile(ctx, origin, &pool, o, emit)
		var stop stopError
		if errors.As(err, &stop) {
			return errors.Join(append(errs, stop.error)...)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (o *ReadOptions) origin(path string) *Origin {
	spec := -1
	if o.As != "" {
		spec = o.Spec
	}
	return &Origin{Name: path, Log: logName(path), Path: o.As, Service: o.Service, Format: o.Format, Spec: spec}
}

// stopError ends reading for good.
type stopError struct{ error }

func readFile(ctx context.Context, origin *Origin, pool *pools, o ReadOptions, emit func(*Batch) error) error {
	written := lastWritten(origin.Name)
	u, err := openInput(origin, o)
	if err != nil {
		return err
	}
	defer u.Close()
	lines := newLineReader(u, pool, max(o.MaxLine, minMaxLine))
	lines.size, lines.last = largeBlock, true
	for {
		if err := ctx.Err(); err != nil {
			return stopError{err}
		}
		b, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s after line %d: %w", origin.Name, lines.number, pathless(err))
		}
		batch := b.asBatch()
		batch.Origin, batch.Arrival, batch.Backlog = origin, written, true
		batch.Pos = Pos{Offset: lines.off, Line: lines.number}
		if err := emit(batch); err != nil {
			return stopError{err}
		}
	}
}

// lastWritten is when the file was, now for what is no file.
func lastWritten(path string) time.Time {
	now := time.Now()
	if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.ModTime().Before(now) {
		return fi.ModTime()
	}
	return now
}

// openInput opens the file that origin names, and names standard input.
func openInput(origin *Origin, o ReadOptions) (*unpacked, error) {
	if origin.Name != "-" {
		return openCounted(origin.Name, o.Bytes)
	}
	origin.Name = "stdin"
	stdin := o.Stdin
	if stdin == nil {
		stdin = os.Stdin
	}
	u, err := unpack(stdin, io.NopCloser(nil))
	if err != nil {
		return nil, fmt.Errorf("reading stdin: %w", pathless(err))
	}
	return u, nil
}

// pathless is the cause of err without a path that is named already.
func pathless(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// orderFiles puts the files of one log together and in the order of their
// content.
func orderFiles(paths []string, o ReadOptions) []string {
	type input struct {
		sibling
		place int // of its log
		at    int64
		known bool
	}
	place := map[string]int{}
	inputs := make([]input, len(paths))
	for i, path := range paths {
		base := logName(path)
		if _, ok := place[base]; !ok {
			place[base] = i
		}
		inputs[i] = input{sibling: sibling{path: path}, place: place[base]}
	}
	for i := range inputs {
		in := &inputs[i]
		if in.path == "-" || len(place) == len(paths) {
			continue // nothing to order
		}
		in.fileInfo, _ = statPath(in.path)
		if o.Stamp != nil {
			in.at, in.known = firstStamp(in.path, o.Stamp(o.origin(in.path)))
		}
	}
	slices.SortStableFunc(inputs, func(a, b input) int {
		return cmp.Or(cmp.Compare(a.place, b.place), olderFirst(a.sibling, b.sibling))
	})
	// Those whose time is known are put in its order in the places that they
	// have: one that has no stamp must not decide on the others.
	known := slices.DeleteFunc(slices.Clone(inputs), func(in input) bool { return !in.known })
	slices.SortStableFunc(known, func(a, b input) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.at, b.at))
	})
	for i := range inputs {
		if inputs[i].known {
			inputs[i], known = known[0], known[1:]
		}
	}
	ordered := make([]string, len(inputs))
	for i, in := range inputs {
		ordered[i] = in.path
	}
	return ordered
}

// logName is the path of the log that path may be a rotation of.
func logName(path string) string {
	dir, name := filepath.Split(path)
	for _, suffix := range rotatedSuffixes {
		name = strings.TrimSuffix(name, suffix)
	}
	for i := range name {
		if i == 0 || (name[i] != '.' && name[i] != '-') {
			continue
		}
		for _, base := range []string{name[:i], name[:i] + filepath.Ext(name)} {
			if isRotated(name, base) {
				return dir + base
			}
		}
	}
	return dir + name
}

// firstStamp is the time of the first stamped line within a file's first block.
func firstStamp(path string, stamp func([]byte) (int64, bool)) (int64, bool) {
	u, err := openUnpacked(path)
	if err != nil {
		return 0, false
	}
	defer u.Close()
	head := make([]byte, 64<<10)
	n, _ := io.ReadFull(u, head)
	for line := range bytes.Lines(head[:n]) {
		if at, ok := stamp(bytes.TrimRight(line, "\r\n")); ok {
			return at, true
		}
	}
	return 0, false
}
