package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// scan makes the followers those that the specs ask for. A follower that
// stays keeps its place.
func (e *engine) scan() {
	wanted := map[string]bool{}
	e.wereRotated, e.rotated = e.rotated, map[string]bool{}
	for i, spec := range e.specs {
		for _, path := range e.paths(spec) {
			if wanted[path] {
				continue // an earlier source reads it
			}
			wanted[path] = true
			e.follow(path, i, spec)
		}
	}
	for _, spec := range e.specs {
		if err := closedFolder(spec.File); err != nil && !e.scanned[spec.File] {
			e.report(spec.File, err)
		}
		e.scanned[spec.File] = true
	}
	for _, f := range slices.Clone(e.list) {
		if !wanted[f.path] && (len(f.chain) == 0 || !e.asked(f)) {
			e.unfollow(f)
		}
	}
}

// asked reports whether a glob of the specs still covers f, whose file is
// gone but may be read on.
func (e *engine) asked(f *follower) bool {
	return f.glob && slices.ContainsFunc(e.specs, func(s Spec) bool {
		ok, _ := filepath.Match(s.File, f.path)
		return ok && hasMeta(s.File)
	})
}

// paths lists the files of spec. A glob that also matches what rotation makes
// of a file that it matches leaves that to the file's follower.
func (e *engine) paths(spec Spec) []string {
	if spec.Auth {
		return e.opts.AuthFiles
	}
	if !hasMeta(spec.File) {
		if spec.File == "" {
			return nil
		}
		return []string{filepath.Clean(spec.File)}
	}
	found, _ := filepath.Glob(spec.File)
	all := map[string]bool{}
	for _, path := range found {
		all[path] = true
	}
	return slices.DeleteFunc(found, func(path string) bool {
		if Excluded(path, spec.Exclude) || isCompressedName(path) {
			return true
		}
		if e.rotationOf(path, all) {
			e.rotated[path] = true
		}
		return e.rotated[path]
	})
}

// closedFolder is why a glob finds nothing although there may be files: one of
// the folders that it names, and not only describes, may not be read. It is
// nil for a path that is no glob, whose follower tells.
func closedFolder(glob string) error {
	if !hasMeta(glob) {
		return nil
	}
	dir := filepath.Dir(glob)
	for hasMeta(dir) {
		dir = filepath.Dir(dir)
	}
	d, err := os.Open(dir)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return errors.New("unreadable: folder " + dir + ": permission denied")
		}
		return nil // not there yet
	}
	d.Close()
	return nil
}

// Excluded reports whether one of a source's exclude globs matches path, as a
// whole or its last part.
func Excluded(path string, globs []string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		full, _ := filepath.Match(glob, path)
		base, _ := filepath.Match(glob, filepath.Base(path))
		return full || base
	})
}

// rotationOf reports whether path is a rotation of one of all, or of a file
// that is followed and about to come back.
func (e *engine) rotationOf(path string, all map[string]bool) bool {
	dir, name := filepath.Split(path)
	for i := range name {
		if i == 0 || (name[i] != '.' && name[i] != '-') {
			continue
		}
		for _, base := range []string{name[:i], name[:i] + filepath.Ext(name)} {
			other := dir + base
			if other != path && isRotated(name, base) && (all[other] || e.followers[other] != nil) {
				return true
			}
		}
	}
	return false
}

// follow makes sure that path is followed for specs[i].
func (e *engine) follow(path string, i int, spec Spec) {
	origin := Origin{Name: path, Service: spec.Service, Format: spec.Format, Spec: i}
	if f := e.followers[path]; f != nil {
		if *f.origin != origin {
			f.origin = &origin
		}
		f.maxLine = e.opts.maxLine(spec)
		return
	}
	if len(e.list) >= maxFollowed {
		if !e.fullNoted {
			e.fullNoted = true
			e.report(path, errors.New("not read: too many files"))
		}
		return
	}
	f := &follower{
		path: path, glob: hasMeta(spec.File), pattern: spec.File, origin: &origin,
		maxLine: e.opts.maxLine(spec), since: e.opts.since(spec),
		dirs: &e.listing, begins: fromStart, backlog: true, check: true,
		status: Status{Name: path, State: Starting},
	}
	if f.saved = e.saved.get(path); f.saved != (Pos{}) {
		f.begins = fromSaved
	} else if e.stoodThere(path, spec) {
		f.begins = fromEnd
	}
	e.followers[path] = f
	e.twins.join(path, false, e.saved.get(path).Twin)
	f.twin = e.twins.standsBy(path)
	e.list = append(e.list, f)
	e.enqueue(f)
	e.publish(e.list)
}

// stoodThere reports whether path, now found for spec, held lines before anyone
// asked for them. What a glob gains that was there before is new, all of it
// unread, unless it is what rotation made of a log that is gone now.
func (e *engine) stoodThere(path string, spec Spec) bool {
	switch {
	case !hasMeta(spec.File) || e.saved.get(path) != (Pos{}):
		return true
	case e.first:
		return !e.opts.since(spec).IsZero() || !e.saved.gained(path, spec.File)
	}
	return !e.scanned[spec.File] || e.wereRotated[path]
}

// unfollow gives f up. Of a file that is gone and was read to its end nothing
// is kept: another one of that name is new.
func (e *engine) unfollow(f *follower) {
	if len(f.chain) == 0 {
		e.saved.drop(f.path)
	}
	e.drop(f)
	e.arrived(f)
	e.notBusy(f)
	delete(e.followers, f.path)
	e.twins.leave(f.path)
	e.list = slices.DeleteFunc(e.list, func(o *follower) bool { return o == f })
	e.publish(e.list)
}

// onDirs looks again at the names that events concern.
func (e *engine) onDirs(events []dirEvent) {
	rescan, concerned := false, false
	for _, ev := range events {
		for _, f := range e.list {
			if ev.affects(f.path) || f.link != "" && ev.affects(f.link) {
				f.check, concerned = true, true
				e.enqueue(f)
			}
		}
		rescan = rescan || slices.ContainsFunc(e.specs, func(s Spec) bool {
			return hasMeta(s.File) && ev.mayMatch(s.File)
		})
		e.dirs.refresh(filepath.Join(ev.Dir, ev.Name))
	}
	if rescan {
		e.scan()
	}
	if rescan || concerned {
		e.arrange()
	}
}

// affects reports whether path may lead elsewhere after the event.
func (ev dirEvent) affects(path string) bool {
	if ev.Dir == "" {
		return true
	}
	changed := filepath.Join(ev.Dir, ev.Name)
	return path == changed || strings.HasPrefix(path, changed+"/")
}

// mayMatch reports whether glob may match other paths after the event.
func (ev dirEvent) mayMatch(glob string) bool {
	if ev.Dir == "" {
		return true
	}
	changed := filepath.Join(ev.Dir, ev.Name)
	for strings.Count(glob, "/") > strings.Count(changed, "/") {
		glob = filepath.Dir(glob)
	}
	ok, _ := filepath.Match(glob, changed)
	return ok
}

// arrange watches the directories that matter now, and looks at everything
// again when there are new ones: their past is unknown.
func (e *engine) arrange() {
	if e.dirs == nil {
		return
	}
	dirs := map[string]bool{}
	done := map[string]bool{}
	add := func(dir string) {
		if !done[dir] {
			done[dir] = true
			addAround(dirs, dir)
		}
	}
	for _, spec := range e.specs {
		if spec.File != "" {
			add(filepath.Dir(spec.File))
		}
	}
	for _, f := range e.list {
		add(filepath.Dir(f.path))
		if f.link = linkTarget(f.path); f.link != "" {
			add(filepath.Dir(f.link))
		}
	}
	if e.dirs.want(dirs) {
		e.scan()
		for _, f := range e.list {
			f.check = true
			e.enqueue(f)
		}
	}
}

// sweep looks at everything that the kernel may not have told of.
func (e *engine) sweep() {
	now := time.Now()
	all := now.Sub(e.lastSweep) >= sweepEvery
	missing := now.Sub(e.lastMissed) >= missingEvery
	for _, f := range e.list {
		if all || f.wakes == byPolling || e.dirs == nil || missing && (f.why != nil || len(f.chain) > 1 || !f.retry.since.IsZero()) {
			f.check = true
			e.enqueue(f)
		}
	}
	if missing {
		e.lastMissed = now
	}
	all = all || missing && e.dirs == nil
	if all || missing && slices.ContainsFunc(e.list, func(f *follower) bool { return f.wakes == byPolling }) {
		e.lastSweep = now
		e.scan()
		e.arrange()
	}
}

// dirEvent says that the entry Name of the directory Dir came, went or
// changed; an empty Name is the directory itself, an empty Dir any of them.
type dirEvent struct{ Dir, Name string }

// addAround adds to dirs those in which a change can give the names in dir
// another meaning: itself, the one above, and each that a glob expands to. Of
// those that do not exist the nearest that does.
func addAround(dirs map[string]bool, dir string) {
	if hasMeta(dir) {
		found, _ := filepath.Glob(dir)
		for _, f := range found {
			dirs[f] = true
		}
		addAround(dirs, filepath.Dir(dir))
		return
	}
	for dir != "/" {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
		dir = filepath.Dir(dir)
	}
	dirs[dir] = true
	dirs[filepath.Dir(dir)] = true
}

// linkTarget is where path leads when it is a symbolic link, also one that
// dangles; else empty.
func linkTarget(path string) string {
	target, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	return target
}

func hasMeta(path string) bool { return strings.ContainsAny(path, `*?[\`) }
