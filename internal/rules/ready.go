package rules

import (
	"embed"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed ready/*.yaml
var readyFiles embed.FS

// readyRules is one file of ready rules: the usual logs of a service, and
// what to count in them.
type readyRules struct {
	About   string   `in:"ready rules" key:"about,required" doc:"what it protects" what:"a sentence"`
	Auto    bool     `key:"auto" doc:"whether use: auto turns it on" default:"false"`
	Sources []Source `key:"sources" doc:"usual logs"`
	Drafts  []draft  `key:"rules" doc:"what to count"`
}

// Ready is what a person may want to know of one set of ready rules.
type Ready struct{ Name, About, Text string }

// ReadyRules lists the ready rules that this binary holds, by name.
func ReadyRules() []Ready {
	var out []Ready
	for _, n := range readyNames() {
		data, err := readyFiles.ReadFile("ready/" + n + ".yaml")
		if err != nil {
			continue
		}
		r, _ := readReady(n)
		out = append(out, Ready{Name: n, About: r.About, Text: string(data)})
	}
	return out
}

func readyNames() []string {
	entries, err := readyFiles.ReadDir("ready")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return out
}

func readReady(name string) (readyRules, []Problem) {
	c := &checker{file: "ready:" + name}
	var r readyRules
	data, err := readyFiles.ReadFile("ready/" + name + ".yaml")
	if err != nil {
		return r, []Problem{{File: c.file, Msg: err.Error()}}
	}
	if root := c.document(data); root != nil {
		objectFor[readyRules]().into(c, root, &r)
	}
	for i := range r.Sources {
		r.Sources[i].Ready = name
	}
	for i := range r.Drafts {
		r.Drafts[i].Ready = name
	}
	return r, c.problems
}

// useReady switches on what `use` names: names, auto, and -name to leave one
// of auto out.
func (c *checker) useReady(b *book) {
	names := readyNames()
	on, auto := c.used(b.used, names)
	for _, n := range names {
		if !on[n] && !auto[n] {
			continue
		}
		r, ps := readReady(n)
		c.problems = append(c.problems, ps...)
		if !on[n] && !r.Auto {
			continue
		}
		b.Ready = append(b.Ready, n)
		b.Drafts = append(b.Drafts, r.Drafts...)
		for _, s := range r.Sources {
			b.addSource(s)
		}
	}
}

func (c *checker) used(use []usage, names []string) (on, auto map[string]bool) {
	on, auto = map[string]bool{}, map[string]bool{}
	var off []usage
	for _, u := range use {
		n, minus := strings.CutPrefix(u.name, "-")
		switch {
		case u.name == "auto":
			for _, n := range names {
				auto[n] = true
			}
		case !slices.Contains(names, n):
			if n != "" {
				(&sink{c, u.file}).fail(u.node, didYouMean(n, append([]string{"auto"}, names...)), "there are no built-in rules %q", clip(n))
			}
		case minus:
			off = append(off, u)
		default:
			on[n] = true
		}
	}
	for _, u := range off {
		c.leaveOut(u, on, auto)
	}
	return on, auto
}

// leaveOut takes -name out of what auto switches on.
func (c *checker) leaveOut(u usage, on, auto map[string]bool) {
	in, n := &sink{c, u.file}, u.name[1:]
	switch {
	case on[n]:
		in.fail(u.node, "", "%s is both turned on and turned off", n)
	case len(auto) == 0:
		in.warn(u.node.Line, "use: [auto, "+u.name+"]", "%s has no effect without auto", u.name)
	}
	delete(auto, n)
}

// addSource adds a ready rule's source unless the file names the same place.
func (b *book) addSource(s Source) {
	for _, o := range b.Sources {
		if o.Kind == s.Kind && (s.Kind == Auth || o.Path == s.Path) {
			return
		}
	}
	b.Sources = append(b.Sources, s)
}

// Waiting returns the globs of a ready rule's logs of which none exists; the
// rule idles until they do. exists answers for one path or glob.
func (s *Set) Waiting(exists func(glob string) bool) []string {
	var out []string
	for _, src := range s.Sources {
		if src.Ready != "" && src.Kind == File && !exists(src.Path) {
			out = append(out, src.Path)
		}
	}
	return out
}

// Exists reports whether any file matches glob now.
func Exists(glob string) bool {
	m, err := filepath.Glob(glob)
	return err == nil && len(m) > 0
}
