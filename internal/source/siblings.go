package source

import (
	"cmp"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxSiblings bounds how many rotated files of one log are looked at, the
// newest ones.
const maxSiblings = 64

// sibling is a file that a rotation of a log left.
type sibling struct {
	path string
	fileInfo
}

// rotatedSuffixes end the name of a rotated file that was compressed.
var rotatedSuffixes = []string{".gz", ".zst", ".xz", ".bz2"}

// isRotated reports whether name is base after a rotation: base.1,
// base-20261120, base.2026-11-20-13, base.1.gz, base.old, and with the
// extension kept, stem-20261120.log (logrotate's "extension").
func isRotated(name, base string) bool {
	for _, suffix := range rotatedSuffixes {
		name = strings.TrimSuffix(name, suffix)
	}
	// What logrotate finds in its way it renames to name-YYYYMMDDHH.backup.
	name = strings.TrimSuffix(name, ".backup")
	if rest, ok := strings.CutPrefix(name, base); ok {
		return rest == ".old" || isStamp(rest)
	}
	ext := filepath.Ext(base)
	stem := strings.TrimSuffix(base, ext)
	if ext == "" || stem == "" {
		return false
	}
	rest, ok := strings.CutPrefix(name, stem)
	if !ok {
		return false
	}
	rest, ok = strings.CutSuffix(rest, ext)
	return ok && isStamp(rest)
}

// isStamp reports whether s is a separator and then digits, with separators
// between them.
func isStamp(s string) bool {
	if len(s) < 2 || (s[0] != '.' && s[0] != '-') {
		return false
	}
	digits := 0
	for _, c := range []byte(s[1:]) {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case strings.IndexByte("-._:T", c) < 0:
			return false
		}
	}
	return digits > 0
}

// isCompressedName reports whether name ends as a compressed file does.
func isCompressedName(name string) bool {
	return slices.ContainsFunc(rotatedSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// siblings lists the rotated files of the log at path, the oldest first, by
// the time they were last written: also those of the file that path, when it is
// a symbolic link, leads to.
func siblings(path string, dirs *dirCache) []sibling {
	var found []sibling
	for name := range namesOf(path) {
		found = appendRotated(found, name, dirs)
	}
	slices.SortFunc(found, olderFirst)
	return found[max(0, len(found)-maxSiblings):]
}

// siblings lists the rotated files of f, also where rotation moves them to.
func (f *follower) siblings() []sibling {
	list := siblings(f.path, f.dirs)
	if f.dir == "" {
		return list
	}
	for name := range namesOf(f.path) {
		list = appendRotated(list, filepath.Join(f.dir, filepath.Base(name)), f.dirs)
	}
	slices.SortFunc(list, olderFirst)
	return list[max(0, len(list)-maxSiblings):]
}

// noteDir learns where rotation moves the log's files to (logrotate's olddir)
// from the name that the kernel gives the file that was open.
func (f *follower) noteDir(s *segment) {
	if s == nil || s.packed != nil {
		return
	}
	now, err := os.Readlink(s.h.procPath())
	if err != nil {
		return
	}
	dir, base := filepath.Split(now)
	dir = filepath.Clean(dir)
	for name := range namesOf(f.path) {
		if dir == filepath.Dir(name) {
			return
		}
	}
	for name := range namesOf(f.path) {
		if isRotated(base, filepath.Base(name)) {
			f.dir = dir
		}
	}
}

// maxSubdirs bounds the directories that are searched for a rotated file that
// is not where it was expected.
const maxSubdirs = 64

// dirsBelow lists the directories beside the log that may be its olddir.
func (f *follower) dirsBelow() (dirs []string) {
	for name := range namesOf(f.path) {
		entries, _ := os.ReadDir(filepath.Dir(name))
		for _, e := range entries {
			if e.IsDir() && len(dirs) < maxSubdirs {
				dirs = append(dirs, filepath.Join(filepath.Dir(name), e.Name()))
			}
		}
	}
	return dirs
}

// writtenSince lists the rotated files of f that were last written since t, and
// older ones that were closed and have grown.
func (f *follower) writtenSince(t time.Time) []sibling {
	return slices.DeleteFunc(f.siblings(), func(s sibling) bool { return s.mtime.Before(t) && !f.hasGrown(s) })
}

// maxLinks is how many symbolic links are followed; the kernel gives up at 40.
const maxLinks = 40

// namesOf goes through path and, when it is a symbolic link, the names that it
// leads to.
func namesOf(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for range maxLinks {
			if path == "" || !yield(path) {
				return
			}
			path = linkTarget(path)
		}
	}
}

// namesChanged is when a name last changed where siblings looks.
func namesChanged(path string) (last time.Time) {
	for name := range namesOf(path) {
		if dir, err := statPath(filepath.Dir(name)); err == nil && dir.mtime.After(last) {
			last = dir.mtime
		}
	}
	return last
}

// dirCache keeps the names in the folder that was listed last: a thousand logs
// of one folder would list it a thousand times. The nil cache keeps nothing.
type dirCache struct {
	dir  string
	info fileInfo
	list []string
}

// names lists dir, from the cache as long as the folder's time shows that no
// name has changed.
func (c *dirCache) names(dir string) []string {
	now := time.Now()
	info, err := statPath(dir)
	if c != nil && err == nil && c.dir == dir && c.info.fileID == info.fileID && c.info.mtime.Equal(info.mtime) {
		return c.list
	}
	entries, _ := os.ReadDir(dir)
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name()
	}
	// A change within the kernel's clock tick would not show in its time.
	if c != nil && err == nil && now.Sub(info.mtime) > clockTick {
		*c = dirCache{dir, info, list}
	}
	return list
}

// appendRotated appends what rotation made of path that is not yet in found.
func appendRotated(found []sibling, path string, dirs *dirCache) []sibling {
	dir, base := filepath.Split(path)
	for _, name := range dirs.names(dir) {
		if !isRotated(name, base) {
			continue
		}
		full := filepath.Join(dir, name)
		info, err := statPath(full)
		if err != nil || !info.regular || slices.ContainsFunc(found, func(s sibling) bool { return s.fileID == info.fileID }) {
			continue
		}
		found = append(found, sibling{full, info})
	}
	return found
}

// olderFirst orders by time, and files of one instant by name: base.2 is
// older than base.1, base-20261119 than base-20261120.
func olderFirst(a, b sibling) int {
	if c := a.mtime.Compare(b.mtime); c != 0 {
		return c
	}
	if len(a.path) == len(b.path) && strings.Contains(a.path, "-") {
		return cmp.Compare(a.path, b.path)
	}
	if len(a.path) != len(b.path) {
		return cmp.Compare(len(b.path), len(a.path))
	}
	return cmp.Compare(b.path, a.path)
}

// writtenSince drops what was last written before t.
func writtenSince(list []sibling, t time.Time) []sibling {
	return slices.DeleteFunc(list, func(s sibling) bool { return s.mtime.Before(t) })
}

// plainFirst is list from the newest to the oldest, the compressed ones last.
func plainFirst(list []sibling) []sibling {
	list = slices.Clone(list)
	slices.Reverse(list)
	packed := func(s sibling) bool { return isCompressedName(s.path) }
	plain := slices.DeleteFunc(slices.Clone(list), packed)
	return append(plain, slices.DeleteFunc(list, func(s sibling) bool { return !packed(s) })...)
}
