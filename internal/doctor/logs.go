package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// Thresholds for a verdict.
const (
	enoughLines = 20
	maxOff      = 90 * time.Second
	maxFiles    = 50
)

// logs reports which logs exist, and whether their lines are understood.
func (d *doctor) logs(ctx context.Context) {
	if d.Set == nil {
		return
	}
	for _, f := range Foreign(d.Set, d.Root, d.Reader) {
		d.foreign[f.Path] = true
		d.advise(Warning, "logs", f.Problem.Msg, "correct the path, or exclude the file: "+f.Problem.Hint, "stoplog parse "+quote(f.Path))
	}
	read, tried := 0, map[string]bool{}
	for _, s := range d.Set.Sources {
		switch s.Kind {
		case rules.Auth, rules.Journal:
			read += d.journal(ctx, s)
		case rules.File:
			read += d.files(s, tried)
		case rules.Pipe:
			if !d.exists(s.Path) {
				d.advise(Warning, "logs", "the pipe "+s.Path+" does not exist", "create it, and let the program write to it", "mkfifo "+quote(s.Path))
			} else {
				read++
			}
		case rules.Stdin:
			read++
		}
	}
	if read == 0 {
		d.advise(Broken, "logs", "no readable log was found: nothing is protected", "list the logs of this machine under sources", "stoplog parse FILE")
	}
}

// files checks the files of a glob.
func (d *doctor) files(s rules.Source, tried map[string]bool) (read int) {
	names, err := filepath.Glob(d.path(s.Path))
	if err != nil {
		return 0
	}
	names = slices.DeleteFunc(names, func(n string) bool { return tried[n] || d.excluded(s, n) })
	if len(names) == 0 && s.Ready == "" && !tried[d.path(s.Path)] {
		d.advise(Warning, "logs", s.Path+": no such file", "correct the path under sources, unless the file will be created later", "ls -l "+quote(filepath.Dir(s.Path)))
	}
	for _, n := range names {
		tried[n] = true
		if len(tried) > maxFiles {
			if len(tried) == maxFiles+1 {
				d.say(Note, "logs", fmt.Sprintf("only the first %d files were checked", maxFiles))
			}
			read++
			continue
		}
		if d.file(s, n) {
			read++
		}
	}
	return read
}

// ForeignLog is a file that a glob takes in, but whose lines have another format
// than its source.
type ForeignLog struct {
	Path    string
	Problem rules.Problem // a warning, with the place of the source
}

// Bounds of what Foreign reads.
const (
	headLines = 5
	headBytes = 64 << 10
)

// Foreign finds the existing files of the user's own sources with a format in
// which every line can be read, of which the first lines cannot. root is put before
// paths.
func Foreign(set *rules.Set, root string, reader func(rules.Source) (Reader, error)) (out []ForeignLog) {
	seen := map[string]bool{}
	for _, s := range set.Sources {
		names, err := filepath.Glob(filepath.Join(root, s.Path))
		if err != nil || s.Kind != rules.File {
			continue
		}
		for _, name := range names {
			path := "/" + strings.TrimPrefix(strings.TrimPrefix(name, filepath.Clean(root)), "/")
			if root == "" {
				path = name
			}
			if seen[path] || !s.Names(path) || len(seen) >= maxFiles {
				continue
			}
			seen[path] = true
			if s.Ready == "" && foreign(s, name, path, reader) {
				what := "format " + s.Format
				if s.Format == "" || s.Format == "auto" {
					what = "an access log"
				}
				out = append(out, ForeignLog{path, rules.Problem{File: s.In, Line: s.Line, Column: 1, Warning: true, Hint: "exclude: " + path,
					Msg: fmt.Sprintf("%s belongs to source %s, but its first lines are not %s", path, s.Path, what)}})
			}
		}
	}
	return out
}

// foreign reports whether none of the first lines of a file can be read as the
// source's format.
func foreign(s rules.Source, name, path string, reader func(rules.Source) (Reader, error)) bool {
	if !s.ReadsEveryLine(path) {
		return false
	}
	head := firstLines(name)
	read, err := reader(s)
	if err != nil || len(head) == 0 {
		return false
	}
	return !slices.ContainsFunc(head, func(line []byte) bool {
		switch s.Format {
		case "json":
			i := bytes.IndexByte(line, '{')
			return i >= 0 && json.Valid(line[i:])
		case "logfmt":
			return bytes.IndexByte(line, '=') > 0
		}
		_, known := read(&source.Line{Text: line}, time.Now())
		return known
	})
}

// firstLines are those of a plain file that are not empty; none of one that is
// compressed, or cannot be read.
func firstLines(name string) (lines [][]byte) {
	if fi, err := os.Stat(name); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, headBytes))
	if bytes.IndexByte(data, 0) >= 0 || bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return nil
	}
	for line := range bytes.Lines(data) {
		if bytes.HasSuffix(line, []byte("\n")) && len(bytes.TrimSpace(line)) > 0 && len(lines) < headLines {
			lines = append(lines, bytes.TrimRight(line, "\r\n"))
		}
	}
	return lines
}

func (d *doctor) excluded(s rules.Source, name string) bool {
	shown := d.shown(name)
	fi, err := os.Stat(name)
	if err == nil && !fi.Mode().IsRegular() {
		return true
	}
	return source.Excluded(shown, s.Exclude)
}

// shown is a path as the machine itself knows it.
func (d *doctor) shown(path string) string {
	if d.Root == "" {
		return path
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(path, filepath.Clean(d.Root)), "/")
}

// file checks one log and reports whether it can be read.
func (d *doctor) file(s rules.Source, path string) bool {
	name := d.shown(path)
	fi, err := os.Stat(path)
	if err == nil && d.EUID == 0 && d.CanRead != nil && !d.CanRead(path, fi) {
		d.advise(Broken, "logs", fmt.Sprintf("%s cannot be read by %s, the user of the daemon (mode %04o)", name, d.User, fi.Mode().Perm()),
			"give the group adm read access, also after a rotation (create 0640 root adm in its logrotate file)", fmt.Sprintf("chgrp adm %s && chmod 640 %[1]s", quote(name)))
		return false
	}
	lines, err := tail(path)
	if err != nil {
		d.unreadable(name, err)
		return false
	}
	if len(lines) == 0 {
		d.say(Note, "logs", name+" is empty")
		return true
	}
	read, err := d.Reader(s)
	if err != nil {
		d.advise(Broken, "logs", name+": "+err.Error(), "correct the source's format", "stoplog check")
		return false
	}
	x := sample{name: name}
	for _, l := range lines {
		x.add(read, l, fi.ModTime())
	}
	if !d.foreign[name] {
		d.judge(x)
	}
	// The last line was written when the file was last changed.
	if off := x.last.Sub(fi.ModTime()); !x.last.IsZero() && suspicious(off) {
		d.skewed(name, off)
	}
	return true
}

// suspicious reports whether stamps that are so far off what the file system
// says must be wrong. Stamps behind it may only mean that the file was touched
// later, unless they are off by what zones differ by: whole quarters of an
// hour, at most 26 hours.
func suspicious(off time.Duration) bool {
	const quarter, slack = 15 * time.Minute, 10 * time.Second
	if off > maxOff {
		return true
	}
	off = off.Abs()
	rest := off % quarter
	return off >= quarter-slack && off <= 26*time.Hour+slack && (rest <= slack || rest >= quarter-slack)
}

func (d *doctor) skewed(name string, off time.Duration) {
	way := "behind"
	if off > 0 {
		way = "ahead of"
	}
	d.advise(Warning, "logs", fmt.Sprintf("%s: its timestamps are %s %s the clock", name, rules.FormatDuration(off.Abs().Round(time.Second)), way),
		"set zone: … for the source, or correct the program's time zone; until then its lines count when they arrive", "stoplog parse "+quote(name))
}

func (d *doctor) unreadable(name string, err error) {
	if errors.Is(err, fs.ErrPermission) && d.EUID != 0 {
		d.say(Note, "logs", "no permission to read "+name)
		return
	}
	d.advise(Broken, "logs", err.Error(), "make it readable", "ls -l "+quote(name))
}

// judge reports how many lines of a log are understood. A log of many programs
// has many lines without an event; only none at all is suspicious.
func (d *doctor) judge(x sample) {
	what := fmt.Sprintf("%s: %d of the last %s understood", x.name, x.known, plural(x.lines, "line"))
	switch {
	case x.known == 0 && d.ownPatterns():
		d.say(Note, "logs", fmt.Sprintf("%s: %s, understood only by the rules' own patterns, if at all", x.name, plural(x.lines, "line")))
	case x.known == 0 && x.lines >= enoughLines:
		d.advise(Warning, "logs", fmt.Sprintf("%s: none of the last %d lines is understood", x.name, x.lines), "look at the log, and set its service or format under sources", x.command())
	case x.known == 0:
		d.say(Note, "logs", fmt.Sprintf("%s: %s, none understood, but too few to judge", x.name, plural(x.lines, "line")))
	default:
		d.say(OK, "logs", what)
	}
}

// ownPatterns reports whether a rule has a pattern of its own.
func (d *doctor) ownPatterns() bool {
	return slices.ContainsFunc(d.Set.Rules, func(r *rules.Rule) bool { return r.Pattern != nil })
}

// quote makes a path safe to paste into a shell.
func quote(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%=", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !safe(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
