package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"stoplog/internal/atomicfile"
	"stoplog/internal/rules"
)

// maxBundle bounds the copy of the rules that is read back.
const maxBundle = 64 << 20

// saveLastGood writes a copy of the rules that a later start can fall back on.
// The group of the unprivileged user may read it; only root may write it. An
// unchanged copy stays as it is.
func saveLastGood(e *env, path string, set *rules.Set, group string) error {
	main, dir := "", filepath.Dir(DefaultRules)
	if len(set.Files) > 0 && set.Name != "built-in" {
		main = set.Files[0]
		dir = filepath.Dir(main)
	}
	b, err := rules.NewBundle(set, e.example, main, dir, time.Now())
	if err != nil {
		return fmt.Errorf("copying the rules to %s: %w", path, err)
	}
	if old, err := readLastGood(path); err == nil && old.Main == b.Main && maps.Equal(old.Files, b.Files) {
		return nil
	}
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	dir = filepath.Dir(path)
	if err := os.Mkdir(dir, 0o755); err == nil {
		err = os.Chmod(dir, 0o755) // the umask of a unit may be stricter
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	err = atomicfile.Write(path, data, func(f *os.File, _ fs.FileInfo) error {
		if gid := groupID(group); gid >= 0 && os.Geteuid() == 0 {
			if err := f.Chown(0, gid); err != nil {
				return err
			}
		}
		return f.Chmod(0o640)
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// readLastGood reads the copy back. Nobody but root may have been able to write
// it, for whoever chooses the rules chooses what is blocked.
func readLastGood(path string) (*rules.Bundle, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var dir unix.Stat_t
	if err := unix.Stat(filepath.Dir(path), &dir); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	var file unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, st := range []unix.Stat_t{dir, file} {
		if st.Uid != 0 || st.Mode&0o022 != 0 {
			return nil, fmt.Errorf("%s: somebody else than root can write it or its folder", path)
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBundle))
	if err != nil {
		return nil, err
	}
	var b rules.Bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &b, nil
}

// loadOrLastGood is loadRules, but of broken rules it takes the last good ones.
// Then the problems hold the mistakes that keep the newer rules from use, and a
// note says what is in use instead.
func (e *env) loadOrLastGood(o runOptions) (set *rules.Set, problems []rules.Problem, note string) {
	set, problems, name := e.loadUsable(o.config)
	if set != nil || o.lastGood == "" {
		return set, problems, ""
	}
	b, err := readLastGood(o.lastGood)
	if err != nil {
		return nil, append(problems, rules.Problem{File: o.lastGood, Msg: "no last good rules: " + err.Error()}), ""
	}
	old, more := b.Load(e.example)
	if old == nil {
		return nil, append(problems, more...), ""
	}
	return old, problems, fmt.Sprintf("%s: %s; running with the last good rules, of %s (run: stoplog check)",
		name, plural(mistakes(problems), "mistake"), b.Saved.Format(time.RFC3339))
}

func mistakes(problems []rules.Problem) (n int) {
	for _, p := range problems {
		if !p.Warning {
			n++
		}
	}
	return n
}
