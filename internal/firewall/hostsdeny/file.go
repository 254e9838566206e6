package hostsdeny

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// denyFile is hosts.deny and our part of it.
type denyFile struct {
	path, name string
}

// maxDenyFile bounds what is read of a file that others can grow.
const maxDenyFile = 16 << 20

// denyText is the file, taken apart. before and after are others' and are
// written back byte for byte.
type denyText struct {
	before, after string
	ours          []string // the lines between the markers
	marked        bool     // the markers are there
	added         string   // what had to come before our marker: addedNewline, addedFile or ""
}

// What had to be changed around our part is kept in its first marker, so that
// taking it out gives back the very bytes that were there.
const (
	addedNewline = " (with the line end before)"
	addedFile    = " (with the whole file)"
)

func (f denyFile) begin() string {
	return "# BEGIN " + f.name + ": written by stoplog, changes between these markers are lost"
}
func (f denyFile) end() string { return "# END " + f.name }

// held reads the entries of our lines.
func (t denyText) held() map[netip.Prefix]firewall.Entry {
	held := map[netip.Prefix]firewall.Entry{}
	for _, l := range t.ours {
		if s, ok := strings.CutPrefix(l, "# "); ok {
			if e, ok := base.ParseNote(s); ok {
				held[e.Prefix] = e
			}
		}
	}
	return held
}

// stat refuses what is not a plain file of its own.
func (f denyFile) stat() (fs.FileInfo, error) {
	fi, err := os.Lstat(f.path)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %s, not a regular file", f.path, kindOf(fi.Mode()))
	}
	if fi.Size() > maxDenyFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", f.path, maxDenyFile)
	}
	return fi, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m.IsDir():
		return "directory"
	}
	return "special file"
}

// read reads and takes apart; an absent file is an empty one.
func (f denyFile) read() (denyText, error) {
	_, t, err := f.load()
	return t, err
}

func (f denyFile) load() (fs.FileInfo, denyText, error) {
	fi, err := f.stat()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, denyText{}, nil
	}
	if err != nil {
		return nil, denyText{}, err
	}
	b, err := os.ReadFile(f.path)
	if err != nil {
		return nil, denyText{}, err
	}
	t, err := f.parse(string(b))
	return fi, t, err
}

// parse finds our part. Markers that do not pair up are an error: whose the
// lines between are cannot be known.
func (f denyFile) parse(s string) (denyText, error) {
	var t denyText
	pos, line, from := 0, 0, -1
	for _, l := range strings.SplitAfter(s, "\n") {
		line++
		switch text := strings.TrimSuffix(l, "\n"); {
		case strings.HasPrefix(text, f.begin()):
			if t.marked || from >= 0 {
				return t, fmt.Errorf("%s:%d: second %q", f.path, line, f.begin())
			}
			t.before, t.added = s[:pos], strings.TrimPrefix(text, f.begin())
			from = pos + len(l)
		case text == f.end():
			if from < 0 || t.marked {
				return t, fmt.Errorf("%s:%d: %q without its start marker", f.path, line, f.end())
			}
			t.marked = true
			if from < pos {
				t.ours = strings.Split(s[from:pos-1], "\n")
			}
			t.after = s[pos+len(l):]
		}
		pos += len(l)
	}
	if from >= 0 && !t.marked {
		return t, fmt.Errorf("%s: %q without its end marker", f.path, f.begin())
	}
	if !t.marked {
		t.before = s
	}
	return t, nil
}

// render puts the file together; nil lines take our part out.
func (f denyFile) render(t denyText, lines []string) string {
	if lines == nil {
		before := t.before
		if t.marked && t.added == addedNewline {
			before = strings.TrimSuffix(before, "\n")
		}
		return before + t.after
	}
	if !t.marked {
		// A line that goes on in the next one would swallow our marker.
		if t.before != "" && !strings.HasSuffix(t.before, "\n") || strings.HasSuffix(t.before, "\\\n") {
			t.before += "\n"
			t.added = addedNewline
		}
	}
	var b strings.Builder
	b.WriteString(t.before + f.begin() + t.added + "\n")
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	b.WriteString(f.end() + "\n" + t.after)
	return b.String()
}

// errChanged asks for another turn.
var errChanged = errors.New("changed while it was being written")

// update replaces our lines by what make returns of the present ones. Nothing
// is written when nothing differs. When somebody else writes at the same time
// it begins again, three times.
func (f denyFile) update(make func(denyText) []string) error {
	var err error
	for range 3 {
		if err = f.tryUpdate(make); !errors.Is(err, errChanged) {
			return err
		}
	}
	return err
}

func (f denyFile) tryUpdate(make func(denyText) []string) error {
	fi, t, err := f.load()
	if err != nil {
		return err
	}
	lines := make(t)
	if len(lines) == 0 && !t.marked {
		return nil // nothing to write, nothing to take out
	}
	if fi == nil {
		t.added = addedFile
	}
	text := f.render(t, lines)
	if lines == nil && t.added == addedFile && text == "" {
		return os.Remove(f.path)
	}
	if t.marked && text == f.render(t, orEmpty(t.ours)) && lines != nil {
		return nil
	}
	return f.replace(fi, text)
}

// orEmpty keeps nil, which takes our part out, for those who mean it.
func orEmpty(lines []string) []string {
	if lines == nil {
		return []string{}
	}
	return lines
}

// replace writes text beside the file, gives it the owner, mode and security
// label of the old one, and renames it over that, if it is still the one read.
func (f denyFile) replace(old fs.FileInfo, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // absent once renamed
	defer tmp.Close()
	if err := f.dress(tmp, old); err != nil {
		return err
	}
	if _, err := tmp.WriteString(text); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	now, err := f.stat()
	if errors.Is(err, fs.ErrNotExist) {
		now, err = nil, nil
	}
	if err != nil {
		return err
	}
	if !sameFile(old, now) {
		return fmt.Errorf("%s: %w", f.path, errChanged)
	}
	return os.Rename(tmp.Name(), f.path)
}

func (f denyFile) dress(tmp *os.File, old fs.FileInfo) error {
	if old == nil {
		return tmp.Chmod(0o644)
	}
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		if err := tmp.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := copyLabel(f.path, tmp); err != nil {
		return fmt.Errorf("labelling %s: %w", tmp.Name(), err)
	}
	return tmp.Chmod(old.Mode().Perm() | old.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}

func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// probe proves that the file can be read and replaced.
func (f denyFile) probe() error {
	if _, err := f.read(); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*")
	if err != nil {
		return err
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}
