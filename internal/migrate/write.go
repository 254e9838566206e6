package migrate

import (
	"fmt"
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
		m.addFile(l, service, j.zone)
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
func (m *importer) addFile(path, service, zone string) {
	plain := "{file: " + quote(path) + "}"
	if strings.Contains(service, ",") {
		service = ""
	}
	if old, ok := m.files[path]; ok && old != service {
		service = ""
	}
	m.sources = slices.DeleteFunc(m.sources, func(s string) bool { return s == plain || strings.HasPrefix(s, plain[:len(plain)-1]+", ") })
	m.files[path] = service
	if service != "" {
		plain = plain[:len(plain)-1] + ", service: " + service + "}"
	}
	if zone != "" {
		plain = plain[:len(plain)-1] + ", zone: " + quote(zone) + "}"
	}
	m.addSource(plain)
}

// addRule writes one rule: match is conditions on its events, pattern its filter.
func (m *importer) addRule(j jail, name, match, pattern string) {
	var b strings.Builder
	name = m.unused(name)
	fmt.Fprintf(&b, "  - name: %s\n", quote(name))
	fmt.Fprintf(&b, "    about: %s\n", quote("Converted from fail2ban jail "+j.name+" (filter "+j.filter+")."))
	var conds []string
	if match != "" {
		conds = append(conds, match)
	}
	if from := j.origins(match != ""); from != "" {
		conds = append(conds, "source: ["+from+"]")
	}
	if not := m.ignored[j.name]; len(not) > 0 {
		conds = append(conds, "ip: {not: ["+quoteAll(not)+"]}")
	}
	fmt.Fprintf(&b, "    match: {%s}\n", strings.Join(conds, ", "))
	if pattern != "" {
		fmt.Fprintf(&b, "    pattern: %s\n", pattern)
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
# Jails keep their numbers, logs, ports and filters, and block single addresses.

use: []
prefix: {ipv4: 32, ipv6: 128}
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
	b.WriteString("\nrules:\n" + strings.Join(m.rules, "\n") + proposals)
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

// proposals end the file.
const proposals = `
# Proposals. What each would have changed on your own logs shows
# "stoplog replay --against THIS-FILE --config CHANGED-FILE LOG…".
#
# Attackers own neighbours: count and block them together.
#prefix: {ipv4: 28, ipv6: 64}
#
# The built-in rules read every log that they know, and catch slow attackers too.
#use: auto
#
# Each repeat is blocked longer, as recidive did; the rules above set their own.
#block: {multiply: 4, max: 30d}
`

// origins are the names of what the jail reads, for match.source. A reader of
// stoplog's own, which knows who wrote a line, needs none for the usual logs.
func (j jail) origins(native bool) string {
	if j.journal {
		if native {
			return ""
		}
		return "journal"
	}
	if native && (len(j.logs) == 0 || usualAuth(j.logs)) {
		return ""
	}
	return quoteAll(j.logs)
}
