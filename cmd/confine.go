package cmd

import (
	"path/filepath"
	"strings"

	"stoplog/internal/priv"
	"stoplog/internal/rules"
)

// confinement is what the reading process may open, for as long as it lives.
type confinement struct {
	said        string
	on          bool
	read, write []string
}

// systemPlaces are read by us and by journalctl: programs and libraries, the
// configuration (which the owner and mode of its files still guard), logs,
// what the kernel and other services tell of themselves.
var systemPlaces = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/sys", "/run", "/dev",
	"/var/log", "/var/db", "/var/lib/ca-certificates", "/nix/store", "/gnu/store",
}

// confine shuts the reading process in, once and for all. It is left open
// when rules start programs: these would be shut in as well, and nobody knows
// what they need. set may be nil.
func confine(e *env, o runOptions, set *rules.Set) (confinement, error) {
	switch {
	case set == nil:
		return confinement{said: "no Landlock: no rules"}, nil
	case startsPrograms(set):
		return confinement{said: "no Landlock, for the rules start programs that may need more"}, nil
	}
	read := append(append([]string(nil), systemPlaces...), readPlaces(set)...)
	if o.config != "" {
		read = append(read, absDir(o.config))
	}
	write := append([]string{absolute(o.state), absolute(o.flags), absDir(e.socket), "/dev/null"}, writePlaces(set)...)
	said, err := priv.Confine(read, write)
	return confinement{said: said, on: strings.HasPrefix(said, "Landlock"), read: append(read, write...), write: write}, err
}

// lacks returns what rules that are read later want and cannot have.
func (c confinement) lacks(set *rules.Set) (out []string) {
	if !c.on {
		return nil
	}
	for _, p := range readPlaces(set) {
		if !covers(c.read, p) {
			out = append(out, p+" was not in the rules at the start and is shut: restart to open it")
		}
	}
	for _, p := range writePlaces(set) {
		if !covers(c.write, p) {
			out = append(out, p+" was not to be written to by the rules at the start, and cannot be: restart to open it")
		}
	}
	if startsPrograms(set) {
		out = append(out, "programs that the rules start see as little as this process: restart to let them see more")
	}
	return out
}

// covers reports whether path is one of places or below one.
func covers(places []string, path string) bool {
	for _, r := range places {
		if path == r || strings.HasPrefix(path, strings.TrimSuffix(r, "/")+"/") {
			return true
		}
	}
	return false
}

// startsPrograms reports whether an answer or a target of notify is a program.
func startsPrograms(set *rules.Set) bool {
	for _, n := range set.Notify {
		if len(n.Exec) > 0 {
			return true
		}
	}
	for _, r := range set.Rules {
		for _, l := range r.Levels {
			for _, a := range l.Then {
				if a.Kind == rules.Exec {
					return true
				}
			}
		}
	}
	return false
}

// readPlaces are the folders of all that the rules name: logs and where links
// among them lead, lists, secrets.
func readPlaces(set *rules.Set) (out []string) {
	files := append([]string(nil), set.Files...)
	files = append(append(files, set.Allow.Files...), set.Deny.Files...)
	for _, s := range set.Sources {
		if s.Path != "" {
			files = append(files, s.Path)
		}
	}
	for _, l := range []rules.Listener{set.Listen.Page, set.Listen.Feed, set.Listen.Metrics.Listener, set.Listen.Check.Listener} {
		files = append(files, l.TokenFile)
	}
	for _, n := range set.Notify {
		files = append(files, n.Email.PasswordFile)
	}
	for _, r := range set.Rules {
		if r.Tiers != nil {
			files = append(files, r.Tiers.File)
		}
		if r.Pattern != nil && r.Pattern.Of != nil {
			files = append(files, r.Pattern.Of.Path)
		}
	}
	for _, f := range files {
		if f != "" {
			out = append(out, folders(f)...)
		}
	}
	return compact(out)
}

// folders are where a file or glob is: the nearest folder that exists, unless
// that is the root, and the folders that links among the matches lead to.
func folders(glob string) (out []string) {
	dir := filepath.Dir(absolute(glob))
	for strings.ContainsAny(dir, `*?[\`) {
		dir = filepath.Dir(dir)
	}
	for dir != "/" && !rules.Exists(dir) {
		dir = filepath.Dir(dir)
	}
	if dir != "/" {
		out = append(out, dir)
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
			out = append(out, real)
		}
	}
	matches, _ := filepath.Glob(glob)
	for _, m := range matches {
		real, err := filepath.EvalSymlinks(m)
		if err != nil || strings.HasPrefix(real, dir+"/") {
			continue
		}
		// Containers' logs have a folder each, beside those to come.
		if up := filepath.Dir(filepath.Dir(real)); strings.Count(up, "/") > 1 {
			out = append(out, up)
		} else {
			out = append(out, filepath.Dir(real))
		}
	}
	return out
}

// writePlaces are the folders of all that is kept current outside the state.
func writePlaces(set *rules.Set) (out []string) {
	for _, x := range set.Exports {
		out = append(out, absDir(x.File))
	}
	for _, l := range []rules.Listener{set.Listen.Page, set.Listen.Feed, set.Listen.Metrics.Listener, set.Listen.Check.Listener} {
		if strings.HasPrefix(l.Addr, "/") {
			out = append(out, absDir(l.Addr))
		}
	}
	if f := set.Listen.Metrics.Textfile; f != "" {
		out = append(out, absDir(f))
	}
	if set.Flags.Dir != "" {
		out = append(out, absolute(set.Flags.Dir))
	}
	return compact(out)
}

func absolute(path string) string {
	if a, err := filepath.Abs(path); err == nil {
		return a
	}
	return path
}

func absDir(path string) string { return filepath.Dir(absolute(path)) }

func compact(paths []string) (out []string) {
	seen := map[string]bool{}
	for _, p := range paths {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}
