package migrate

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	c := newIni()
	base := filepath.Join(m.dir, "filter.d", name)
	found = c.load(base+".conf", 0)
	local := c.load(base+".local", 0)
	m.notes = append(m.notes, c.problems...)
	if !found && !local {
		return f, false
	}
	given := map[string]string{"__prefix_line": prefixMark}
	for k, v := range params {
		given[k] = v
	}
	s := scope{conf: c, section: "Definition", params: given}
	text := func(key string) string {
		v, o, err := s.get(key)
		if err != nil {
			m.note(o, "%s of filter %s: %v", key, name, err)
			return ""
		}
		return m.fillTags(s, v)
	}
	if o := s.find("failregex"); o != nil {
		f.file, f.line = o.file, o.line
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
func (m *importer) fillTags(s scope, text string) string {
	for range maxNesting {
		next := tagRE.ReplaceAllStringFunc(text, func(tag string) string {
			name := strings.ToLower(tag[1 : len(tag)-1])
			if isReserved(name) {
				return tag
			}
			if v, ok := s.params[name]; ok {
				return v
			}
			in := s
			if section, rest, ok := strings.Cut(name, "/"); ok {
				in.section, name = section, rest
			}
			v, o, err := in.get(name)
			if err != nil || o == nil {
				return tag
			}
			return v
		})
		if next == text || len(next) > maxValue {
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
