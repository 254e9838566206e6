package source

import (
	"os"
	"path/filepath"
	"strings"
)

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
