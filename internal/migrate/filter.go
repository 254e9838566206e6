package migrate

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"stoplog/internal/f2b"
)

// filter is what a jail's filter says, with all names filled in.
type filter struct {
	file      string
	line      int // of failregex
	patterns  []string
	prefix    string // prefregex
	ignores   []string
	journal   string // journalmatch
	programs  []string
	multiLine bool
}

// cutParams takes "name[key=value, other=\"a, b\"]" apart.
func cutParams(s string) (string, map[string]string) {
	params := map[string]string{}
	name, rest, ok := strings.Cut(strings.TrimSpace(s), "[")
	if !ok {
		return strings.TrimSpace(name), params
	}
	for _, m := range paramRE.FindAllStringSubmatch(rest, 64) {
		params[strings.ToLower(m[1])] = strings.Trim(m[2], `"' `)
	}
	return strings.TrimSpace(name), params
}

var paramRE = regexp.MustCompile(`([\w-]+)\s*=\s*("[^"]*"|'[^']*'|[^,\]\n]*)`)

// readFilter reads filter.d/NAME.conf and .local. found is false when neither
// is there; own when the administrator made or changed it.
func (m *importer) readFilter(name string, params map[string]string) (f filter, found bool) {
	if name == "" || strings.ContainsAny(name, "/\\") || strings.HasPrefix(name, ".") {
		return f, false
	}
	c := f2b.NewConf()
	base := filepath.Join(m.dir, "filter.d", name)
	found = c.LoadAll(base + ".conf")
	m.problems(c.Problems)
	if !found {
		return f, false
	}
	given := map[string]string{"__prefix_line": prefixMark}
	for k, v := range params {
		given[k] = v
	}
	s := f2b.Scope{Conf: c, Section: "Definition", Params: given}
	text := func(key string) string {
		v, o, err := s.Get(key)
		if err != nil {
			m.note(o, "%s of filter %s: %v", key, name, err)
			return ""
		}
		return m.fillTags(s, v)
	}
	if o := s.Find("failregex"); o != nil {
		f.file, f.line = o.File, o.Line
	} else {
		f.file = base + ".conf"
	}
	f.patterns, f.ignores = lines(text("failregex")), lines(text("ignoreregex"))
	f.prefix, f.journal = strings.TrimSpace(text("prefregex")), text("journalmatch")
	if n := text("maxlines"); n != "" && n != "1" {
		f.multiLine = true
	}
	if d := text("_daemon"); plainWord.MatchString(d) {
		f.programs = []string{d}
	}
	return f, true
}

var plainWord = regexp.MustCompile(`^[A-Za-z][\w.-]*$`)

// prefixMark stands for fail2ban's pattern of a syslog header, which parsing
// has taken off already when a rule's pattern runs.
const prefixMark = "\x01"

func lines(s string) []string {
	var out []string
	for _, l := range strings.Split(s, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

var tagRE = regexp.MustCompile(`<([A-Za-z_][\w./-]*)>`)

// fillTags replaces <name> by the definition of that name, the innermost
// first: <mdre-<mode>> needs that. What is no definition stays.
func (m *importer) fillTags(s f2b.Scope, text string) string {
	for range 30 {
		next := tagRE.ReplaceAllStringFunc(text, func(tag string) string {
			name := strings.ToLower(tag[1 : len(tag)-1])
			if isReserved(name) {
				return tag
			}
			if v, ok := s.Params[name]; ok {
				return v
			}
			in := s
			if section, rest, ok := strings.Cut(name, "/"); ok {
				in.Section, name = section, rest
			}
			v, o, err := in.Get(name)
			if err != nil || o == nil {
				return tag
			}
			return v
		})
		if next == text || len(next) > 256<<10 {
			return next
		}
		text = next
	}
	return text
}

func isReserved(name string) bool {
	return strings.HasPrefix(name, "f-") ||
		slices.Contains([]string{"host", "addr", "ip4", "ip6", "cidr", "subnet", "dns", "skiplines"}, name)
}
