// Package f2b runs filters of fail2ban (filter.d/*.conf) as they are: it reads
// their files, and finds in a log's lines the failures that fail2ban finds.
//
// It differs where fail2ban can be led astray or astray of its time: a line
// that the filter's expressions can read with two different addresses is read
// with none; host names are never looked up; matching takes time that grows
// linearly with the line.
package f2b

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Options are what a jail says about its filter.
type Options struct {
	// Params are those of filter = NAME[mode=aggressive, …], and what the jail
	// itself sets in place of the filter: failregex, ignoreregex, prefregex,
	// datepattern, maxlines, journalmatch. Keys are in lower case.
	Params map[string]string
	// Journal is whether the jail reads the journal: logtype is then "journal".
	Journal bool
	// NoNames leaves host names out of <HOST>, as usedns = no does.
	NoNames bool
}

// Filter is a filter, compiled. It may be used from several goroutines.
type Filter struct {
	Path         string
	JournalMatch []string // alternatives, each with its fields
	MaxLines     int
	prefix       *Regex
	fail, ignore []*expression
	dates        []*template
}

// expression is a Regex and what its groups are to a filter.
type expression struct {
	*Regex
	addrs []int    // first slots of groups ip4 and ip6
	names []string // of the groups by their number, "" for none
	line  int      // of the file
}

// Limits of a filter.
const (
	maxRegexes    = 200
	maxMaxLines   = 50
	maxAllInsts   = 100_000
	maxTagsFilled = 2000
)

// Load reads the filter in path, as filter.d/NAME.conf, with NAME.local and what
// both include. It returns no filter when a Problem makes it one that would not
// do what it does in fail2ban.
func Load(path string, o Options) (*Filter, []Problem) {
	c := NewConf()
	if !c.LoadAll(path) {
		if len(c.Problems) == 0 {
			_, err := os.Stat(path)
			c.Problems = append(c.Problems, Problem{File: path, Msg: cause(err)})
		}
		return nil, c.Problems
	}
	if len(c.Problems) > 0 {
		return nil, c.Problems
	}
	b := &builder{conf: c, path: path, opt: o, f: &Filter{Path: path, MaxLines: 1}}
	b.params()
	b.build()
	if len(b.problems) > 0 {
		return nil, b.problems
	}
	return b.f, nil
}

// builder makes a filter of its files.
type builder struct {
	conf     *Conf
	path     string
	opt      Options
	scope    Scope
	f        *Filter
	insts    int
	problems []Problem
}

func (b *builder) fail(o *Option, format string, args ...any) {
	p := Problem{File: b.path, Msg: fmt.Sprintf(format, args...)}
	if o != nil && o.File != "" {
		p.File, p.Line = o.File, o.Line
	}
	b.problems = append(b.problems, p)
}

// params gathers what comes before the definition: the jail's parameters, then
// what [Init] gives those that the jail does not.
func (b *builder) params() {
	all := map[string]string{}
	b.scope = Scope{Conf: b.conf, Section: "Definition", Params: all}
	for k, v := range b.opt.Params {
		all[k] = v
	}
	init := Scope{Conf: b.conf, Section: "Init", Params: nil}
	keys := make([]string, 0, 8)
	for k := range b.conf.Section("Init") {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		v, o, err := init.Get(k)
		if err != nil {
			b.fail(o, "%s: %v", k, err)
			continue
		}
		all["known/"+k] = v
		if _, ok := all[k]; !ok {
			all[k] = v
		}
	}
	if all["logtype"] == "" && b.conf.Section("Definition")["logtype"] == nil {
		all["logtype"] = "file"
		if b.opt.Journal {
			all["logtype"] = "journal"
		}
	}
}

// text is the value of a key, with names and tags filled in.
func (b *builder) text(key string) (string, *Option) {
	var o *Option
	v, given := b.scope.Params[key]
	if given {
		o = b.conf.Section("Init")[key]
	} else {
		var err error
		if v, o, err = b.scope.Get(key); err != nil {
			b.fail(o, "%s: %v", key, err)
			return "", o
		}
	}
	v, err := FillTags(b.scope, key, v)
	if err != nil {
		b.fail(o, "%s: %v", key, err)
		return "", o
	}
	return v, o
}

var tagRE = regexp.MustCompile(`<([^ <>]+)>`)

// FillTags replaces each <name> in the value of key by what the name means
// (fail2ban's helpers.substituteRecursiveTags): the innermost first, since
// <mdre-<mode>> needs that. A name without a meaning stays.
func FillTags(s Scope, key, text string) (string, error) {
	from := 0
	for n := 0; ; n++ {
		loc := tagRE.FindStringSubmatchIndex(text[from:])
		if loc == nil {
			if from == 0 {
				return text, nil
			}
			// What was filled in before a tag may have completed one around it.
			if from = 0; n > maxTagsFilled || !fillable(s, text) {
				return text, nil
			}
			continue
		}
		tag, name := text[from+loc[0]:from+loc[1]], text[from+loc[2]:from+loc[3]]
		v, ok, err := tagged(s, name)
		if err != nil {
			return "", err
		}
		if !ok {
			from += loc[1]
			continue
		}
		if strings.EqualFold(name, key) || n > maxTagsFilled {
			return "", fmt.Errorf("<%s> refers to itself", clip(name))
		}
		text = strings.ReplaceAll(text, tag, v)
		if len(text) > maxValue {
			return "", fmt.Errorf("longer than %d bytes with its tags filled in", maxValue)
		}
	}
}

func fillable(s Scope, text string) bool {
	for _, m := range tagRE.FindAllStringSubmatch(text, -1) {
		if _, ok, err := tagged(s, m[1]); ok || err != nil {
			return true
		}
	}
	return false
}

func tagged(s Scope, name string) (string, bool, error) {
	name = strings.ToLower(name)
	if v, ok := s.Params[name]; ok {
		return v, true, nil
	}
	in := s
	if section, rest, ok := strings.Cut(name, "/"); ok {
		if section == "" || rest == "" {
			return "", false, nil // </F-USER>
		}
		if in.Section = s.Conf.named(section); section != "known" && s.Conf.Section(in.Section) == nil {
			return "", false, nil
		}
		if section == "known" {
			in.Section = s.Section
		}
		name = rest
	}
	if in.Section != "Definition" {
		in.Params = nil
	}
	v, o, err := in.Get(name)
	return v, o != nil, err
}

// named is the section of that name, whatever its case.
func (c *Conf) named(name string) string {
	for _, have := range c.Order {
		if strings.EqualFold(have, name) {
			return have
		}
	}
	return name
}

// build reads the definition and compiles it.
func (b *builder) build() {
	f := b.f
	if v, o := b.text("maxlines"); v != "" {
		n, err := strconv.Atoi(strings.TrimSpace(v))
		if err != nil || n < 1 || n > maxMaxLines {
			b.fail(o, "maxlines: %.40q is not a number from 1 to %d", v, maxMaxLines)
			return
		}
		f.MaxLines = n
	}
	if v, _ := b.text("usedns"); v == "no" {
		b.opt.NoNames = true
	}
	if v, o := b.text("prefregex"); strings.TrimSpace(v) != "" {
		if e := b.compile("prefregex", v, o, 0); e != nil {
			f.prefix = e.Regex
		}
	}
	f.fail = b.all("failregex")
	f.ignore = b.all("ignoreregex")
	if len(f.fail) == 0 && len(b.problems) == 0 {
		b.fail(b.conf.Section("Definition")["failregex"], "there is no failregex")
	}
	for _, e := range f.fail {
		if !e.identifies() && (f.prefix == nil || !(&expression{Regex: f.prefix}).identifies()) {
			b.fail(&Option{File: b.path, Line: e.line}, "failregex: %q has no address: <HOST>, <ADDR> or <F-MLFID>", clip(e.src))
		}
	}
	v, _ := b.text("journalmatch")
	for _, l := range strings.Split(v, "\n") {
		for _, alternative := range strings.Split(" "+strings.TrimSpace(l)+" ", " + ") {
			if alternative = strings.TrimSpace(alternative); alternative != "" {
				f.JournalMatch = append(f.JournalMatch, alternative)
			}
		}
	}
	v, o := b.text("datepattern")
	dates, err := templates(v)
	if err != nil {
		b.fail(o, "datepattern: %v", err)
	}
	f.dates = dates
}

func (e *expression) identifies() bool {
	for _, name := range []string{"fid", "ip4", "ip6", "dns", "mlfid"} {
		if e.Regex.names[name] != 0 {
			return true
		}
	}
	return false
}

func (b *builder) all(key string) (out []*expression) {
	v, o := b.text(key)
	for i, l := range strings.Split(v, "\n") {
		if l == "" {
			continue
		}
		if len(out) == maxRegexes {
			b.fail(o, "%s: more than %d expressions", key, maxRegexes)
			return out
		}
		if e := b.compile(key, l, o, i); e != nil {
			out = append(out, e)
		}
	}
	return out
}

func (b *builder) compile(key, src string, o *Option, n int) *expression {
	var at Option
	if o != nil {
		at = *o
		if !strings.Contains(o.Value, "%(") && !strings.Contains(o.Value, "<re") {
			at.Line += n // one a line, unless comments are among them
		}
	}
	if strings.Contains(src, "\\n") && b.f.MaxLines == 1 && strings.Contains(src, "<SKIPLINES>") {
		b.fail(&at, "%s: <SKIPLINES> needs maxlines", key)
		return nil
	}
	full := resolveTags(src, b.opt.NoNames)
	re, err := Compile(globalFlags.ReplaceAllString(full, "${1}${2}:"), b.f.MaxLines > 1)
	if err != nil {
		b.fail(&at, "%s: %q: %v", key, clip(src), err)
		return nil
	}
	if b.insts += len(re.insts); b.insts > maxAllInsts {
		b.fail(&at, "%s: the expressions of the filter have more than %d instructions together", key, maxAllInsts)
		return nil
	}
	e := &expression{Regex: re, line: at.Line, names: make([]string, re.groups+1)}
	for name, g := range re.program.names {
		e.names[g] = name
		if name == "ip4" || name == "ip6" {
			e.addrs = append(e.addrs, 2*g)
		}
	}
	return e
}

// What fail2ban's tags stand for (server/failregex.py, server/ipdns.py).
const (
	ip4RE  = `(?:::f{4,6}:)?(?P<ip4>(?:\d{1,3}\.){3}\d{1,3})`
	ip6RE  = `(?P<ip6>(?:[0-9a-fA-F]{1,4}::?|::){1,7}(?:[0-9a-fA-F]{1,4}|(?<=:):))`
	dnsRE  = `(?P<dns>[\w\-.^_]*\w)`
	cidrRE = `(?P<cidr>\d+)`
	addrRE = `\[?(?:` + ip4RE + `|` + ip6RE + `)\]?`
	hostRE = `(?:` + addrRE + `|` + dnsRE + `)`
)

var fixedTags = map[string]string{
	"IP4": ip4RE, "F-IP4/": ip4RE, "IP6": ip6RE, "F-IP6/": ip6RE, "ADDR": addrRE, "F-ADDR/": addrRE,
	"CIDR": cidrRE, "F-CIDR/": cidrRE, "DNS": dnsRE, "F-DNS/": dnsRE,
	"SUBNET":    `\[?(?:` + ip4RE + `|` + ip6RE + `)(?:/` + cidrRE + `)?\]?`,
	"F-SUBNET/": `\[?(?:` + ip4RE + `|` + ip6RE + `)(?:/` + cidrRE + `)?\]?`,
	"F-ID/":     `(?P<fid>\S+)`,
	"F-PORT/":   `(?P<fport>\w+)`,
	"HOST":      hostRE,
}

var (
	anyTag      = regexp.MustCompile(`</?[\w\-]+/?>`)
	customTag   = regexp.MustCompile(`^(/?)F-([A-Z0-9_\-]+)$`)
	globalFlags = regexp.MustCompile(`(^|[^\\])\((?:\?:)?(\(\?[a-z]+)\)`)
)

// resolveTags replaces <HOST>, <F-USER>…</F-USER> and their like.
func resolveTags(src string, noNames bool) string {
	open := map[string]bool{}
	skips := 0
	return anyTag.ReplaceAllStringFunc(src, func(tag string) string {
		name := tag[1 : len(tag)-1]
		switch {
		case name == "HOST" && noNames:
			return addrRE
		case name == "SKIPLINES":
			skips++
			return fmt.Sprintf(`\n(?P<skiplines%d>(?:(?:.*\n)*?))`, skips-1)
		case fixedTags[name] != "":
			return fixedTags[name]
		}
		m := customTag.FindStringSubmatch(name)
		if m == nil {
			return tag
		}
		if m[1] != "" {
			if open[m[2]] {
				return ")"
			}
			return tag
		}
		open[m[2]] = true
		group := strings.ToLower(m[2])
		switch group {
		case "id":
			group = "fid"
		case "port":
			group = "fport"
		}
		return "(?P<" + strings.ReplaceAll(group, "-", "_") + ">"
	})
}

// Name is the filter's name: of its file.
func (f *Filter) Name() string {
	return strings.TrimSuffix(filepath.Base(f.Path), ".conf")
}
