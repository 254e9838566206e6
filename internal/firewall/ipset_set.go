//go:build linux

package firewall

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Bounds of ipset(8).
const (
	ipsetMaxTimeout = 2_147_483 * time.Second
	ipsetFirstSize  = 65_536
)

// ipsetKind is what all entries of one set have in common.
type ipsetKind struct {
	v6     bool
	action Action
	ports  string // as formatPorts prints them
}

func ipsetKindOf(e Entry) ipsetKind {
	return ipsetKind{v6: e.Prefix.Addr().Is6(), action: e.Action, ports: formatPorts(e.Ports)}
}

func famDigit(v6 bool) string {
	if v6 {
		return "6"
	}
	return "4"
}

// set names the kind's set: at most 31 characters, so that the ports are a hash.
func (k ipsetKind) set(name string) string {
	s := name + famDigit(k.v6) + "-"
	if k.ports == "" {
		return s + k.action.String()
	}
	h := fnv.New32a()
	h.Write([]byte(k.ports))
	return s + k.action.String()[:1] + fmt.Sprintf("%08x", h.Sum32())
}

// comment marks the kind's rules; the sets are found again by them.
func (k ipsetKind) comment() string {
	return "stoplog set action=" + k.action.String() + " ports=" + k.ports
}

func parseIPSetKind(comment string, v6 bool) (ipsetKind, bool) {
	rest, ok := strings.CutPrefix(comment, "stoplog set action=")
	if !ok {
		return ipsetKind{}, false
	}
	action, ports, ok := strings.Cut(rest, " ports=")
	a, err := ParseAction(action)
	if !ok || err != nil {
		return ipsetKind{}, false
	}
	if ports != "" {
		if _, err := parsePorts(ports); err != nil {
			return ipsetKind{}, false
		}
	}
	return ipsetKind{v6: v6, action: a, ports: ports}, true
}

func (k ipsetKind) portList() []Ports {
	if k.ports == "" {
		return nil
	}
	ps, _ := parsePorts(k.ports)
	return ps
}

// rules look the source up in the kind's set. For what is slowed, new
// connections are counted for each /28 or /64: the kernel's hashlimit knows one
// length for a rule.
func (k ipsetKind) rules(m ruleMaker, name string) []xtRule {
	var rules []xtRule
	add := func(match []string, verdict ...string) {
		spec := append([]string{"-m", "set", "--match-set", k.set(name), "src"}, match...)
		rules = append(rules, commented(k.comment(), append(spec, verdict...)...))
	}
	for _, match := range portMatches(k.portList()) {
		switch k.action {
		case Drop:
			add(match, "-j", "DROP")
		case Reject:
			m.reject(match, add)
		case Slow:
			mask := "28"
			if k.v6 {
				mask = "64"
			}
			rate := strconv.Itoa(m.slow)
			add(append(match[:len(match):len(match)], "-m", "conntrack", "--ctstate", "NEW",
				"-m", "hashlimit", "--hashlimit-above", rate+"/minute", "--hashlimit-burst", rate,
				"--hashlimit-mode", "srcip", "--hashlimit-srcmask", mask, "--hashlimit-name", name[:min(len(name), 13)]+famDigit(k.v6)), "-j", "DROP")
		}
	}
	return rules
}

// ipsetCreate is the line that makes a set of blocks.
func ipsetCreate(set string, v6 bool, size int) string {
	fam := "inet"
	if v6 {
		fam = "inet6"
	}
	return fmt.Sprintf("create %s hash:net family %s timeout 0 maxelem %d\n", set, fam, size)
}

// ipsetAdd is the line that adds or refreshes a block. Timeouts are whole
// seconds, and 0 would be for ever; a shorter rest is no block any more.
func ipsetAdd(set string, e Entry, now time.Time) (string, bool) {
	ttl := min(e.Until.Sub(now), ipsetMaxTimeout)
	if ttl < time.Second {
		return "", false
	}
	return fmt.Sprintf("add %s %s timeout %d\n", set, e.Prefix, int(ttl/time.Second)), true
}

// parseIPSetAdd reads a line of `ipset save`: "add SET PREFIX timeout N".
func parseIPSetAdd(line string) (p netip.Prefix, ttl time.Duration, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 || f[0] != "add" || f[3] != "timeout" {
		return p, 0, false
	}
	n, err := strconv.Atoi(f[4])
	if err != nil || n <= 0 {
		return p, 0, false
	}
	if p, err = netip.ParsePrefix(f[2]); err != nil {
		a, err := netip.ParseAddr(f[2]) // a whole address is printed bare
		if err != nil {
			return p, 0, false
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	return p, time.Duration(n) * time.Second, validPrefix(p) == nil
}

// ipsetInfo is what `ipset list -t` tells of a set.
type ipsetInfo struct {
	size, entries int
}

func parseIPSetList(out string) map[string]ipsetInfo {
	sets := map[string]ipsetInfo{}
	name := ""
	for l := range strings.Lines(out) {
		k, v, _ := strings.Cut(strings.TrimSpace(l), ": ")
		info := sets[name]
		switch k {
		case "Name":
			name = v
			info = ipsetInfo{}
		case "Header":
			info.size, _ = strconv.Atoi(after(strings.Fields(v), "maxelem"))
		case "Number of entries":
			info.entries, _ = strconv.Atoi(v)
		default:
			continue
		}
		sets[name] = info
	}
	return sets
}
