package rules

import (
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// text is any string; what says which.
func text(what string) value[string] {
	return value[string]{&shape{kind: "string", what: what}, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := c.scalar(n, what)
		if ok && s == "" {
			c.fail(n, "", "expected %s, not an empty string", what)
			return "", false
		}
		return s, ok
	}}
}

// word is one of a fixed set.
func word(what string, words ...string) value[string] {
	return value[string]{&shape{kind: "string", what: what, words: words}, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := c.scalar(n, what)
		if !ok {
			return "", false
		}
		for _, w := range words {
			if s == w {
				return s, true
			}
		}
		c.fail(n, didYouMean(s, words), "expected %s, not %q", what, clip(s))
		return "", false
	}}
}

const nameText = `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`

var (
	nameRE = regexp.MustCompile(`^` + nameText + `$`)
	flagRE = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
)

func name(what string) value[string] { return matching(what, nameRE, "letters, digits, - _ and .") }

// LockdownFlag is what a lockdown is listed as among the flags; a flag of that name
// would look as if one stood.
const LockdownFlag = "lockdown"

func flagName() value[string] {
	v := matching("the name of a flag", flagRE, "lower-case letters, digits and -")
	return value[string]{v.shape, func(c *checker, n *yaml.Node) (string, bool) {
		t, ok := v.read(c, n)
		if ok && t == LockdownFlag {
			c.fail(n, "then: [{lockdown: {for: 5m}}]", "lockdown cannot be the name of a flag")
			return "", false
		}
		return t, ok
	}}
}

func matching(what string, re *regexp.Regexp, hint string) value[string] {
	s := &shape{kind: "string", what: what, pattern: re.String()}
	return value[string]{s, func(c *checker, n *yaml.Node) (string, bool) {
		t, ok := c.scalar(n, what)
		if ok && !re.MatchString(t) {
			c.fail(n, hint, "expected %s, not %q", what, clip(t))
			return "", false
		}
		return t, ok
	}}
}

// boolean is true or false, and nothing that older YAML took for them.
func boolean() value[bool] {
	return value[bool]{&shape{kind: "boolean", what: "true or false"}, func(c *checker, n *yaml.Node) (bool, bool) {
		s, ok := c.scalar(n, "true or false")
		if !ok {
			return false, false
		}
		switch s {
		case "true":
			return true, true
		case "false":
			return false, true
		}
		hint := map[string]string{"yes": "write true", "on": "write true", "no": "write false", "off": "write false"}[s]
		c.fail(n, hint, "expected true or false, not %q", clip(s))
		return false, false
	}}
}

// integer is a whole number within bounds.
func integer(what string, lo, hi int) value[int] {
	s := &shape{kind: "integer", what: what, min: int64(lo), max: int64(hi)}
	return value[int]{s, func(c *checker, n *yaml.Node) (int, bool) {
		t, ok := c.scalar(n, what)
		if !ok {
			return 0, false
		}
		v, err := strconv.Atoi(t)
		if err != nil {
			c.fail(n, "", "%s must be a whole number, not %q", what, clip(t))
			return 0, false
		}
		if v < lo || v > hi {
			c.fail(n, "", "%s is %d, but must be between %d and %d", what, v, lo, hi)
			return 0, false
		}
		return v, true
	}}
}

// factor is a number from 1 up.
func factor(what string, hi float64) value[float64] {
	s := &shape{kind: "number", what: what, min: 1, max: int64(hi)}
	return value[float64]{s, func(c *checker, n *yaml.Node) (float64, bool) {
		t, ok := c.scalar(n, what)
		if !ok {
			return 0, false
		}
		v, err := strconv.ParseFloat(t, 64)
		if err != nil || math.IsNaN(v) || v < 1 || v > hi {
			c.fail(n, "", "%s must be a number from 1 to %g, not %q", what, hi, clip(t))
			return 0, false
		}
		return v, true
	}}
}

var sizeRE = regexp.MustCompile(`^([0-9]{1,12})(KiB|MiB|GiB)?$`)

// size is a number of bytes: 65536, 64KiB, 16MiB.
func size(what string, lo, hi int) value[int] {
	s := &shape{kind: "string", what: what, pattern: sizeRE.String()}
	return value[int]{s, func(c *checker, n *yaml.Node) (int, bool) {
		t, ok := c.scalar(n, what)
		if !ok {
			return 0, false
		}
		m := sizeRE.FindStringSubmatch(t)
		if m == nil {
			c.fail(n, "such as 64KiB or 16MiB", "%s must be a size, not %q", what, clip(t))
			return 0, false
		}
		v, _ := strconv.Atoi(m[1])
		v <<= map[string]int{"": 0, "KiB": 10, "MiB": 20, "GiB": 30}[m[2]]
		if v < lo || v > hi {
			c.fail(n, "", "%s is %d bytes, but must be between %d and %d", what, v, lo, hi)
			return 0, false
		}
		return v, true
	}}
}

const durationText = `^([0-9]+(ms|[smhdw]))+$`

// duration is a length of time within bounds.
func duration(what string, lo, hi time.Duration) value[time.Duration] {
	s := &shape{kind: "string", what: what, pattern: durationText}
	return value[time.Duration]{s, func(c *checker, n *yaml.Node) (time.Duration, bool) {
		t, ok := c.scalar(n, what)
		if !ok {
			return 0, false
		}
		d, err := ParseDuration(t)
		switch {
		case err != nil:
			c.fail(n, durationHint(t, err), "%s must be a duration, not %q", what, clip(t))
		case d < lo || d > hi:
			c.fail(n, "", "%s is %s, but must be between %s and %s", what, t, FormatDuration(lo), FormatDuration(hi))
		default:
			return d, true
		}
		return 0, false
	}}
}

func durationHint(t string, err error) string {
	if _, e := strconv.Atoi(t); e == nil && len(t) < 10 {
		return "add a unit: " + t + "s, " + t + "m…"
	}
	return err.Error()
}

// prefix is a network or one address.
func prefix(what string) value[netip.Prefix] {
	return value[netip.Prefix]{&shape{kind: "string", what: what}, func(c *checker, n *yaml.Node) (netip.Prefix, bool) {
		t, ok := c.scalar(n, what)
		if !ok {
			return netip.Prefix{}, false
		}
		p, hint, ok := readPrefix(t)
		if !ok {
			c.fail(n, hint, "expected %s, such as 192.0.2.0/24 or 2001:db8::/32, not %q", what, clip(t))
		}
		return p, ok
	}}
}

// readPrefix reads an address or a prefix without host bits. IPv4-mapped ones
// are refused: nobody's log names them so after parsing.
func readPrefix(t string) (p netip.Prefix, hint string, ok bool) {
	if !strings.Contains(t, "/") {
		a, err := netip.ParseAddr(t)
		if err != nil || a.Zone() != "" {
			return p, "", false
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), "", true
	}
	p, err := netip.ParsePrefix(t)
	if err != nil {
		return p, "", false
	}
	if p.Addr().Is4In6() {
		return p, "write it as IPv4", false
	}
	if p != p.Masked() {
		return p, fmt.Sprintf("did you mean %s?", p.Masked()), false
	}
	return p, "", true
}

// path is a file's name or glob, relative to the rules file.
func path(what string) value[string] {
	t := text(what)
	return value[string]{t.shape, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := t.read(c, n)
		if !ok {
			return "", false
		}
		if _, err := filepath.Match(s, ""); err != nil {
			c.fail(n, "[ needs a closing ]", "invalid glob %q", clip(s))
			return "", false
		}
		return c.absolute(s), true
	}}
}

func (c *checker) absolute(p string) string {
	if filepath.IsAbs(p) || c.dir == "" {
		return filepath.Clean(p)
	}
	return filepath.Join(c.dir, p)
}

var portRE = regexp.MustCompile(`^(?:(tcp|udp)/)?([0-9]{1,5})(?:-([0-9]{1,5}))?(?:/(tcp|udp))?$`)

// ports is 22, 8000-8999, tcp/22 or 53/udp.
func ports() value[Ports] {
	const what = "a port"
	return value[Ports]{&shape{oneOf: []*shape{{kind: "integer", min: 1, max: 65535}, {kind: "string", pattern: portRE.String()}}, what: what},
		func(c *checker, n *yaml.Node) (Ports, bool) {
			t, ok := c.scalar(n, what)
			if !ok {
				return Ports{}, false
			}
			p, ok := readPorts(t)
			if !ok {
				c.fail(n, "22, 8000-8999 or udp/53", "expected a port, not %q", clip(t))
			}
			return p, ok
		}}
}

func readPorts(t string) (Ports, bool) {
	m := portRE.FindStringSubmatch(t)
	if m == nil || m[1] != "" && m[4] != "" {
		return Ports{}, false
	}
	lo, _ := strconv.Atoi(m[2])
	hi := lo
	if m[3] != "" {
		hi, _ = strconv.Atoi(m[3])
	}
	if lo < 1 || hi < lo || hi > 65535 {
		return Ports{}, false
	}
	return Ports{Proto: m[1] + m[4], From: uint16(lo), To: uint16(hi)}, true
}
