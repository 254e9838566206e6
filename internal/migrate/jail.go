package migrate

import (
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
	match     string // journalmatch
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
	j := jail{name: ruleName(s.Section), at: at, factor: 1}
	text := func(key string) string {
		v, o, err := s.Get(key)
		if err != nil {
			m.note(o, "%s of %s: %v", key, s.Section, err)
		}
		return v
	}
	j.filter, j.params = cutParams(text("filter"))
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
		m.unsupported(s)
	}
	return j
}

// unsupported tells of settings that have no like here.
func (m *importer) unsupported(s f2b.Scope) {
	for _, u := range []struct{ key, why string }{
		{"ignorecommand", "not supported; use allow, which can also name files and rereads them when they change"},
		{"bantime.formula", "formulas are not supported; each repeat multiplies the ttl"},
		{"bantime.multipliers", "lists are not supported; each repeat multiplies the ttl by one factor"},
		{"bantime.overalljails", "not needed: repeats of a prefix are counted over all rules"},
	} {
		v, o, err := s.Get(u.key)
		if err == nil && v != "" && !strings.EqualFold(v, "false") {
			m.note(o, "%s of %s: %s", u.key, s.Section, u.why)
		}
	}
	if v, o, err := s.Get("ignoreself"); err == nil && o != nil && !truth(v) {
		m.note(o, "ignoreself of %s: stoplog never blocks the machine's own addresses", s.Section)
	}
	v, o, err := s.Get("action")
	if err != nil || o == nil {
		return
	}
	for _, line := range strings.Split(v, "\n") {
		name := actionRE.FindString(strings.TrimSpace(line))
		if name != "" && !isBlocking(name) && !strings.Contains(line[:strings.IndexByte(line+"[", '[')], "=") {
			m.note(o, "action %s of %s: not converted; use notify (webhook, e-mail, exec)", name, s.Section)
		}
	}
}

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

// ports turns port names into numbers; nil is all of them.
func (m *importer) ports(s f2b.Scope) []string {
	v, o, err := s.Get("port")
	if err != nil || o == nil {
		return nil
	}
	if b, _, err := s.Get("banaction"); err == nil && wholeHost(b) {
		return nil
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
			out = appendNew(out, lo)
			continue
		}
		n, err := net.LookupPort("tcp", p)
		if err != nil {
			m.note(o, "port %.40q of %s: unknown service; blocking all ports", p, s.Section)
			return nil
		}
		out = appendNew(out, strconv.Itoa(n))
	}
	return out
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

// allow adds what a jail ignores: addresses and prefixes, never names.
func (m *importer) allow(j jail) {
	for _, t := range j.ignore {
		p, err := netip.ParsePrefix(t)
		if a, e := netip.ParseAddr(t); e == nil {
			p, err = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
		}
		switch {
		case err != nil:
			m.noteOnce(j.ignoreAt, "ignoreip %.60q: host names are not resolved; add its addresses to allow", t)
		case p.Addr().IsLoopback(): // always safe
		default:
			m.allowed = appendNew(m.allowed, p.Masked().String())
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
