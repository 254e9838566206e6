package migrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// addSources adds where a jail's lines come from; service is the one whose log it
// is, "" when its patterns read it.
func (m *importer) addSources(j jail, service string, auth bool, journal string) {
	if j.match != "" {
		journal = j.match
	}
	switch {
	case auth && (j.journal || len(j.logs) == 0 || usualAuth(j.logs)):
		m.addSource("auth")
		return
	case j.journal:
		m.journalSources(j, journal)
		return
	}
	if len(j.logs) == 0 {
		m.note(j.at, "jail %s has no logpath; its rule reads other sources", j.name)
	}
	for _, l := range j.logs {
		if !strings.HasPrefix(l, "/") {
			m.note(j.at, "jail %s: logpath %.80q is not absolute", j.name, l)
			continue
		}
		m.addFile(l, service)
	}
}

func usualAuth(logs []string) bool {
	return !slices.ContainsFunc(logs, func(l string) bool { return l != "/var/log/auth.log" && l != "/var/log/secure" })
}

// journalSources turns a journalmatch, of which "+" separates alternatives,
// into one source each.
func (m *importer) journalSources(j jail, match string) {
	if strings.TrimSpace(match) == "" {
		m.addSource("journal")
		return
	}
	var all []string
	for _, alternative := range strings.Split(match, "+") {
		if f := strings.Fields(alternative); len(f) > 0 {
			all = append(all, "{journal: {matches: ["+quoteAll(f)+"]}}")
		}
	}
	for _, s := range all {
		m.addSource(s)
	}
}

func (m *importer) addSource(s string) { m.sources = appendNew(m.sources, s) }

// addFile adds a file. Its service is named when all jails that read it are of
// the same; else where it is and the tags of its lines tell.
func (m *importer) addFile(path, service string) {
	plain := "{file: " + quote(path) + "}"
	if strings.Contains(service, ",") {
		service = ""
	}
	if old, ok := m.files[path]; ok && old != service {
		service = ""
	}
	m.sources = slices.DeleteFunc(m.sources, func(s string) bool { return s == plain || strings.HasPrefix(s, plain[:len(plain)-1]+", service: ") })
	m.files[path] = service
	if service != "" {
		plain = plain[:len(plain)-1] + ", service: " + service + "}"
	}
	m.addSource(plain)
}

// addRule writes one rule.
func (m *importer) addRule(j jail, name, match, pattern string, programs []string, observe bool) {
	var b strings.Builder
	name = m.unused(name)
	fmt.Fprintf(&b, "  - name: %s\n", quote(name))
	fmt.Fprintf(&b, "    about: %s\n", quote("Converted from fail2ban jail "+j.name+" (filter "+j.filter+")."))
	if match == "" {
		match = j.ownLogs()
	}
	if match != "" {
		fmt.Fprintf(&b, "    match: %s\n", match)
	}
	if pattern != "" {
		fmt.Fprintf(&b, "    pattern: %s\n", quote(pattern))
		if len(programs) > 0 {
			fmt.Fprintf(&b, "    programs: [%s]\n", quoteAll(programs))
		}
	}
	within := min(max(j.findTime, time.Second), 30*24*time.Hour)
	if within != j.findTime {
		m.noteOnce(j.at, "jail %s: findtime is reduced to %s, the longest window", j.name, short(within))
	}
	fmt.Fprintf(&b, "    window: {count: %d, within: %s}\n", j.maxRetry, short(within))
	m.writeTTL(&b, j)
	if len(j.ports) > 0 {
		m.limited = true
		fmt.Fprintf(&b, "    ports: [%s]\n", strings.Join(j.ports, ", "))
	}
	if observe {
		b.WriteString("    mode: observe\n")
	}
	m.rules = append(m.rules, b.String())
}

func (m *importer) writeTTL(b *strings.Builder, j jail) {
	ttl := max(j.banTime, time.Second)
	fmt.Fprintf(b, "    ttl: %s\n", short(ttl))
	if ttl == maxTTL {
		m.noteOnce(j.at, "jail %s: a permanent ban becomes a block of %s, the longest TTL", j.name, short(maxTTL))
	}
	if !j.increment {
		fmt.Fprintf(b, "    multiply: 1\n    max: %s\n", short(ttl))
		return
	}
	longest := j.maxTime
	if longest == 0 {
		longest = maxTTL
	}
	// fail2ban doubles a ban each time, times the factor.
	fmt.Fprintf(b, "    multiply: 2\n    max: %s\n", short(max(longest, ttl)))
	if j.factor != 1 {
		m.noteOnce(j.at, "jail %s: bantime.factor %s is not converted; multiply sets the factor for repeats", j.name,
			strconv.FormatFloat(j.factor, 'g', -1, 64))
	}
}

// yaml is the whole file.
func (m *importer) yaml(jails int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Rules made from %s (%d enabled jails) by
# "stoplog import fail2ban". Look through them, then: stoplog check FILE
#
# fail2ban counts and blocks single addresses; here it is /28 and /64, since
# attackers own neighbours. For its way write: prefix: {ipv4: 32, ipv6: 128}
# The ready rules (use: auto) catch slow attackers too; these are as fast as
# your jails were.

use: []
`, oneLine(m.dir), jails)
	if m.limited {
		b.WriteString(`
# Blocks close the ports of their jail, as fail2ban's did. Lists for other
# firewalls and proxies leave them out unless they are told to list them:
#   exports: [{format: plain, file: /var/lib/stoplog/list.txt, ports: any}]
`)
	}
	if len(m.allowed) > 0 {
		fmt.Fprintf(&b, "\nallow: [%s]\n", quoteAll(m.allowed))
	}
	if len(m.sources) > 0 {
		b.WriteString("\nsources:\n")
		for _, s := range m.sources {
			b.WriteString("  - " + s + "\n")
		}
	}
	if len(m.rules) == 0 {
		b.WriteString("\nrules: []\n")
		return b.String()
	}
	b.WriteString("\nrules:\n" + strings.Join(m.rules, "\n"))
	return b.String()
}

func oneLine(s string) string { return strings.Map(printable, s) }

func printable(r rune) rune {
	if r < 0x20 || r == 0x7f {
		return '?'
	}
	return r
}

// quote writes a YAML scalar that nothing in it can end or turn.
func quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return strconv.QuoteToASCII(s)
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

func quoteAll(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = quote(s)
	}
	return strings.Join(q, ", ")
}

// systemLogs are files that many programs write: a pattern that names one would
// read the lines of all of them, also of those that stoplog reads itself.
var systemLogs = []string{"auth.log", "secure", "syslog", "messages", "mail.log", "maillog", "daemon.log", "user.log", "kern.log"}

// ownLogs is the condition that the jail's pattern reads the jail's own files
// only: a client of another jail's program must not trigger it. It is "" when
// the jail reads the journal or a system log.
func (j jail) ownLogs() string {
	if j.journal || len(j.logs) == 0 || slices.ContainsFunc(j.logs, func(l string) bool {
		return !strings.HasPrefix(l, "/") || slices.Contains(systemLogs, filepath.Base(l))
	}) {
		return ""
	}
	return "{source: [" + quoteAll(j.logs) + "]}"
}
