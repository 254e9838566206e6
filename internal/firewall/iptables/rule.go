//go:build linux

package iptables

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// xtRule is one rule of ours: the words after the chain's name, and the
// comment by which it is known again, whatever way iptables prints the rest.
type Rule struct {
	spec    []string
	Comment string
}

func Commented(comment string, spec ...string) Rule {
	return Rule{spec: append([]string{"-m", "comment", "--comment", comment}, spec...), Comment: comment}
}

// parseRule reads one line of `iptables -S CHAIN`, "-A CHAIN spec…".
func parseRule(line string) (Rule, bool) {
	w := splitWords(line)
	if len(w) < 3 || w[0] != "-A" {
		return Rule{}, false
	}
	return Rule{spec: w[2:], Comment: after(w[2:], "--comment")}, true
}

// after returns the word that follows flag.
func after(words []string, flag string) string {
	for i := 0; i+1 < len(words); i++ {
		if words[i] == flag {
			return words[i+1]
		}
	}
	return ""
}

// splitWords undoes the quoting of `iptables -S` (xtables_save_string:
// double quotes around words with unusual characters, a backslash before
// quotes and backslashes).
func splitWords(line string) []string {
	var words []string
	var b strings.Builder
	in, quoted := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
			in = true
		case c == '"':
			quoted = !quoted
			in = true
		case c == ' ' && !quoted:
			if in {
				words = append(words, b.String())
				b.Reset()
			}
			in = false
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if in {
		words = append(words, b.String())
	}
	return words
}

// ruleMaker knows what the kernel and the hook can do.
type Maker struct {
	V6   bool
	time bool // the kernel has the time match
	ct   bool // connection state is known at the hook
	Slow int
}

// block makes the rules of one entry, in their order.
func (m Maker) block(e firewall.Entry) []Rule {
	comment := base.Note(e)
	var rules []Rule
	add := func(match []string, verdict ...string) {
		spec := append([]string{"-s", e.Prefix.String()}, match...)
		spec = append(spec, m.until(e.Until)...)
		spec = append(spec, "-m", "comment", "--comment", comment)
		rules = append(rules, Rule{spec: append(spec, verdict...), Comment: comment})
	}
	for _, match := range PortMatches(e.Ports) {
		switch e.Action {
		case firewall.Drop:
			add(match, "-j", "DROP")
		case firewall.Reject:
			m.Reject(match, add)
		case firewall.Slow:
			fresh := append(match[:len(match):len(match)], "-m", "conntrack", "--ctstate", "NEW")
			add(append(fresh[:len(fresh):len(fresh)], "-m", "limit", "--limit", strconv.Itoa(m.Slow)+"/minute", "--limit-burst", strconv.Itoa(m.Slow)), "-j", "RETURN")
			add(fresh, "-j", "DROP")
		}
	}
	return rules
}

func (m Maker) Reject(match []string, add func([]string, ...string)) {
	switch {
	case len(match) == 0:
		add([]string{"-p", "tcp"}, "-j", "REJECT", "--reject-with", "tcp-reset")
		add(nil, "-j", "REJECT")
	case match[1] == "tcp":
		add(match, "-j", "REJECT", "--reject-with", "tcp-reset")
	default:
		add(match, "-j", "REJECT")
	}
}

// until is the match that ends a rule by itself. --datestop is UTC and
// includes its second, so that the one before is named.
func (m Maker) until(t time.Time) []string {
	if !m.time {
		return nil
	}
	stop := t.UTC().Truncate(time.Second).Add(-time.Second)
	return []string{"-m", "time", "--datestop", stop.Format("2006-01-02T15:04:05")}
}

// portMatches returns one match for each protocol, or one empty match for all.
func PortMatches(ps []firewall.Ports) [][]string {
	if len(ps) == 0 {
		return [][]string{nil}
	}
	var ms [][]string
	for _, proto := range []string{"tcp", "udp"} {
		var list []string
		for _, p := range ps {
			if p.Proto != "" && p.Proto != proto {
				continue
			}
			s := strconv.Itoa(int(p.From))
			if p.To != p.From {
				s += ":" + strconv.Itoa(int(p.To))
			}
			list = append(list, s)
		}
		if len(list) > 0 {
			ms = append(ms, []string{"-p", proto, "-m", "multiport", "--dports", strings.Join(list, ",")})
		}
	}
	return ms
}

// neighbourTypes are neighbour discovery's messages (RFC 4861), without which
// an IPv6 neighbour cannot be reached at all.
var neighbourTypes = []string{"133", "134", "135", "136", "137"}

// pass makes the rules that leave our chain before any block. Among
// themselves their order is of no matter.
func (m Maker) pass(allow []netip.Prefix) []Rule {
	var rules []Rule
	for _, p := range allow {
		if p.Addr().Is6() == m.V6 {
			rules = append(rules, Commented("stoplog allow "+p.String(), "-s", p.String(), "-j", "RETURN"))
		}
	}
	if m.ct {
		rules = append(rules, Commented("stoplog replies to our own connections",
			"-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "--ctdir", "REPLY", "-j", "RETURN"))
	}
	if m.V6 {
		for _, t := range neighbourTypes {
			rules = append(rules, Commented("stoplog neighbour discovery "+t, "-p", "ipv6-icmp", "-m", "icmp6", "--icmpv6-type", t, "-j", "RETURN"))
		}
	}
	return rules
}

// lock makes the rules of a lockdown: who passes, and what is refused.
func (m Maker) lock(p firewall.Policy, now time.Time) (pass, refuse []Rule) {
	l := p.Lockdown
	if !l.Until.After(now) {
		return nil, nil
	}
	for _, a := range l.Known {
		if a.Is6() == m.V6 {
			pass = append(pass, Commented("stoplog known "+a.String(), "-s", a.String(), "-j", "RETURN"))
		}
	}
	comment := "stoplog lockdown until=" + l.Until.UTC().Format(time.RFC3339) + " ports=" + firewall.FormatPorts(l.Ports)
	for _, match := range PortMatches(l.Ports) {
		spec := append(match[:len(match):len(match)], "-m", "conntrack", "--ctstate", "NEW")
		spec = append(spec, m.until(l.Until)...)
		refuse = append(refuse, Commented(comment, append(spec, "-j", "DROP")...))
	}
	return pass, refuse
}
