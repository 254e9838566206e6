package rules

import (
	"bytes"
	"cmp"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"stoplog/internal/addr"
	"stoplog/internal/parse"
)

// lint warns of a rule that can never match, never breach, or matches
// everything. What depends on other rules and sources is left out when all is nil,
// because some of them have mistakes.
func (c *checker) lint(s *Set, r *Rule, all *overview) {
	in := &sink{c, r.File}
	for _, why := range neverMatches(r) {
		in.warn(r.Line, "", "rule %s can never match: %s", r.Name, why)
	}
	if r.Pattern == nil && matchesAll(&r.Match) && blocks(r) {
		what := "contains an address"
		if len(r.Match.Conds) > 0 {
			what = "has a " + r.Match.Conds[0].Field
		}
		in.warn(r.Line, "match: {outcome: failure}", "rule %s matches every line that %s", r.Name, what)
	}
	lintSense(in, r)
	for i := range r.Levels {
		lintLevel(s, in, r, &r.Levels[i])
		lintRoom(s, in, r, &r.Levels[i])
	}
	for _, cond := range r.Match.Conds {
		for _, a := range s.Allow.Prefixes {
			if cond.Field == "ip" && cond.test.op == opPrefix && a.Contains(cond.test.prefix.Addr()) && a.Bits() <= cond.test.prefix.Bits() {
				in.warn(r.Line, "", "rule %s can never match: %s is in allow as %s", r.Name, cond.test.prefix, a)
			}
		}
	}
	if all != nil {
		lintServices(in, s, r)
		lintPattern(in, s, r)
		lintFields(in, all, r)
		lintFlags(in, s, all, r)
		lintIdle(in, all, r)
	}
}

// overview is what the lints of one rule ask about all others, so that a file of
// many rules does not take long.
type overview struct {
	captured map[string]bool    // groups of patterns
	flags    map[string]bool    // read by rules
	counting map[string][]*Rule // that block, by what they count
}

func (s *Set) overview() *overview {
	all := &overview{map[string]bool{}, map[string]bool{}, map[string][]*Rule{}}
	for _, r := range s.Rules {
		for _, g := range r.groups() {
			all.captured[g] = true
		}
		for _, w := range r.When {
			all.flags[w.Flag] = true
		}
		if same := all.counting[r.counted]; blocks(r) && len(same) < maxSame {
			all.counting[r.counted] = append(same, r)
		}
	}
	return all
}

// maxSame bounds how many rules of the same match one is compared with.
const maxSame = 50

func blocks(r *Rule) bool {
	for _, l := range r.Levels {
		for _, a := range l.Then {
			if a.Kind == Block && !r.Observe {
				return true
			}
		}
	}
	return false
}

// matchesAll reports whether the match takes ordinary traffic whole.
func matchesAll(m *Match) bool {
	const failure, success, other = 1 << 1, 1 << 2, 1 << 0
	ordinary := m.Outcomes == 0 || m.Outcomes&other != 0 && m.Kinds == 0
	return ordinary && (m.Services == nil || m.Except) && !slices.ContainsFunc(m.Conds, Cond.picks) && m.Known == nil && m.Kinds&^1 == 0
}

// picks reports whether the condition leaves some values of its field out.
func (c Cond) picks() bool {
	t := &c.test
	for (t.op == opAny || t.op == opAll) && len(t.sub) == 1 {
		t = &t.sub[0]
	}
	switch t.op {
	case opGlob:
		return strings.Trim(string(t.text), "*") != ""
	case opStarts:
		return c.Field != "path" || string(t.text) != "/"
	case opRange:
		return c.Field != "status" || t.lo > 100 || t.hi < 599
	}
	return true
}

var notWeb = []string{"sshd", "dropbear", "sudo", "su", "dovecot", "postfix", "exim", "vsftpd", "proftpd", "mysqld", "postgres", "named"}

func neverMatches(r *Rule) []string {
	var out []string
	m := &r.Match
	for _, f := range eventFields() {
		if f.web && m.has(f.name) && len(m.Services) > 0 && !m.Except && allIn(m.Services, notWeb) {
			out = append(out, m.Services[0]+" has no "+f.name)
		}
	}
	if m.Outcomes == 1<<2 && m.Kinds != 0 && m.Kinds&1 == 0 {
		out = append(out, "a success has no kind")
	}
	if m.Outcomes == 1<<1 && m.Kinds == 1<<1 {
		out = append(out, "a probe is not a failure; its outcome is other")
	}
	for i := range m.Conds {
		if why := m.Conds[i].never(); why != "" {
			out = append(out, why)
		}
	}
	return out
}

func (m *Match) has(field string) bool {
	return slices.ContainsFunc(m.Conds, func(c Cond) bool { return c.Field == field })
}

func allIn(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// never returns why no value of the field can pass the test, "" when one can.
func (c *Cond) never() string {
	t := &c.test
	if t.op == opAny {
		for i := range t.sub {
			if (&Cond{Field: c.Field, test: t.sub[i]}).never() == "" {
				return ""
			}
		}
	}
	for t.op == opAny || t.op == opAll && len(t.sub) == 1 {
		t = &t.sub[0]
	}
	switch {
	case c.nothingLeft():
		return "the conditions for " + c.Field + " contradict each other"
	case t.op == opNot && len(t.sub) == 1 && !(Cond{Field: c.Field, test: t.sub[0]}).picks():
		return "the condition excludes every " + c.Field
	case c.Field == "status" && t.op == opRange && (t.hi < 100 || t.lo > 599):
		return "a status is between 100 and 599"
	case c.Field == "path" && slices.Contains([]op{opIs, opStarts}, t.op) && !bytes.ContainsAny(t.text[:min(1, len(t.text))], "/*?"):
		return "a path starts with /"
	case c.Field == "path" && t.op == opIs && bytes.ContainsAny(t.text, "?"):
		return "a path has no query; use params"
	case c.Field == "method" && t.op == opIs && !bytes.Equal(t.text, bytes.ToUpper(t.text)):
		return "methods are written in upper case"
	}
	return ""
}

// nothingLeft reports whether a condition that names its values leaves none of
// them over by what else it says.
func (c *Cond) nothingLeft() bool {
	if c.test.op != opAll {
		return false
	}
	for i := range c.test.sub {
		if vs := c.test.sub[i].values(); len(vs) > 0 {
			return !slices.ContainsFunc(vs, func(s subject) bool { return c.test.holds(&s) })
		}
	}
	return false
}

// values are the only ones that can pass the test; none when they are not
// named one by one.
func (t *test) values() []subject {
	if t.op == opIs {
		return []subject{{text: t.text}}
	}
	if t.op != opAny {
		return nil
	}
	var out []subject
	for i := range t.sub {
		vs := t.sub[i].values()
		if vs == nil {
			return nil
		}
		out = append(out, vs...)
	}
	return out
}

// SlowLeak is the leak from which a bucket is slow. Probes are not poured into
// slow buckets: a monitor that connects every few minutes would fill them.
const SlowLeak = 10 * time.Minute

func lintLevel(s *Set, in *sink, r *Rule, l *Level) {
	switch l.Kind {
	case Bucket:
		if w := l.WeightIn(r).Most(); l.Capacity > 0 && w > l.Capacity+1 {
			in.warn(l.Line, "", "rule %s: a single event of weight %d exceeds the capacity of %d", r.Name, w, l.Capacity)
		}
		const probe = 1 << 1
		if r.Match.Kinds&probe != 0 && l.Leak >= SlowLeak {
			in.warn(l.Line, "leak: 1m", "rule %s: probes count in fast buckets only, because monitors and load balancers cause them all day", r.Name)
		}
	case Distinct:
		if l.Wide() {
			lintWide(in, r, l)
			return
		}
		if len(l.Of) == 1 && len(r.Key) > 0 && slices.Contains(r.Key, l.Of[0]) && l.Over > 0 {
			in.warn(l.Line, "", "rule %s can never breach: there is only one %s for each %s", r.Name, l.Of, r.Key)
			return
		}
		lintSpread(s, in, r, l)
	}
}

// lintWide warns of a network that does not hold so many of the rule's prefixes.
func lintWide(in *sink, r *Rule, l *Level) {
	for _, f := range []struct{ is, wide, len int }{{4, l.Prefix.V4, r.Prefix.V4}, {6, l.Prefix.V6, r.Prefix.V6}} {
		if rest := f.len - f.wide; f.wide > 0 && rest < 20 && l.Over >= 1<<rest {
			in.warn(l.Line, "a smaller number", "rule %s can never breach for IPv%d: a /%d contains only %d prefixes of length /%d", r.Name, f.is, f.wide, 1<<rest, f.len)
		}
	}
}

// lintSpread warns of a count of different sources within one source that does
// not hold so many.
func lintSpread(s *Set, in *sink, r *Rule, l *Level) {
	if len(l.Of) != 1 || !l.Of.HasSource() {
		return
	}
	if r.Key.Has(ByAddr) {
		if l.Over > 0 {
			in.warn(l.Line, "", "rule %s can never breach: there is only one %s for each %s", r.Name, l.Of, r.Key)
		}
		return
	}
	if !r.Key.Has(ByPrefix) {
		return
	}
	for _, f := range []struct{ is, len, bits int }{{4, r.Prefix.V4, 32}, {6, r.Prefix.V6, 128}} {
		if rest := f.bits - f.len; rest < 20 && l.Over >= 1<<rest && !s.wider(f.bits, f.len) {
			in.warn(l.Line, "prefix: {…}, or a smaller number", "rule %s can never breach for IPv%d: a /%d contains only %d addresses", r.Name, f.is, f.len, 1<<rest)
		}
	}
}

// maxWindow is the most that a window counts.
const maxWindow = 1<<16 - 1

// lintRoom warns of a network that gives a level more room than it can have.
func lintRoom(s *Set, in *sink, r *Rule, l *Level) {
	if !r.Key.HasSource() {
		return
	}
	for i := range s.Networks {
		n := &s.Networks[i]
		switch {
		case l.Kind == Bucket && n.Holds(l.Capacity) > l.Capacity && time.Duration(n.Holds(l.Capacity)) > maxDrain/l.Leak:
			in.warn(l.Line, "", "rule %s: with a capacity of %d, in %s, a full bucket would take longer than 700d to drain", r.Name, n.Holds(l.Capacity), n.Prefix)
		case (l.Kind == Window || l.Kind == Distinct) && n.Holds(l.Over) > maxWindow:
			in.warn(l.Line, "", "rule %s: a window counts up to %d, not up to %d as in %s", r.Name, maxWindow, n.Holds(l.Over), n.Prefix)
		}
	}
}

// wider reports whether some network of that family is cut into wider
// prefixes.
func (s *Set) wider(bits, length int) bool {
	return slices.ContainsFunc(s.Networks, func(n Network) bool {
		return n.Prefix.Addr().BitLen() == bits && n.Len != 0 && n.Len < length
	})
}

// lintSet warns of what makes the whole file idle.
func (c *checker) lintSet(b *book) {
	whole := b.node
	if whole == nil { // an empty file
		whole = &yaml.Node{Line: 1, Column: 1}
	}
	for _, a := range b.Allow.Prefixes {
		if a.IsValid() && a.Bits() == 0 {
			n := b.of("allow")
			c.warn(n.Line, n.Column, "", "allow contains %s: no address in it is ever blocked", a)
		}
	}
	c.lintListen(b)
	c.lintNetworks(b)
	for _, s := range b.Sources {
		if s.Ready == "" && s.Kind == File && s.Format == "" && s.Writer(s.Path) == "" && strings.Contains(filepath.Base(s.Path), "access") {
			c.warn(s.Line, 1, "service: http, or format: …", "source %s has no service and no format: only lines with syslog headers, and patterns of rules, are read there", s.Path)
		}
		c.lintOwnSource(b, s)
		if w := s.Writer(s.Path); s.Ready == "" && s.Kind == File && parse.Raw(w) != "" {
			c.warn(s.Line, 1, "let "+w+" log to syslog, and leave out this source", "any client can forge records in %s: %s writes %s with their line breaks into a file", clip(s.Path), w, parse.Raw(w))
		}
	}
	if len(b.Rules) == 0 {
		c.warn(whole.Line, whole.Column, "use: auto", "there are no rules: nothing is blocked")
	} else if len(b.Sources) == 0 {
		c.warn(whole.Line, whole.Column, "use: auto, or sources: [auth]", "there are no sources: nothing is read")
	}
}

// lintNetworks warns of networks whose addresses stand for IPv4 clients, which are
// counted as those.
func (c *checker) lintNetworks(b *book) {
	for _, n := range b.Networks {
		if what := addr.Embeds(n.Prefix); what != "" {
			at := b.of("networks")
			c.warn(at.Line, at.Column, "the IPv4 prefix of these clients", "the network %s never matches: %s addresses count as the IPv4 addresses in them", n.Prefix, what)
		}
	}
}

// lintOwnSource warns of the log of an application of the user's own that nothing
// reads: no format is named, and no pattern.
func (c *checker) lintOwnSource(b *book, s Source) {
	w := s.Writer(s.Path)
	if s.Ready != "" || s.Service == "" || s.Format != "" && s.Format != "auto" || parse.Known(w) {
		return
	}
	if slices.ContainsFunc(b.Rules, func(r *Rule) bool { return r.Pattern != nil && r.mayRead(&s) }) {
		return
	}
	hint := ""
	if near := nearest(w, parse.Services()); near != "" {
		hint = ", or did you mean " + near + "?"
	}
	c.warn(s.Line, 1, "format: json, or service: http for an access log"+hint,
		"nothing reads the source of service %q: stoplog has no reader of that name, and neither a format nor a rule's pattern is given", clip(w))
}

// lintListen warns of listeners that anybody may use who reaches the machine.
func (c *checker) lintListen(b *book) {
	l, n := b.Listen, b.of("listen")
	for _, x := range []struct {
		name, what string
		at         Listener
	}{{"feed", "read the list of what is blocked", l.Feed}, {"metrics", "read the metrics", l.Metrics.Listener}} {
		if x.at.beyond() && x.at.TokenFile == "" && len(x.at.Clients) == 0 {
			c.warn(n.Line, n.Column, "clients: [192.0.2.1], or token_file: /etc/stoplog/"+x.name+".token", "listen.%s: anyone who reaches %s can %s", x.name, x.at.Addr, x.what)
		}
	}
	if l.Page.beyond() && len(l.Page.Clients) == 0 {
		c.warn(n.Line, n.Column, "clients: [192.0.2.1], or addr: 127.0.0.1:8080 behind a proxy with TLS", "listen.page: anyone who reaches %s can try tokens, and tokens are sent unencrypted", l.Page.Addr)
	}
}

// beyond reports whether other machines can reach the listener.
func (l Listener) beyond() bool {
	host, _, err := net.SplitHostPort(l.Addr)
	if err != nil || host == "localhost" {
		return false // off, or a unix socket
	}
	a, err := netip.ParseAddr(host)
	return err == nil && !a.Unmap().IsLoopback()
}

// lintPattern warns of a pattern that no source has lines for.
func lintPattern(in *sink, s *Set, r *Rule) {
	if r.Pattern == nil || len(s.Sources) == 0 {
		return
	}
	if slices.ContainsFunc(s.Sources, func(src Source) bool { return r.mayRead(&src) }) {
		return
	}
	named, _ := r.Match.sourceHolds(nil)
	if named || r.Pattern.Services != nil {
		in.warn(r.Line, "list the file under sources", "rule %s reads nothing: its match names no existing source", r.Name)
		return
	}
	in.warn(r.Line, "match: {source: …}, or list the file under sources without a service",
		"rule %s reads nothing: a pattern without a source or service in match reads only sources that the file lists without a service", r.Name)
}

// lintServices warns of services that no line is of: a misspelt name makes a
// rule that never matches.
func lintServices(in *sink, s *Set, r *Rule) {
	if r.Pattern != nil || len(r.Match.Services) == 0 {
		return
	}
	known := parse.Services()
	for _, src := range s.Sources {
		known = append(known, src.Service)
	}
	for _, other := range s.Rules {
		if other.Pattern != nil {
			known = append(known, other.Name)
		}
	}
	for _, name := range r.Match.Services {
		if slices.Contains(known, name) {
			continue
		}
		hint := ""
		if near := nearest(name, known); near != "" {
			hint = "did you mean " + near + "?"
		}
		in.warn(r.Line, hint, "rule %s: unknown service %q, unless a program uses this name in JSON", r.Name, clip(name))
	}
}

// lintSense warns of a rule that is well formed and cannot do what it says.
func lintSense(in *sink, r *Rule) {
	m := &r.Match
	named := len(m.Services) > 0 && !m.Except
	if named && m.has("status") && allIn(m.Services, []string{"nginx", "apache"}) {
		in.warn(r.Line, "match: {service: http, …}", "rule %s can never match: %s is the error log, which has no status; access logs are http", r.Name, m.Services[0])
	}
	if m.has("message") && r.Pattern == nil && m.Services == nil && m.Outcomes == 0 && !m.has("status") && !m.has("path") {
		in.warn(r.Line, "pattern: …", "the message of rule %s is only compared in lines of known services; a pattern reads other lines", r.Name)
	}
	switch {
	case !r.Clears:
	case r.Pattern != nil && r.Pattern.Services == nil:
		in.warn(r.Line, "leave out clears", "clears of rule %s has no effect: what its pattern reads is never a login", r.Name)
	case named && allIn(m.Services, []string{"http"}):
		in.warn(r.Line, "leave out clears", "clears of rule %s has no effect: an access log shows no logins", r.Name)
	case named && allIn(m.Services, noLogins):
		in.warn(r.Line, "leave out clears", "clears of rule %s has no effect: the log of %s shows no successful logins", r.Name, m.Services[0])
	}
}

// noLogins are services that never write a line of a successful login.
var noLogins = []string{"http", "nginx", "apache", "lighttpd", "haproxy", "squid", "varnish", "coraza", "suhosin", "netfilter", "named", "postgrey", "sshguard", "fail2ban"}

// own are the fields that have a place of their own in an event, by what they
// are called in formats with named fields and in patterns; the others are fields.
var (
	ownInRecords  = []string{"user", "ip", "method", "path", "uri", "query", "agent", "referrer", "host", "status", "message", "source", "service", "time", "request", "error", "event", "success", "outcome", "forwarded"}
	ownInPatterns = []string{"user", "ip", "time", "conn"}
)

var groupRE = regexp.MustCompile(`\(\?P?<(\w+)>`)

// groups are the named groups of the rule's pattern.
func (r *Rule) groups() (names []string) {
	if r.Pattern != nil {
		for _, m := range groupRE.FindAllStringSubmatch(r.Pattern.Text, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// lintFields warns of a field that is asked for where it never is: a name with
// its own place among the others, or a group of a pattern among those.
func lintFields(in *sink, all *overview, r *Rule) {
	parts := slices.Clone(r.Key)
	for _, l := range r.Levels {
		parts = append(parts, l.Of...)
	}
	own, groups := ownInRecords, r.groups()
	if r.Pattern != nil {
		own = ownInPatterns
	}
	misplaced := func(name string) bool {
		return slices.Contains(own, name) && (slices.Contains(ownInPatterns, name) || !all.captured[name])
	}
	grouped := func(name string) bool {
		return r.Pattern != nil && slices.Contains(groups, name) && !slices.Contains(own, name)
	}
	for _, c := range r.Match.Conds {
		if name, is := strings.CutPrefix(c.Field, "fields "); is && misplaced(name) {
			in.warn(r.Line, "match: {"+name+": …}", "rule %s can never match: %s is not among fields, because the name is reserved", r.Name, name)
		} else if !is && grouped(c.Field) {
			in.warn(r.Line, "match: {fields: {"+c.Field+": …}}", "rule %s can never match: its pattern's group %s is among fields", r.Name, c.Field)
		}
	}
	for _, p := range parts {
		if p.By == ByField && misplaced(p.Name) {
			in.warn(r.Line, "key: "+cmp.Or(map[string]string{"ip": "prefix"}[p.Name], p.Name), "rule %s never counts: %s is not among fields, because the name is reserved", r.Name, p.Name)
		} else if p.Name == "" && grouped(p.String()) {
			in.warn(r.Line, "key: field "+p.String(), "rule %s never counts: its pattern's group %s is among fields", r.Name, p)
		}
	}
}

// lintFlags warns of flags that nobody reads: no rule, not the check for proxies,
// no metrics and no other program by the files of flags.
func lintFlags(in *sink, s *Set, all *overview, r *Rule) {
	if s.Listen.Check.Addr != "" || s.Listen.Metrics.Addr != "" || s.FlagFiles {
		return
	}
	told := map[string]bool{}
	for _, l := range r.Levels {
		for _, a := range l.Then {
			if a.Kind == RaiseFlag && !told[a.Flag] && !all.flags[a.Flag] {
				told[a.Flag] = true
				in.warn(r.Line, "when: {flag: "+a.Flag+", capacity: 1} in a rule, listen: {check: …}, or flags: {dir: "+s.Flags.Dir+"}", "rule %s raises the flag %s, but nothing reads it", r.Name, a.Flag)
			}
		}
	}
}

// lintIdle warns of a rule that only blocks, and only after another rule has.
func lintIdle(in *sink, all *overview, r *Rule) {
	before := true
	for _, o := range all.counting[r.counted] {
		if o == r {
			before = false
			continue
		}
		if len(r.Levels) != 1 || r.Ready != "" || !before && len(o.Levels) == 1 && r.Levels[0].covers(&o.Levels[0], r, o) {
			continue // the later of two that are equal has the warning
		}
		if o.Pattern == nil && o.Key.String() == r.Key.String() && o.Prefix == r.Prefix && len(r.When)+len(o.When) == 0 && r.Tiers == nil && o.Tiers == nil &&
			slices.ContainsFunc(o.Levels, func(l Level) bool { return l.covers(&r.Levels[0], o, r) }) {
			in.warn(r.Line, "", "rule %s changes nothing: rule %s counts the same, blocks as early and for as long", r.Name, o.Name)
			return
		}
	}
}

// covers reports whether k, of rule kr, blocks nothing that l, of rule lr, does
// not.
func (l *Level) covers(k *Level, lr, kr *Rule) bool {
	plain := func(l *Level) bool {
		return l.Kind == Bucket && !l.PerConn && len(l.Then) == 1 && l.Then[0].Kind == Block && l.Then[0].Action == "" && !l.Then[0].Cut && len(l.Then[0].Ports) == 0
	}
	wl, wk := l.WeightIn(lr), k.WeightIn(kr)
	return plain(l) && plain(k) && l.Capacity <= k.Capacity && l.Leak >= k.Leak && l.TTL == k.TTL && l.Multiply == k.Multiply && l.Max == k.Max &&
		wl.simple() && wk.simple() && wl.Base >= wk.Base && (!lr.Clears || kr.Clears)
}

// simple reports whether all events weigh the same.
func (w *Weight) simple() bool { return w.Kinds == [8]int{} && w.exact == nil && w.conds == nil }

// FirstMatch reports whether the rule blocks at its first match, because it has
// no bucket and no window.
func (r *Rule) FirstMatch() bool {
	return blocks(r) && slices.ContainsFunc(r.Levels, func(l Level) bool { return l.Kind == Trigger })
}
