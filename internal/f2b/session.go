package f2b

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Failure is a line that fail2ban would count. Its bytes are valid until the
// next Line.
type Failure struct {
	Addr  netip.Addr
	Bits  int    // of the prefix that <SUBNET> or <CIDR> names; else the address's length
	Time  int64  // Unix ns; 0: the line and those before it have no date
	User  []byte // <F-USER>, nil for none
	Regex int    // which failregex
}

// Verdict is what became of a line.
type Verdict uint8

const (
	NoMatch   Verdict = iota
	Counted           // a failure
	Waiting           // matched, and no failure (yet): <F-NOFAIL>, or an address is to come
	Ignored           // by ignoreregex
	Ambiguous         // it can be read with another address, too
	Named             // it names its client by something that is no address
	OverLimit         // an expression with backreferences was over its limit of steps
)

// Session is what a filter remembers from line to line of one log: the last
// date, connections by <F-MLFID>, and lines that may belong together. It is
// used by one goroutine.
type Session struct {
	f     *Filter
	zone  *time.Location
	last  int64
	lines [][]byte // the last MaxLines, without their dates
	isCut bool     // the line being read
	buf   []byte
	loc   []int
	locP  []int
	conns map[string]*conn
	order []string // of conns, oldest first
}

// conn is what is known of one connection.
type conn struct {
	groups  groups
	users   map[string]bool
	pending bool
	at      int64
}

// groups are the named groups that took part.
type groups map[string]string

// Limits of what a session remembers.
const (
	maxConns    = 2000
	maxConnAge  = 5 * time.Minute
	maxUsers    = 16
	maxGroup    = 256     // bytes of a group that is remembered
	MaxLine     = 8 << 10 // bytes of a line that are looked at
	maxAnswered = 8       // other addresses that a line is tried with
)

// Session starts one. zone is that of dates that name none; nil is UTC.
func (f *Filter) Session(zone *time.Location) *Session {
	if zone == nil {
		zone = time.UTC
	}
	return &Session{f: f, zone: zone}
}

// Time is the date of the last line that had one, Unix ns; 0: none had.
func (s *Session) Time() int64 { return s.last }

// Stateful reports whether lines depend on the lines before them.
func (f *Filter) Stateful() bool {
	if f.MaxLines > 1 || f.prefix != nil && f.prefix.program.names["mlfid"] != 0 {
		return true
	}
	return slices.ContainsFunc(f.fail, func(e *expression) bool { return e.Regex.program.names["mlfid"] != 0 })
}

// Line looks for a failure in a line, without its line ending. at is its time
// when something other than its text says so, as the journal: then no date is
// looked for; else 0. now is when it arrived, for dates without a year.
//
// Of a line longer than MaxLine the first bytes are read. What follows may hold
// another address: then one counts only where the line begins with it, as in
// access logs, or when another line of the connection had it.
func (s *Session) Line(text []byte, at int64, now time.Time) (Failure, Verdict) {
	return s.line(text, len(text) > MaxLine, at, now)
}

// CutLine is Line of text whose end is missing.
func (s *Session) CutLine(text []byte, at int64, now time.Time) (Failure, Verdict) {
	return s.line(text, true, at, now)
}

func (s *Session) line(text []byte, isCut bool, at int64, now time.Time) (Failure, Verdict) {
	text, s.isCut = text[:min(len(text), MaxLine)], isCut
	var cut date
	if at != 0 {
		s.last = at
	} else if d, ok := find(s.f.dates, text, now, s.zone, s.loc); ok {
		cut = d
		if d.known {
			s.last = d.time
		}
	}
	s.buf = append(append(append(s.buf[:0], text[:cut.from]...), text[cut.to:]...), '\n')
	if s.f.MaxLines > 1 {
		if isCut {
			return Failure{}, OverLimit
		}
		return s.many(now)
	}
	fail, v, _ := s.read(s.buf, now)
	return fail, v
}

// many matches the last lines together.
func (s *Session) many(now time.Time) (Failure, Verdict) {
	s.lines = append(s.lines, slices.Clone(s.buf[:len(s.buf)-1]))
	if over := len(s.lines) - s.f.MaxLines; over > 0 {
		s.lines = slices.Delete(s.lines, 0, over)
	}
	s.buf = s.buf[:0]
	for _, l := range s.lines {
		s.buf = append(append(s.buf, l...), '\n')
	}
	// What lines together may have is bounded as one line is: the last ones.
	for len(s.buf) > MaxLine && len(s.lines) > 1 {
		s.buf = s.buf[len(s.lines[0])+1:]
		s.lines = slices.Delete(s.lines, 0, 1)
	}
	fail, v, used := s.read(s.buf, now)
	if used != nil {
		s.forget(used)
	}
	return fail, v
}

// forget drops the lines of a match, but those that <SKIPLINES> passed over.
func (s *Session) forget(m *match) {
	text := m.text
	begin := bytes.LastIndexByte(text[:min(m.loc[0]+1, len(text))], '\n') + 1
	if begin > m.loc[0] {
		begin = m.loc[0]
	}
	end := len(text)
	if i := bytes.IndexByte(text[max(m.loc[1]-1, 0):], '\n'); i >= 0 {
		end = max(m.loc[1]-1, 0) + i + 1
	}
	from, to := bytes.Count(text[:begin], []byte("\n")), bytes.Count(text[:end], []byte("\n"))
	var skipped [][]byte
	for name, g := range m.e.Regex.program.names {
		if strings.HasPrefix(name, "skiplines") && m.loc[2*g] >= 0 {
			for _, l := range bytes.SplitAfter(text[m.loc[2*g]:m.loc[2*g+1]], []byte("\n")) {
				if len(l) > 0 {
					skipped = append(skipped, slices.Clone(bytes.TrimSuffix(l, []byte("\n"))))
				}
			}
		}
	}
	if to > len(s.lines) || from > to {
		s.lines = nil
		return
	}
	s.lines = slices.Concat(s.lines[:from], skipped, s.lines[to:])
}

// match is an expression that matched.
type match struct {
	e    *expression
	text []byte
	loc  []int
}

// read is Filter.findFailure of fail2ban's server/filter.py.
func (s *Session) read(text []byte, now time.Time) (Failure, Verdict, *match) {
	f := s.f
	early := len(f.ignore) > 0 && len(f.ignore) < len(f.fail)-2
	if early && s.ignored(text) {
		return Failure{}, Ignored, nil
	}
	var pre groups
	over := NoMatch
	if f.prefix != nil {
		m, err := f.prefix.Match(text, s.locP)
		if err != nil {
			return Failure{}, OverLimit, nil
		}
		if m == nil {
			return Failure{}, NoMatch, nil
		}
		s.locP = m
		pre = named(f.prefix.program.names, text, m)
		if c := pre["content"]; c != "" {
			g := f.prefix.program.names["content"]
			content := append(text[m[2*g]:m[2*g+1]:m[2*g+1]], '\n')
			if m[2*g+1] < len(text) && text[m[2*g+1]] == '\n' {
				content = text[m[2*g] : m[2*g+1]+1]
			}
			text = content
		}
		delete(pre, "content")
	}
	for i, e := range f.fail {
		loc, err := e.Match(text, s.loc)
		if err != nil {
			over = OverLimit
			continue
		}
		if loc == nil {
			continue
		}
		s.loc = loc
		m := &match{e, text, loc}
		seen := text
		if f.MaxLines > 1 {
			seen = m.ofLines()
		}
		if s.ignored(seen) {
			return Failure{}, Ignored, m
		}
		fail, v := s.fail(m, i, pre)
		return fail, v, m
	}
	return Failure{}, over, nil
}

// ofLines is the lines that the match is of.
func (m *match) ofLines() []byte {
	begin := bytes.LastIndexByte(m.text[:m.loc[0]], '\n') + 1
	end := bytes.IndexByte(m.text[max(m.loc[1]-1, 0):], '\n')
	if end < 0 {
		return m.text[begin:]
	}
	return m.text[begin : max(m.loc[1]-1, 0)+end+1]
}

func (s *Session) ignored(text []byte) bool {
	for _, e := range s.f.ignore {
		// One over its limit ignores: its line counts toward nothing.
		if loc, err := e.Match(text, nil); err != nil || loc != nil {
			return true
		}
	}
	return false
}

// named are the groups by their names, those of <F-ALT_USER> as <F-USER>.
func named(names map[string]int, text []byte, loc []int) groups {
	g := groups{}
	var alts []string
	for name, n := range names {
		if loc[2*n] < 0 {
			continue
		}
		if strings.HasPrefix(name, "alt_") {
			alts = append(alts, name)
		}
		v := text[loc[2*n]:loc[2*n+1]]
		g[name] = string(v[:min(len(v), maxGroup)])
	}
	slices.Sort(alts)
	for _, name := range alts {
		to := strings.TrimPrefix(name, "alt_")
		if i := strings.LastIndexByte(to, '_'); i > 0 && decimal(to[i+1:]) {
			to = to[:i]
		}
		switch to {
		case "id":
			to = "fid"
		case "port":
			to = "fport"
		}
		if g[name] != "" && g[to] == "" {
			g[to] = g[name]
		}
	}
	return g
}

// fail judges a match.
func (s *Session) fail(m *match, i int, pre groups) (Failure, Verdict) {
	g := named(m.e.Regex.program.names, m.text, m.loc)
	if s.twofold(m, g) {
		return Failure{}, Ambiguous
	}
	if s.isCut && !s.beginsWithAddress(m) {
		return Failure{}, OverLimit
	}
	for k, v := range pre {
		if m.e.Regex.program.names[k] == 0 {
			g[k] = v
		}
	}
	if id, ok := g["mlfid"]; ok {
		c := s.merge(id, g)
		g = c.groups
		if g["nofail"] != "" {
			return Failure{}, Waiting
		}
		if g["ip4"] == "" && g["ip6"] == "" && g["dns"] == "" && g["fid"] == "" {
			c.pending = true
			return Failure{}, Waiting
		}
	}
	a, bits := g.addr()
	if !a.IsValid() {
		return Failure{}, Named
	}
	fail := Failure{Addr: a, Bits: bits, Time: s.last, Regex: i}
	if u, ok := g["user"]; ok {
		fail.User = []byte(u)
	}
	return fail, Counted
}

// beginsWithAddress reports whether the address of m, if it has one, stands
// where the line begins.
func (s *Session) beginsWithAddress(m *match) bool {
	for _, slot := range m.e.addrs {
		if at := m.loc[slot]; at >= 0 && (at > 1 || s.f.prefix != nil) {
			return false
		}
	}
	return true
}

func (g groups) addr() (netip.Addr, int) {
	text := g["ip4"]
	if text == "" {
		text = g["ip6"]
	}
	if text == "" && g["dns"] == "" {
		text = g["fid"]
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, 0
	}
	a = a.Unmap()
	bits := a.BitLen()
	if c := g["cidr"]; c != "" {
		p, err := netip.ParsePrefix(a.String() + "/" + c)
		if err != nil {
			return netip.Addr{}, 0
		}
		bits = p.Bits()
	}
	return a, bits
}

// twofold reports whether the line can be read with another address: by the
// expression that matched in another way, or by another expression.
func (s *Session) twofold(m *match, g groups) bool {
	a, _ := g.addr()
	if !a.IsValid() {
		return false
	}
	tried := 0
	for _, at := range addresses(m.text) {
		if at.addr == a {
			continue
		}
		if tried++; tried > maxAnswered {
			return true
		}
		if m.e.Also(m.text, m.e.addrs, at.from, at.to) {
			return true
		}
	}
	if tried == 0 {
		return false
	}
	for _, e := range s.f.fail {
		if e == m.e || len(e.addrs) == 0 {
			continue
		}
		loc, err := e.Match(m.text, nil)
		if err != nil {
			return true
		}
		if loc != nil {
			if b, _ := named(e.Regex.program.names, m.text, loc).addr(); b.IsValid() && b != a {
				return true
			}
		}
	}
	return false
}

// address is where one stands in a text.
type address struct {
	from, to int
	addr     netip.Addr
}

var (
	quad = func() set { s := digits; s.add('.'); return s }()
	hexa = func() set { s := quad; s.addRange('a', 'f'); s.addRange('A', 'F'); s.add(':'); return s }()
)

// addresses lists the addresses in a text, each as long as it can be read.
func addresses(text []byte) (all []address) {
	add := func(from, to int) {
		if to-from > 45 || to-from < 2 {
			return
		}
		if a, err := netip.ParseAddr(string(text[from:to])); err == nil {
			all = append(all, address{from, to, a.Unmap()})
		}
	}
	each := func(from, to int, in *set, f func(from, to int)) {
		for i := from; i < to; i++ {
			if !in.has(text[i]) {
				continue
			}
			j := i
			for j < to && in.has(text[j]) {
				j++
			}
			f(i, j)
			i = j
		}
	}
	each(0, len(text), &hexa, func(from, to int) {
		if bytes.Count(text[from:to], []byte(":")) >= 2 {
			a, b := from, to
			for b > a && (text[b-1] == '.' || text[b-1] == ':' && (b-a < 2 || text[b-2] != ':')) {
				b--
			}
			if text[a] == ':' && b-a > 1 && text[a+1] != ':' {
				a++
			}
			add(a, b)
		}
		each(from, to, &quad, func(a, b int) {
			for a < b && text[a] == '.' {
				a++
			}
			for b > a && text[b-1] == '.' {
				b--
			}
			if bytes.IndexByte(text[a:b], '.') > 0 {
				add(a, b)
			}
		})
	})
	return all
}

// merge is Filter._mergeFailure of fail2ban's server/filter.py: what the lines
// of one connection say together.
func (s *Session) merge(id string, g groups) *conn {
	gained, nofail := g["mlfgained"] != "", g["nofail"] != ""
	if gained && !nofail {
		g["nofail"] = g["mlfgained"]
	}
	forget := g["mlfforget"] != ""
	delete(g, "mlfforget")
	c := s.conns[id]
	if c != nil && s.last-c.at > int64(maxConnAge) {
		c = nil
	}
	switch {
	case c != nil:
		if u := g["user"]; u != "" && len(c.users) < maxUsers {
			if c.users == nil {
				c.users = map[string]bool{}
			}
			c.users[u] = true
		}
		delete(c.groups, "nofail")
		delete(c.groups, "mlfgained")
		if gained {
			c.pending = false
		}
		maps.Copy(c.groups, g)
		if forget {
			s.drop(id)
		}
	default:
		c = &conn{groups: g, at: s.last}
		if !forget {
			if u := g["user"]; u != "" {
				c.users = map[string]bool{u: true}
			}
			s.keep(id, c)
		}
	}
	if c.pending || len(c.users) > 1 {
		delete(c.groups, "nofail")
		delete(c.groups, "mlfgained")
	}
	c.pending = false
	return c
}

func (s *Session) keep(id string, c *conn) {
	if s.conns == nil {
		s.conns = map[string]*conn{}
	}
	if s.conns[id] == nil {
		s.order = append(s.order, id)
	}
	s.conns[id] = c
	for len(s.conns) > maxConns || len(s.order) > 2*maxConns {
		delete(s.conns, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *Session) drop(id string) { delete(s.conns, id) }
