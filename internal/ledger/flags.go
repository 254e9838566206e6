package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"stoplog/internal/atomicfile"
	"strings"
	"time"
)

// maxFlags bounds the flags that are up.
const maxFlags = 1000

// flags are named conditions that are up for a time, each a file in dir, so
// that others can read them even when stoplog is dead.
//
// A file is two lines of text and is replaced as a whole: the end as Unix
// seconds in decimal digits, and the same in RFC 3339 for people. A flag is up
// while its file exists and its end is in the future:
//
//	[ "$(head -n1 /run/stoplog/flags/captcha 2>/dev/null || echo 0)" -gt "$(date +%s)" ]
type flags struct {
	by   map[string][]FlagState // one or several spans of time a name
	dir  string
	seen int64 // when expire was called last
	// waiting are flags that a breach raised which the log has to tell again
	// after a restart: they are up for everybody but the rules.
	waiting map[string]FlagState
}

// flagName reports whether a flag may be called that.
func flagName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && s[0] != '-'
}

func (f *flags) up(name string, at int64) bool {
	if len(f.by) == 0 {
		return false
	}
	return slices.ContainsFunc(f.by[name], func(s FlagState) bool {
		return s.Since.UnixNano() <= at && at < s.Until.UnixNano()
	})
}

// raise puts up a flag, or prolongs it if it stands when s begins.
func (f *flags) raise(s FlagState) {
	spans := f.by[s.Name]
	for i := range spans {
		if o := &spans[i]; !s.Since.Before(o.Since) && s.Since.Before(o.Until) {
			if s.Until.After(o.Until) || s.By != "" {
				o.Until, o.Reason, o.By, o.Rule = s.Until, s.Reason, s.By, s.Rule
			}
			return
		}
	}
	if len(spans) >= maxSpans {
		spans = slices.Delete(spans, 0, 1)
	}
	f.by[s.Name] = append(spans, s)
}

// clear lowers a flag at an instant; false when it was not up.
func (f *flags) clear(name string, at time.Time) bool {
	found := f.waiting[name].Until.After(at)
	delete(f.waiting, name)
	for i := range f.by[name] {
		if s := &f.by[name][i]; s.Until.After(at) {
			s.Until, found = at, true
			if s.Since.After(at) {
				s.Until = s.Since
			}
		}
	}
	return found
}

// state is the span of a flag that lasts longest after now.
func (f *flags) state(name string, now int64) (FlagState, bool) {
	best := f.waiting[name]
	if best.Until.UnixNano() <= now {
		best = FlagState{}
	}
	for _, s := range f.by[name] {
		if s.Until.UnixNano() > now && s.Until.After(best.Until) {
			best = s
		}
	}
	return best, best.Name != ""
}

// next is when the next flag falls or can be forgotten, 0 when none waits.
func (f *flags) next() int64 {
	next := int64(0)
	for _, s := range f.waiting {
		if n := s.Until.UnixNano(); n > f.seen && (next == 0 || n < next) {
			next = n
		}
	}
	for _, spans := range f.by {
		for _, s := range spans {
			n := s.Until.UnixNano()
			if n <= f.seen {
				n += remember
			}
			if n > f.seen && (next == 0 || n < next) {
				next = n
			}
		}
	}
	return next
}

// names lists all flags that may be up, sorted.
func (f *flags) names() []string {
	all := map[string]bool{}
	for name := range f.by {
		all[name] = true
	}
	for name := range f.waiting {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// expire forgets the spans that are over and removes the files of flags that
// are down. keep keeps the spans.
func (f *flags) expire(now int64, keep bool) error {
	var errs []error
	f.seen = now
	for _, name := range f.names() {
		if _, up := f.state(name, now); !up {
			errs = append(errs, f.write(name, now))
		}
		if keep {
			continue
		}
		spans := f.by[name]
		spans = slices.DeleteFunc(spans, func(s FlagState) bool { return s.Until.UnixNano()+remember <= now })
		if f.by[name] = spans; len(spans) == 0 {
			delete(f.by, name)
		}
	}
	return errors.Join(errs...)
}

// write brings the file of a flag up to date.
func (f *flags) write(name string, now int64) error {
	if f.dir == "" {
		return nil
	}
	path := filepath.Join(f.dir, name)
	s, up := f.state(name, now)
	if !up {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	return replace(path, 0o644, fmt.Appendf(nil, "%d\n%s\n", s.Until.Unix(), s.Until.UTC().Format(time.RFC3339)))
}

// writeAll brings all files up to date and removes those of flags that are
// not up.
func (f *flags) writeAll(now int64) error {
	if f.dir == "" {
		return nil
	}
	var errs []error
	for _, name := range f.names() {
		errs = append(errs, f.write(name, now))
	}
	files, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, file := range files {
		if _, up := f.state(file.Name(), now); !up && flagName(file.Name()) && file.Type().IsRegular() {
			errs = append(errs, f.write(file.Name(), now))
		}
	}
	return errors.Join(errs...)
}

// replace writes a file that others read, which was there never or whole.
func replace(path string, mode os.FileMode, data []byte) error {
	return atomicfile.Write(path, data, func(f *os.File, _ fs.FileInfo) error { return f.Chmod(mode) })
}
