package f2b

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// template finds dates of one format (fail2ban's server/datetemplate.py).
type template struct {
	re    *Regex
	kind  dateKind
	group int // of the digits of an epoch
	begin bool
	end   bool
	short bool // it begins at the begin of a line and is of fail2ban's own
}

type dateKind uint8

const (
	dateFields dateKind = iota
	dateEpoch
	dateLongEpoch
	dateTAI
)

// Where a date is looked for: in the first bytes of a line. fail2ban looks at
// all of it, so that a date in a client's text may be taken for the line's.
const (
	maxDateAt    = 512
	maxShortDate = 80
)

// timeRE is what %x stands for in a date's pattern (server/strptime.py).
var timeRE = map[string]string{
	"d": `(?P<d>[1-2]\d|[0 ]?[1-9]|3[0-1])`, "m": `(?P<m>0?[1-9]|1[0-2])`, "Y": `(?P<Y>\d{4})`,
	"H": `(?P<H>[0-1]?\d|2[0-3])`, "M": `(?P<M>[0-5]?\d)`, "S": `(?P<S>[0-5]?\d|6[0-1])`,
	"k": ` ?(?P<H>[0-2]?\d)`, "l": ` ?(?P<I>1?\d)`, "I": `(?P<I>1[0-2]|0[1-9]|[1-9])`,
	"Z": `(?P<Z>Z|[A-Z]{3,5})`, "z": `(?P<z>Z|UTC|GMT|[+-][01]\d(?::?\d{2})?)`,
	"ExZ": `(?P<Z>[A-Z](?:[A-Z]{2,4})?)`,
	"Exz": `(?P<z>(?:[A-Z](?:[A-Z]{2,4})?)?[+-][01]\d(?::?\d{2})?|[A-Z](?:[A-Z]{2,4})?)`,
	"Exd": `(?P<d>[1-2]\d|0[1-9]|3[0-1])`, "Exm": `(?P<m>0[1-9]|1[0-2])`, "ExH": `(?P<H>[0-1]\d|2[0-3])`,
	"Exk": ` ?(?P<H>[0-1]?\d|2[0-3])`, "Exl": ` ?(?P<I>1[0-2]|\d)`, "ExM": `(?P<M>[0-5]\d)`, "ExS": `(?P<S>[0-5]\d|6[0-1])`,
	"ExY": `(?P<Y>20\d{2})`, "Exy": `(?P<y>\d{2})`, "y": `(?P<y>\d\d)`, "f": `(?P<f>[0-9]{1,6})`,
	"a": `(?P<a>sun|mon|tue|wed|thu|fri|sat)`, "A": `(?P<A>wednesday|thursday|saturday|tuesday|sunday|monday|friday)`,
	"b": `(?P<b>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)`,
	"B": `(?P<B>september|february|november|december|january|october|august|march|april|june|july|may)`,
	"p": `(?P<p>am|pm)`, "w": `(?P<w>[0-6])`, "U": `(?P<U>5[0-3]|[0-4]\d|\d)`, "W": `(?P<W>5[0-3]|[0-4]\d|\d)`,
	"j": `(?P<j>36[0-6]|3[0-5]\d|[1-2]\d\d|0[1-9]\d|00[1-9]|[1-9]\d|0[1-9]|[1-9])`, "%": "%",
}

var (
	timeToken  = regexp.MustCompile(`%(%|Ex[dmHklMSYyzZ]|[a-zA-Z])`)
	alphaToken = regexp.MustCompile(`(?:^|[^%])%[aAbBpc]`)
	epochToken = regexp.MustCompile(`(?i)\{L?EPOCH\}`)
	dateToken  = regexp.MustCompile(`(?i)\{DATE\}`)
	flagsAt    = regexp.MustCompile(`\(\?[a-z]+\)`)
	noBegin    = regexp.MustCompile(`^\(*(?:\(\?\w+\))?(?:\^|\(*\*\*|\((?:\?:)?\^)`)
	noEnd      = regexp.MustCompile(`(?:^|[^\\])(?:\$\)?|\\b|\\s|\*\*\)*)$`)
	lineBegin  = regexp.MustCompile(`^(?:\(\?\w+\))?(?:\^|\((?:\?:)?\^(?:[^|]|$))`)
	lineEnd    = regexp.MustCompile(`(?:^|[^\\|])(?:\$\)?)$`)
	wrapped    = regexp.MustCompile(`(?s)^((?:\(\?\w+\))?\^?(?:\(\?\w+\))?)(.*?)(\$?)$`)
	starsBegin = regexp.MustCompile(`^(\(*(?:\(\?\w+\))?\(*)\*\*`)
	starsEnd   = regexp.MustCompile(`\*\*(\)*)$`)
)

// defaults are the formats that fail2ban knows (server/datedetector.py).
var defaultPatterns = []string{
	`%ExY(?P<_sep>[-/.])%m(?P=_sep)%d(?:T|  ?)%H:%M:%S(?:[.,]%f)?(?:\s*%z)?`,
	`(?:%a )?%b %d %k:%M:%S(?:\.%f)?(?: %ExY)?`,
	`(?:%a )?%b %d %ExY %k:%M:%S(?:\.%f)?`,
	`%d(?P<_sep>[-/])%m(?P=_sep)(?:%ExY|%Exy) %k:%M:%S`,
	`%d(?P<_sep>[-/])%b(?P=_sep)%ExY[ :]?%H:%M:%S(?:\.%f)?(?: %z)?`,
	`%m/%d/%ExY:%H:%M:%S`,
	`%m-%d-%ExY %k:%M:%S(?:\.%f)?`,
	`EPOCH`,
	`{^LN-BEG}%H:%M:%S`,
	`^<%m/%d/%Exy@%H:%M:%S>`,
	`%Exy%Exm%Exd  ?%H:%M:%S`,
	`%b %d, %ExY %I:%M:%S %p`,
	`^%b-%d-%Exy %k:%M:%S`,
	`%ExY%Exm%Exd(?:T|  ?)%ExH%ExM%ExS(?:[.,]%f)?(?:\s*%z)?`,
	`(?:%Z )?(?:%a )?%b %d %k:%M:%S(?:\.%f)?(?: %ExY)?`,
	`(?:%z )?(?:%a )?%b %d %k:%M:%S(?:\.%f)?(?: %ExY)?`,
	`TAI64N`,
}

var defaultTemplates = sync.OnceValue(func() []*template {
	var first, all []*template
	for _, p := range defaultPatterns {
		t, err := newTemplate(p)
		if err != nil {
			panic(p + ": " + err.Error())
		}
		all = append(all, t)
		if strings.HasPrefix(p, "{^LN-BEG}") || strings.HasPrefix(p, "^") {
			t.short = true
			continue
		}
		a, err := newTemplate("{^LN-BEG}" + p)
		if err != nil {
			panic(p + ": " + err.Error())
		}
		a.short = true
		first = append(first, a)
	}
	return append(first, all...)
})

// templates reads a datepattern: nil patterns are fail2ban's own.
func templates(pattern string) ([]*template, error) {
	var out []*template
	for _, p := range strings.Split(pattern, "\n") {
		p = strings.TrimSpace(p)
		switch up := strings.ToUpper(p); {
		case p == "":
		case up == "{DEFAULT}":
			out = append(out, defaultTemplates()...)
		case up == "{^LN-BEG}":
			for _, t := range defaultTemplates() {
				if t.begin {
					out = append(out, t)
				}
			}
		case dateToken.MatchString(p):
			for _, d := range defaultPatterns {
				if (d == "EPOCH" || d == "TAI64N") && up != "^{DATE}" && up != "{^LN-BEG}{DATE}" {
					continue
				}
				d = strings.TrimPrefix(d, "{^LN-BEG}")
				t, err := newTemplate(dateToken.ReplaceAllLiteralString(p, d))
				if err != nil {
					return nil, err
				}
				out = append(out, t)
			}
		case up == "{NONE}":
			t, err := newTemplate("{UNB}^")
			if err != nil {
				return nil, err
			}
			out = append(out, t)
		default:
			t, err := newTemplate(p)
			if err != nil {
				return nil, err
			}
			out = append(out, t)
		}
		if len(out) > 200 {
			return nil, errors.New("too many patterns")
		}
	}
	if len(out) == 0 {
		return defaultTemplates(), nil
	}
	return out, nil
}

func newTemplate(p string) (*template, error) {
	t := &template{}
	wordBegin, wordEnd, start := true, true, false
	var expr string
	fold := false
	if rest, ok := strings.CutPrefix(p, "{UNB}"); ok {
		p, wordBegin, wordEnd = rest, false, false
	} else if rest, ok := strings.CutPrefix(p, "{^LN-BEG}"); ok {
		p, start = rest, true
	}
	key := strings.ToUpper(p)
	switch bare := strings.TrimPrefix(key, "^"); {
	case epochToken.MatchString(p):
		t.kind, t.group = epochKind(key), 2
		expr = "(" + epochToken.ReplaceAllLiteralString(p, "("+epochRE(t.kind)+")") + ")"
	case bare == "EPOCH" || bare == "LEPOCH":
		t.kind, t.group = epochKind(key), 1
		if start = start || bare != key; start {
			expr = `((?P<square>(?<=^\[))?` + epochRE(t.kind) + `)(?(square)(?=\]))`
		} else {
			wordBegin = false
			expr = `((?:^|(?P<square>(?<=^\[))|(?P<selinux>(?<=\baudit\()))` + epochRE(t.kind) + `)(?:(?(selinux)(?=:\d+\)))|(?(square)(?=\])))`
		}
	case bare == "TAI64N":
		t.kind, t.group = dateTAI, 1
		start = start || bare != key
		wordBegin = start
		expr = `@[0-9a-f]{24}`
	default:
		var bad error
		expr = timeToken.ReplaceAllStringFunc(p, func(tok string) string {
			re, ok := timeRE[tok[1:]]
			if !ok {
				bad = fmt.Errorf("%q: %s is not known", clip(p), tok)
			}
			return re
		})
		if bad != nil {
			return nil, bad
		}
		fold = alphaToken.MatchString(p)
	}
	return t.finish(strings.TrimSpace(expr), wordBegin, wordEnd, start, fold)
}

func epochKind(key string) dateKind {
	if strings.Contains(key, "LEPOCH") {
		return dateLongEpoch
	}
	return dateEpoch
}

func epochRE(k dateKind) string {
	if k == dateLongEpoch {
		return `\d{10,11}(?:\d{3}(?:\.\d{1,6}|\d{3})?)?`
	}
	return `\d{10,11}\b(?:\.\d{3,6})?`
}

// finish adds the bounds of words and lines, as DateTemplate.setRegex does.
func (t *template) finish(expr string, wordBegin, wordEnd, start, fold bool) (*template, error) {
	flags := ""
	if loc := flagsAt.FindStringIndex(expr); loc != nil {
		flags = expr[loc[0]:loc[1]]
		expr = expr[:loc[0]] + expr[loc[1]:]
	}
	if fold {
		flags += "(?i)"
	}
	bindBegin := (wordBegin || start) && !noBegin.MatchString(expr)
	bindEnd := wordEnd && !noEnd.MatchString(expr)
	if !grouped(expr) {
		expr = wrapped.ReplaceAllString(expr, "$1($2)$3")
	}
	switch {
	case bindBegin && start:
		expr = `^(?:\W{0,2})?` + expr
		t.begin = true
	case bindBegin:
		expr = `(?=^|\b|\W)` + expr
	}
	if bindEnd {
		expr += `(?=\b|\W|$)`
	}
	t.begin = t.begin || lineBegin.MatchString(expr)
	t.end = lineEnd.MatchString(expr)
	expr = starsEnd.ReplaceAllString(starsBegin.ReplaceAllString(expr, "$1"), "$1")
	re, err := Compile(flags+expr, false)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", clip(expr), err)
	}
	t.re = re
	return t, nil
}

// grouped reports whether expr has a capturing group without a name.
func grouped(expr string) bool {
	for i := range len(expr) {
		if expr[i] == '(' && (i == 0 || expr[i-1] != '\\') && (i < 2 || expr[i-2:i] != "(?") && (i+1 == len(expr) || expr[i+1] != '?') {
			return true
		}
	}
	return false
}

// date is where the date of a line stands, and its time.
type date struct {
	from, to int
	time     int64 // Unix ns
	known    bool  // false: the text is a date that means no time
}

// find looks for the line's date by the templates, as a fresh detector of
// fail2ban does: the first one at the line's begin, else the one that begins
// earliest.
func find(ts []*template, text []byte, now time.Time, zone *time.Location, loc []int) (d date, ok bool) {
	head := text[:min(len(text), maxDateAt)]
	var best *template
	var bestLoc []int
	for i, t := range ts {
		in := head
		if t.short {
			in = text[:min(len(text), maxShortDate)]
		} else if t.end {
			in = text
		}
		m, err := t.re.Match(in, loc)
		if err != nil || m == nil {
			continue
		}
		if i == len(ts)-1 && best == nil || t.begin || t.end || m[0] <= 1 {
			best, bestLoc = t, m
			break
		}
		if best == nil || m[0] < bestLoc[0] {
			best, bestLoc = t, slices.Clone(m)
		}
	}
	if best == nil {
		return date{}, false
	}
	d.from, d.to = bestLoc[2], bestLoc[3]
	if d.from < 0 {
		d.from, d.to = bestLoc[0], bestLoc[0]
	}
	if d.from == d.to {
		return d, true
	}
	d.time, d.known = best.time(text, bestLoc, now, zone)
	return d, true
}

func (t *template) time(text []byte, loc []int, now time.Time, zone *time.Location) (int64, bool) {
	switch t.kind {
	case dateTAI:
		v, err := strconv.ParseInt(string(text[loc[2]+2:loc[2]+17]), 16, 64)
		return v * int64(time.Second), err == nil && v < 1<<33
	case dateEpoch, dateLongEpoch:
		return epoch(string(text[loc[2*t.group]:loc[2*t.group+1]]), t.kind == dateLongEpoch)
	}
	f := fields{}
	for name, g := range t.re.program.names {
		if a, b := loc[2*g], loc[2*g+1]; a >= 0 && len(name) == 1 {
			f[name[0]] = string(text[a:b])
		}
	}
	return f.time(now, zone)
}

func epoch(s string, long bool) (int64, bool) {
	whole, _, dotted := strings.Cut(s, ".")
	v, err := strconv.ParseInt(whole, 10, 64)
	switch {
	case err != nil:
		return 0, false
	case long && len(s) >= 16 && !dotted:
		v /= 1_000_000
	case long && len(s) >= 13:
		v /= 1000
	}
	return v * int64(time.Second), v < 1<<33
}

// fields are the values of a date, by the letters of strptime.
type fields ['z' + 1]string

func (f *fields) number(c byte) int {
	n, _ := strconv.Atoi(strings.TrimSpace(f[c]))
	return n
}

// time is server/strptime.py's reGroupDictStrptime: whole seconds; a date
// without a year is of this year, or of the last when it would be in the future.
func (f *fields) time(now time.Time, zone *time.Location) (int64, bool) {
	now = now.In(zone)
	offset, fixed, ok := f.zone()
	if !ok {
		return 0, false
	}
	year, noYear := now.Year(), false
	switch {
	case f['Y'] != "":
		year = f.number('Y')
	case f['y'] != "":
		year = 2000 + f.number('y')
	default:
		noYear = true
	}
	month, day := f.month(), f.number('d')
	if f['j'] != "" && (month == 0 || day == 0) {
		d := time.Date(year, 1, f.number('j'), 0, 0, 0, 0, time.UTC)
		month, day = int(d.Month()), d.Day()
	}
	today := month == 0 && day == 0
	if today {
		month, day = int(now.Month()), now.Day()
	}
	if month == 0 || day == 0 || day > 31 {
		return 0, false
	}
	hour := f.number('H')
	if f['H'] == "" && f['I'] != "" {
		hour = f.number('I') % 12
		if strings.EqualFold(f['p'], "pm") {
			hour += 12
		}
	}
	if hour > 23 || f.number('M') > 59 || f.number('S') > 59 || year < 1970 || year > 2200 {
		return 0, false
	}
	in := zone
	if fixed {
		in = time.FixedZone("", offset*60)
	}
	at := func(year, day int) time.Time {
		return time.Date(year, time.Month(month), day, hour, f.number('M'), f.number('S'), 0, in)
	}
	t := at(year, day)
	if t.Day() != day {
		return 0, false // 31 February
	}
	if today && t.After(now) {
		t = at(year, day-1)
	}
	if noYear && t.After(now.Add(24*time.Hour)) {
		t = at(year-1, day)
	}
	return t.UnixNano(), true
}

func (f *fields) month() int {
	if f['m'] != "" {
		return f.number('m')
	}
	name := strings.ToLower(f['b'] + f['B'])
	if len(name) < 3 {
		return 0
	}
	return 1 + strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", name[:3])/3
}

// zone is the offset in minutes that the date names.
func (f *fields) zone() (minutes int, fixed, ok bool) {
	z := f['z']
	if z == "" {
		z = f['Z']
	}
	if z == "" {
		return 0, false, true
	}
	i := strings.IndexAny(z, "+-")
	name, off := z, ""
	if i >= 0 {
		name, off = z[:i], z[i:]
	}
	base, known := 0, true
	if name != "" {
		base, known = zones()[strings.ToUpper(name)]
	}
	if !known {
		return 0, false, false
	}
	if off != "" {
		digits := strings.ReplaceAll(off[1:], ":", "")
		h, _ := strconv.Atoi(digits[:2])
		m := 0
		if len(digits) == 4 {
			m, _ = strconv.Atoi(digits[2:])
		}
		d := h*60 + m
		if off[0] == '-' {
			d = -d
		}
		base += d
	}
	return base, true, true
}

// zones are offsets of names in minutes (server/strptime.py).
var zones = sync.OnceValue(func() map[string]int {
	m := map[string]int{}
	for _, l := range strings.Split(`-12 Y
-11 X NUT SST
-10 W CKT HAST HST TAHT TKT
-9 V AKST GAMT GIT HADT HNY
-8 U AKDT CIST HAY HNP PST PT
-7 T HAP HNR MST PDT
-6 S CST EAST GALT HAR HNC MDT
-5 R CDT COT EASST ECT EST ET HAC HNE PET
-4 Q AST BOT CLT COST EDT FKT GYT HAE HNA PYT
-3 P ADT ART BRT CLST FKST GFT HAA PMST PYST SRT UYT WGT
-2 O BRST FNT PMDT UYST WGST
-1 N AZOT CVT EGT
0 Z EGST GMT UTC WET WT
1 A CET DFT WAT WEDT WEST
2 B CAT CEDT CEST EET SAST WAST
3 C EAT EEDT EEST IDT MSK
4 D AMT AZT GET GST KUYT MSD MUT RET SAMT SCT
5 E AMST AQTT AZST HMT MAWT MVT PKT TFT TJT TMT UZT YEKT
6 F ALMT BIOT BTT IOT KGT NOVT OMST YEKST
7 G CXT DAVT HOVT ICT KRAT NOVST OMSST THA WIB
8 H ACT AWST BDT BNT CAST HKT IRKT KRAST MYT PHT SGT ULAT WITA WST
9 I AWDT IRKST JST KST PWT TLT WDT WIT YAKT
10 K AEST PGT VLAT YAKST YAPT
11 L AEDT LHDT MAGT NCT PONT SBT VLAST VUT
12 M ANAST ANAT FJT GILT MAGST MHT NZST PETST PETT TVT WFT
13 FJST NZDT
11.5 NFT
10.5 ACDT LHST
9.5 ACST
6.5 CCT MMT
5.75 NPT
5.5 SLT
4.5 AFT IRDT
3.5 IRST
-2.5 HAT NDT
-3.5 HNT NST NT
-4.5 HLV VET
-9.5 MART MIT`, "\n") {
		f := strings.Fields(l)
		hours, _ := strconv.ParseFloat(f[0], 64)
		for _, name := range f[1:] {
			m[name] = int(hours * 60)
		}
	}
	return m
})
