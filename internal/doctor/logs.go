package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"stoplog/internal/rules"
)

// What is too little to judge by, and what is too far off.
const (
	enoughLines = 20
	maxOff      = 90 * time.Second
	maxFiles    = 50
)

// logs tells which logs are there, and whether their lines are understood.
func (d *doctor) logs(ctx context.Context) {
	if d.Set == nil {
		return
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
				d.advise(Warning, "logs", "the pipe "+s.Path+" is not there", "make it, and let the program write to it", "mkfifo "+quote(s.Path))
			} else {
				read++
			}
		case rules.Stdin:
			read++
		}
	}
	if read == 0 {
		d.advise(Broken, "logs", "no log was found that could be read: nothing is protected", "name the logs of this machine under sources", "stoplog parse FILE")
	}
}

// files looks at what a glob names.
func (d *doctor) files(s rules.Source, tried map[string]bool) (read int) {
	names, err := filepath.Glob(d.path(s.Path))
	if err != nil {
		return 0
	}
	names = slices.DeleteFunc(names, func(n string) bool { return tried[n] || d.excluded(s, n) })
	if len(names) == 0 && s.Ready == "" && !tried[d.path(s.Path)] {
		d.advise(Warning, "logs", s.Path+": no such file", "correct the path under sources, if it is not yet to come", "ls -l "+quote(filepath.Dir(s.Path)))
	}
	for _, n := range names {
		tried[n] = true
		if len(tried) > maxFiles {
			if len(tried) == maxFiles+1 {
				d.say(Note, "logs", fmt.Sprintf("only the first %d files were looked at", maxFiles))
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

func (d *doctor) excluded(s rules.Source, name string) bool {
	shown := d.shown(name)
	fi, err := os.Stat(name)
	if err == nil && !fi.Mode().IsRegular() {
		return true
	}
	return slices.ContainsFunc(s.Exclude, func(glob string) bool {
		ok, _ := filepath.Match(glob, shown)
		return ok
	})
}

// shown is a path as the machine itself knows it.
func (d *doctor) shown(path string) string {
	if d.Root == "" {
		return path
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(path, filepath.Clean(d.Root)), "/")
}

// file looks at one log and reports whether it can be read.
func (d *doctor) file(s rules.Source, path string) bool {
	name := d.shown(path)
	fi, err := os.Stat(path)
	if err == nil && d.EUID == 0 && d.CanRead != nil && !d.CanRead(path, fi) {
		d.advise(Broken, "logs", fmt.Sprintf("%s may not be read by %s, whom the daemon becomes (mode %04o)", name, d.User, fi.Mode().Perm()),
			"let the group adm read it, after a rotation too (create 0640 root adm, in its logrotate file)", fmt.Sprintf("chgrp adm %s && chmod 640 %[1]s", quote(name)))
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
	d.judge(x)
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
	d.advise(Warning, "logs", fmt.Sprintf("%s: its stamps are %s %s the clock", name, off.Abs().Round(time.Second), way),
		"give the source its zone (zone: …), or set that program's; until then its lines count as they arrive", "stoplog parse "+quote(name))
}

func (d *doctor) unreadable(name string, err error) {
	if errors.Is(err, fs.ErrPermission) && d.EUID != 0 {
		d.say(Note, "logs", name+" cannot be read by you")
		return
	}
	d.advise(Broken, "logs", err.Error(), "let it be read", "ls -l "+quote(name))
}

// judge tells how much of a log is understood. A log of many programs holds
// much that is no event; only nothing at all is suspicious.
func (d *doctor) judge(x sample) {
	what := fmt.Sprintf("%s: %d of the last %s understood", x.name, x.known, plural(x.lines, "line"))
	switch {
	case x.known == 0 && d.ownPatterns():
		d.say(Note, "logs", fmt.Sprintf("%s: %s, understood by the rules' own patterns at most", x.name, plural(x.lines, "line")))
	case x.known == 0 && x.lines >= enoughLines:
		d.advise(Warning, "logs", fmt.Sprintf("%s: none of the last %d lines is understood", x.name, x.lines), "see what is in it, and name its format under sources", x.command())
	case x.known == 0:
		d.say(Note, "logs", fmt.Sprintf("%s: %s, none is understood: too few to judge", x.name, plural(x.lines, "line")))
	default:
		d.say(OK, "logs", what)
	}
}

// ownPatterns reports whether a rule reads lines that nothing else knows.
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
