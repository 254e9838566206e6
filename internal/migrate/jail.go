package migrate

import (
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/f2b"
)

// jail is one enabled section of fail2ban's jail.conf, as a rule needs it.
type jail struct {
	name      string
	section   string
	at        *f2b.Option // where it is switched on
	filter    string
	params    map[string]string
	logs      []string
	journal   bool
	maxRetry  int
	findTime  time.Duration
	banTime   time.Duration
	increment bool
	factor    float64
	maxTime   time.Duration
	ports     []string
	ignore    []string
	ignoreAt  *f2b.Option
	match     string            // journalmatch
	own       map[string]string // what the jail sets in place of its filter
	zone      string            // logtimezone
}

// readJails reads jail.conf and what is laid over it, in fail2ban's order.
func readJails(dir string) *f2b.Conf {
	c := f2b.NewConf()
	c.LoadAll(filepath.Join(dir, "jail.conf"))
	return c
}

// jails turns the enabled sections into jails.
func (m *importer) jails(c *f2b.Conf) []jail {
	var out []jail
	for _, name := range c.Order {
		if name == "DEFAULT" || name == "INCLUDES" {
			continue
		}
		s := f2b.Scope{Conf: c, Section: name, Params: map[string]string{
			"__name__": name, "fail2ban_version": "1", "fail2ban_confpath": m.dir}}
		on, at, err := s.Get("enabled")
		if err != nil || at == nil || !truth(on) {
			continue
		}
		out = append(out, m.jail(s, at))
	}
	return out
}

func truth(s string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(s))
}

func (m *importer) jail(s f2b.Scope, at *f2b.Option) jail {
	j := jail{name: ruleName(s.Section), section: s.Section, at: at, factor: 1}
	text := func(key string) string {
		v, o, err := s.Get(key)
		if err != nil {
			m.note(o, "%s of %s: %v", key, s.Section, err)
		}
		return v
	}
	j.filter, j.params = cutParams(text("filter"))
	j.own = map[string]string{}
	m.filterDefaults(&s, j)
	for _, key := range []string{"failregex", "ignoreregex", "prefregex", "datepattern", "maxlines", "journalmatch"} {
		if v := text(key); v != "" {
			j.own[key] = v
		}
	}
	if v := text("usedns"); v == "no" {
		j.own["usedns"] = v
	}
	j.zone = m.timeZone(s, text("logtimezone"))
	j.logs = logPaths(text("logpath"))
	j.journal = strings.HasPrefix(text("backend"), "systemd")
	j.match = text("journalmatch")
	j.maxRetry = m.number(s, "maxretry", 5)
	j.findTime = m.seconds(s, "findtime", 10*time.Minute)
	j.banTime = m.seconds(s, "bantime", 10*time.Minute)
	j.increment = truth(text("bantime.increment"))
	j.maxTime = m.seconds(s, "bantime.maxtime", 0)
	if f, err := strconv.ParseFloat(text("bantime.factor"), 64); err == nil && f > 0 {
		j.factor = f
	}
	j.ports = m.ports(s)
	j.ignore = strings.FieldsFunc(text("ignoreip"), func(r rune) bool { return r == ' ' || r == ',' || r == '\n' || r == '\t' })
	if j.ignoreAt = s.Find("ignoreip"); j.ignoreAt == nil {
		j.ignoreAt = at
	}
	if elsewhere[j.filter] == "" {
		m.unsupported(s, j)
	}
	return j
}

// filterDefaults lets the jail's values refer to what its filter says, by
// %(known/failregex)s.
func (m *importer) filterDefaults(s *f2b.Scope, j jail) {
	c := f2b.NewConf()
	if j.filter == "" || strings.ContainsAny(j.filter, "/\\") || !c.LoadAll(filepath.Join(m.dir, "filter.d", j.filter+".conf")) {
		return
	}
	f := f2b.Scope{Conf: c, Section: "Definition", Params: j.params}
	for key := range c.Section("Definition") {
		if v, _, err := f.Get(key); err == nil && s.Params["known/"+key] == "" {
			s.Params["known/"+key] = v
		}
	}
}

var offsetRE = regexp.MustCompile(`^(?:UTC|GMT)?([+-])(\d{2}):?00$`)

// timeZone is the zone of logtimezone, "" for the machine's.
func (m *importer) timeZone(s f2b.Scope, v string) string {
	switch o := offsetRE.FindStringSubmatch(v); {
	case v == "":
		return ""
	case slices.Contains([]string{"UTC", "GMT", "Z"}, v):
		return "UTC"
	case o != nil: // of POSIX: the sign is the other way round
		sign := map[string]string{"+": "-", "-": "+"}[o[1]]
		return "Etc/GMT" + sign + strings.TrimLeft(o[2], "0")
	}
	m.note(s.Find("logtimezone"), "logtimezone of %s: %.40q is not converted; set zone of its source to a place, as Europe/Berlin", s.Section, v)
	return ""
}

// unsupported reports settings that become nothing here, or something else.
func (m *importer) unsupported(s f2b.Scope, j jail) {
	for _, u := range []struct{ key, as, why string }{
		{"ignorecommand", "", "not converted; use allow, which can also name files and rereads them when they change"},
		{"ignorecache", "", "not needed without ignorecommand"},
		{"bantime.formula", "", "not converted; each repeat multiplies the ttl"},
		{"bantime.multipliers", "", "not converted; each repeat multiplies the ttl by one factor"},
		{"bantime.rndtime", "", "not converted; a block lasts exactly its ttl"},
		{"bantime.overalljails", "", "not needed: repeats of an address are counted over all rules"},
		{"logencoding", "auto utf-8 ascii", "not converted; lines are read as UTF-8, and other bytes as they are"},
		{"maxmatches", "%(maxretry)s", "not needed: explain shows the lines of a block"},
		{"chain", "INPUT <known/chain>", "not converted; see firewall.chains in docs/rules.md"},
		{"skip_if_nologs", "", "not needed: a missing log never stops the others"},
	} {
		v, o, err := s.Get(u.key)
		if o == nil || v == "" || strings.EqualFold(v, "false") || slices.Contains(strings.Fields(u.as), v) || slices.Contains(strings.Fields(u.as), o.Value) {
			continue
		}
		if err == nil {
			m.noteOnce(o, "%s of %s: %s", u.key, s.Section, u.why)
		}
	}
	if v, o, _ := s.Get("usedns"); o != nil && v != "no" && filepath.Base(o.File) != "jail.conf" {
		m.noteOnce(o, "usedns of %s: host names in logs are never looked up", s.Section)
	}
	if v, o, err := s.Get("ignoreself"); err == nil && o != nil && !truth(v) {
		m.noteOnce(o, "ignoreself of %s: stoplog never blocks the machine's own addresses", s.Section)
	}
	o := s.Find("action")
	for _, a := range m.actions(s) {
		if !isBlocking(a.name) {
			m.note(o, "action %s of %s: not converted; docs/migrating.md has recipes", a.name, s.Section)
		}
	}
}

// action is one of a jail's.
type action struct {
	name   string
	params map[string]string
}

// actions are those of a jail, as "iptables-multiport[name=x, port=ssh]".
func (m *importer) actions(s f2b.Scope) (out []action) {
	v, o, err := s.Get("action")
	if err != nil && o != nil {
		m.noteOnce(o, "action of %s: %v", s.Section, err)
	}
	v, _ = f2b.FillTags(s, "action", v)
	for _, part := range splitActions(v) {
		if actionRE.MatchString(part) {
			name, params := cutParams(part)
			out = append(out, action{name, params})
		}
	}
	return out
}

// splitActions cuts at blanks and newlines outside of brackets and quotes.
func splitActions(s string) (out []string) {
	var b strings.Builder
	depth, quote := 0, rune(0)
	for _, r := range s + "\n" {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case depth > 0 && (r == '"' || r == '\''):
			quote = r
		case r == '[':
			depth++
		case r == ']':
			depth = max(depth-1, 0)
		case depth == 0 && (r == ' ' || r == '\n' || r == '\t'):
			if b.Len() > 0 {
				out = append(out, b.String())
			}
			b.Reset()
			continue
		}
		b.WriteRune(r)
	}
	return out
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

var paramRE = regexp.MustCompile(`([\w.-]+)\s*=\s*("[^"]*"|'[^']*'|[^,\]\n]*)`)

// carried are the keys of jail.conf(5) that become part of a rule, or that only
// others refer to.
var carried = strings.Fields(`enabled filter logpath backend maxretry findtime bantime bantime.increment bantime.factor bantime.maxtime ignoreip
	port protocol banaction banaction_allports action mode failregex ignoreregex prefregex datepattern maxlines journalmatch logtimezone
	ignorecommand ignorecache bantime.formula bantime.multipliers bantime.rndtime bantime.overalljails logencoding maxmatches chain skip_if_nologs
	usedns ignoreself`)

// unknownKeys reports the keys that nothing above looks at and no other value
// refers to: none is dropped without a word.
func (m *importer) unknownKeys(c *f2b.Conf, jails []jail) {
	used := map[string]bool{}
	for _, section := range c.Order {
		for _, o := range c.Section(section) {
			for _, r := range nameRE.FindAllStringSubmatch(o.Value, -1) {
				used[strings.ToLower(r[1])] = true
			}
		}
	}
	sections := []string{"DEFAULT"}
	for _, j := range jails {
		sections = append(sections, j.section)
	}
	for _, section := range sections {
		for _, key := range slices.Sorted(maps.Keys(c.Section(section))) {
			o := c.Section(section)[key]
			if slices.Contains(carried, key) || used[key] || strings.HasPrefix(key, "action_") || strings.HasPrefix(filepath.Base(o.File), "paths-") {
				continue
			}
			m.noteOnce(o, "%s of %s: not converted", key, section)
		}
	}
}

var nameRE = regexp.MustCompile(`%\(([^()\s]+)\)s`)

var actionRE = regexp.MustCompile(`^[A-Za-z][\w-]*`)

// isBlocking: the firewall is chosen by `firewall`, whatever action it was.
func isBlocking(action string) bool {
	for _, p := range []string{"iptables", "nftables", "ufw", "firewallcmd", "shorewall", "hostsdeny", "route", "ipfw", "pf", "ipset", "bsd-ipfw", "npf"} {
		if strings.HasPrefix(action, p) {
			return true
		}
	}
	return action == "%(banaction)s"
}

func (m *importer) number(s f2b.Scope, key string, other int) int {
	v, o, err := s.Get(key)
	if err != nil || o == nil {
		return other
	}
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil || n < 1 || n > 10_000 {
		m.note(o, "%s of %s: %.40q is not supported; using %d", key, s.Section, v, other)
		return other
	}
	return n
}

func (m *importer) seconds(s f2b.Scope, key string, other time.Duration) time.Duration {
	v, o, err := s.Get(key)
	if err != nil || o == nil || v == "" {
		return other
	}
	d, ok := parseTime(v)
	if !ok {
		m.note(o, "%s of %s: %.40q is not a valid time; using %s", key, s.Section, v, other)
		return other
	}
	return d
}

// ports are those that the jail's bans close, as numbers; nil is all of them.
func (m *importer) ports(s f2b.Scope) []string {
	v, o, err := s.Get("port")
	if err != nil {
		return nil
	}
	protocol, _, _ := s.Get("protocol")
	blocks := false
	for _, a := range m.actions(s) {
		if !isBlocking(a.name) {
			continue
		}
		if wholeHost(a.name) || a.params["type"] == "allports" {
			return nil
		}
		if p := a.params["port"]; p != "" && !blocks {
			v = p
		}
		if p := a.params["protocol"]; p != "" {
			protocol = p
		}
		blocks = true
	}
	if b, _, err := s.Get("banaction"); !blocks && err == nil && wholeHost(b) || v == "" {
		return nil
	}
	if o == nil {
		o = s.Find("action")
	}
	var out []string
	for _, p := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		lo, hi, isRange := strings.Cut(strings.Replace(p, "-", ":", 1), ":")
		if p == "0:65535" || p == "any" || p == "all" {
			return nil
		}
		if n, err := strconv.Atoi(lo); err == nil && n > 0 {
			if isRange {
				lo += "-" + hi
			}
			out = appendNew(out, withProtocol(protocol, lo))
			continue
		}
		n, err := net.LookupPort("tcp", p)
		if err != nil {
			m.note(o, "port %.40q of %s: unknown service; blocking all ports", p, s.Section)
			return nil
		}
		out = appendNew(out, withProtocol(protocol, strconv.Itoa(n)))
	}
	return out
}

// withProtocol is how rules write a port: tcp and udp without a word.
func withProtocol(protocol, port string) string {
	if protocol == "udp" {
		return "udp/" + port
	}
	return port
}

// wholeHost reports whether a ban action of fail2ban's action.d shuts an address
// out whatever the jail's ports are: all its ports, or at a place that knows none.
func wholeHost(action string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(action), "[")
	return strings.Contains(action, "allports") ||
		slices.Contains([]string{"apf", "cloudflare", "cloudflare-token", "hostsdeny", "nginx-block-map", "npf", "route", "shorewall", "ufw"}, name)
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// allow takes what all jails ignore as allow, and what only some do as a
// condition of their rules: addresses and prefixes, never names.
func (m *importer) allow(jails []jail) {
	of := map[string][]string{}
	count := map[string]int{}
	for _, j := range jails {
		for _, t := range j.ignore {
			p, err := netip.ParsePrefix(t)
			if a, e := netip.ParseAddr(t); e == nil {
				p, err = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
			}
			switch {
			case err != nil || p.Addr().Zone() != "" || p.Addr().Is4In6():
				m.noteOnce(j.ignoreAt, "ignoreip %.60q: host names are not resolved; add its addresses to allow", t)
			case p.Addr().IsLoopback(): // always safe
			default:
				text := p.Masked().String()
				if !slices.Contains(of[j.name], text) {
					of[j.name] = append(of[j.name], text)
					count[text]++
				}
			}
		}
	}
	for _, j := range jails {
		for _, text := range of[j.name] {
			if count[text] == len(jails) {
				m.allowed = appendNew(m.allowed, text)
			} else {
				m.ignored[j.name] = appendNew(m.ignored[j.name], text)
			}
		}
	}
}

func logPaths(s string) []string {
	var out []string
	for _, line := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == ',' }) {
		line = strings.TrimSpace(line)
		for _, end := range []string{" tail", " head"} { // where fail2ban begins
			line = strings.TrimSuffix(line, end)
		}
		if line != "" {
			out = appendNew(out, strings.TrimSpace(line))
		}
	}
	return out
}

// parseTime reads fail2ban's times: seconds, or 1d12h, 1 week (its
// server/utils str2seconds). Without an end (-1) is the longest we block.
func parseTime(s string) (time.Duration, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	if strings.HasPrefix(s, "-") {
		return maxTTL, true
	}
	var sum float64
	for rest := strings.ReplaceAll(s, " ", ""); rest != ""; {
		n := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if n < 0 {
			n = len(rest)
		}
		v, err := strconv.ParseFloat(rest[:n], 64)
		if err != nil {
			return 0, false
		}
		rest = rest[n:]
		u := strings.IndexFunc(rest, func(r rune) bool { return r >= '0' && r <= '9' })
		if u < 0 {
			u = len(rest)
		}
		unit, ok := timeUnits[rest[:u]]
		if !ok {
			return 0, false
		}
		sum += v * unit
		rest = rest[u:]
	}
	if sum <= 0 {
		return 0, false
	}
	return min(time.Duration(min(sum, maxTTL.Seconds()))*time.Second, maxTTL), true
}

const maxTTL = 366 * 24 * time.Hour

var timeUnits = func() map[string]float64 {
	m := map[string]float64{"": 1}
	for _, u := range []struct {
		names string
		secs  float64
	}{
		{"s sec second seconds ss secs", 1}, {"m mm min mins minute minutes", 60}, {"h hh hour hours", 3600},
		{"d dd day days", 86400}, {"w ww week weeks", 604800}, {"mo mon month months", 2629800}, {"y yy yr year years", 31557600},
	} {
		for _, n := range strings.Fields(u.names) {
			m[n] = u.secs
		}
	}
	return m
}()

// short writes a time as rules do.
func short(d time.Duration) string {
	if d <= 0 {
		return "1s"
	}
	for _, u := range []struct {
		size time.Duration
		name string
	}{{7 * 24 * time.Hour, "w"}, {24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d%u.size == 0 {
			return strconv.FormatInt(int64(d/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}
