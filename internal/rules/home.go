package rules

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"stoplog/internal/parse"
	"stoplog/internal/parse/pack"
	"stoplog/internal/source"
)

// ServiceOf names the service that writes a log at its usual place: that of the
// ready rule whose source it is, used or not, or of the pack whose logs it is
// among. Rotated names count. "" when nobody is known to write there.
func ServiceOf(path string) string {
	for _, h := range homes() {
		if h.Names(path) {
			return h.Service
		}
	}
	return pack.ServiceOf(func(glob string) bool { return PathMatches(glob, path) })
}

// homes are the sources of all ready rules that name a service.
var homes = sync.OnceValue(func() []Source {
	var out []Source
	for _, n := range readyNames() {
		r, _ := readReady(n)
		out = append(out, slices.DeleteFunc(r.Sources, func(s Source) bool { return s.Kind != File || s.Service == "" })...)
	}
	return out
})

// Names reports whether the source is of files and path is one of them, or
// was before it was rotated.
func (s *Source) Names(path string) bool {
	return s.Kind == File && PathMatches(s.Path, path) &&
		former(path, func(name string) bool { return source.Excluded(name, s.Exclude) }) == ""
}

// PathMatches reports whether glob matches path, or what path was called before
// it was rotated: access.log of access.log.2.gz and of access.log-20261120.gz.
func PathMatches(glob, path string) bool { return unrotated(glob, path) != "" }

// unrotated is the first of path and what it was called before rotations that
// glob matches, "" when it matches none.
func unrotated(glob, path string) string {
	return former(path, func(name string) bool {
		ok, _ := filepath.Match(glob, name)
		return ok
	})
}

// former is the first name that is accepts: path, or what path was called before
// rotations; "" for none.
func former(path string, is func(name string) bool) string {
	for name := path; name != ""; name = cutExtension(name) {
		if is(name) {
			return name
		}
	}
	return ""
}

// LogOf is what the daemon calls the log at path, relative or absolute: the name
// before rotations by which a source lists it, else the absolute path.
func (s *Set) LogOf(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	for i := range s.Sources {
		if s.Sources[i].Names(path) {
			return unrotated(s.Sources[i].Path, path)
		}
	}
	return path
}

// cutExtension takes the last extension or date off a path, "" when it has
// none.
func cutExtension(path string) string {
	base := filepath.Base(path)
	i := strings.LastIndexAny(base, ".-")
	if i <= 0 || base[i] == '-' && strings.Trim(base[i+1:], "0123456789") != "" {
		return ""
	}
	return path[:len(path)-len(base)+i]
}

// Writer is the service that parse.Options takes for the source's lines in an
// origin of that name: the one that it names, or the one that usually writes
// there. "" when only the tags of the lines tell.
func (s *Source) Writer(origin string) string {
	switch {
	case s.Service != "":
		return s.Service
	case s.Kind == Auth:
		return parse.Syslog
	case s.Kind == File && (s.Format == "" || s.Format == "auto"):
		return ServiceOf(origin)
	}
	return ""
}

// ReadsEveryLine reports whether each line of a log of the source can be read: it
// names a format, or is an access log.
func (s *Source) ReadsEveryLine(origin string) bool {
	return s.Format != "" && s.Format != "auto" || s.Writer(origin) == parse.AccessLog
}

// own reports whether the user listed the source and named no service: what
// rules' patterns read unless they say otherwise.
func (s *Source) own() bool { return s.Ready == "" && s.Service == "" }

// SourceAs finds the source that name stands for, as it is written in the rules
// or as the path of a log that it follows: its index in Sources, or -1 for a
// usual path of a known service that no source lists; false when nothing is
// known of name.
func (s *Set) SourceAs(name string) (index int, ok bool) {
	for i := range s.Sources {
		if src := &s.Sources[i]; src.Path == name && name != "" || src.mayBe(name) || src.Kind.String() == name && src.Kind != File && src.Kind != Pipe {
			return i, true
		}
	}
	for i := range s.Sources {
		if s.Sources[i].Names(name) {
			return i, true
		}
	}
	return -1, ServiceOf(name) != ""
}
