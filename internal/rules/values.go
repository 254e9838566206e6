package rules

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"gopkg.in/yaml.v3"
)

// own are the kinds of types that are read in a way of their own.
func own(t reflect.Type, g tags) (kind, bool) {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return duration(g), true
	case reflect.TypeFor[netip.Prefix]():
		return prefix(g), true
	case reflect.TypeFor[Ports]():
		return ports(), true
	case reflect.TypeFor[Guarded]():
		return guarded(), true
	case reflect.TypeFor[List]():
		return prefixList(g), true
	case reflect.TypeFor[room]():
		return roomKind(), true
	case reflect.TypeFor[Key]():
		return keyKind(), true
	case reflect.TypeFor[Part]():
		return partKind(), true
	case reflect.TypeFor[Source]():
		return sourceKind(), true
	case reflect.TypeFor[answers]():
		return answersKind(), true
	case reflect.TypeFor[patternText]():
		return patternKind(g), true
	case reflect.TypeFor[Weight]():
		return weightKind(), true
	case reflect.TypeFor[*time.Location]():
		return zone(), true
	}
	switch g.is {
	case "outcomes":
		return mask(g, outcomeWords), true
	case "kinds":
		return mask(g, kindWords), true
	}
	return kind{}, false
}

const nameText = `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`

var (
	nameRE = regexp.MustCompile(`^` + nameText + `$`)
	flagRE = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	setRE  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,30}$`)
	nftRE  = regexp.MustCompile(`^(inet|ip|ip6|netdev|bridge) [A-Za-z][A-Za-z0-9_.-]{0,30}$`)
	hostRE = regexp.MustCompile(`^[^ /:@*?#\[\]]+$`)
	mailRE = regexp.MustCompile(`^[^@ <>\r\n,;"]*@[^@ <>\r\n,;"]*$`)
	headRE = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_|~-]{1,64}$")
	sizeRE = regexp.MustCompile(`^([0-9]{1,12})(KiB|MiB|GiB)?$`)
)

// LockdownFlag is what a lockdown is listed as among the flags; a flag of that name
// would look as if one stood.
const LockdownFlag = "lockdown"

// texts are the ways to read text beyond taking it as it is.
var texts = map[string]struct {
	re         *regexp.Regexp
	what, hint string
	lower      bool
	then       func(c *checker, n *yaml.Node, s string) (string, bool)
}{
	"name":   {re: nameRE, what: "a name", hint: "letters, digits, - _ and ."},
	"flag":   {re: flagRE, what: "the name of a flag", hint: "lower-case letters, digits and -", then: flagName},
	"set":    {re: setRE, what: "the name of a set", hint: "a letter, then letters, digits, _ . -, at most 31"},
	"table":  {re: nftRE, what: "a table", hint: "inet filter"},
	"host":   {re: hostRE, what: "a host name without a port", hint: "stoplog.example.net", lower: true},
	"email":  {re: mailRE, what: "an e-mail address", hint: "ops@example.net"},
	"header": {re: headRE, what: "a header name", hint: "x-forwarded-for", lower: true},
	"path":   {what: "a file", then: globPath},
	"url":    {what: "a URL", then: webURL},
	"listen": {what: "an address to listen on", then: listenAddr},
	"net": {what: "a network", then: func(c *checker, n *yaml.Node, s string) (string, bool) {
		_, ok := c.prefix(n, "a network")
		return s, ok
	}},
	"tmpl": {what: "a template", then: messageTemplate},
}

// textual is a string: one of words, or as the tag `is` says.
func textual(g tags) kind {
	if len(g.words) > 0 {
		return word(g.noun(), g.words...)
	}
	how := texts[g.is]
	what := g.what
	if what == "" {
		what = how.what
	}
	s := &shape{kind: "string", what: what}
	if how.re != nil {
		s.pattern = how.re.String()
	}
	return read1(s, func(c *checker, n *yaml.Node) (string, bool) {
		t, ok := c.scalar(n, what)
		switch {
		case !ok:
		case how.re != nil && !how.re.MatchString(t):
			c.fail(n, how.hint, "expected %s, not %q", what, clip(t))
			return "", false
		case t == "":
			c.fail(n, "", "expected %s, not an empty string", what)
			return "", false
		case how.lower:
			t = strings.ToLower(t)
		case how.then != nil:
			return how.then(c, n, t)
		}
		return t, ok
	})
}

// word is one of a fixed set.
func word(what string, words ...string) kind {
	return read1(&shape{kind: "string", what: what, words: words}, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := c.scalar(n, what)
		for _, w := range words {
			if ok && s == w {
				return s, true
			}
		}
		if ok {
			c.fail(n, didYouMean(s, words), "expected %s, not %q", what, clip(s))
		}
		return "", false
	})
}

func flagName(c *checker, n *yaml.Node, s string) (string, bool) {
	if s == LockdownFlag {
		c.fail(n, "then: [{lockdown: {for: 5m}}]", "lockdown cannot be the name of a flag")
		return "", false
	}
	return s, true
}

// globPath is a file's name or glob, relative to the rules file.
func globPath(c *checker, n *yaml.Node, s string) (string, bool) {
	if _, err := filepath.Match(s, ""); err != nil {
		c.fail(n, "[ needs a closing ]", "invalid glob %q", clip(s))
		return "", false
	}
	if filepath.IsAbs(s) || c.dir == "" {
		return filepath.Clean(s), true
	}
	return filepath.Join(c.dir, s), true
}

func webURL(c *checker, n *yaml.Node, s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		c.fail(n, "https://…", "expected an http or https URL, not %q", clip(s))
		return "", false
	}
	return s, true
}

func messageTemplate(c *checker, n *yaml.Node, s string) (string, bool) {
	if _, err := template.New("").Parse(s); err != nil {
		c.fail(n, "", "invalid template: %s", strings.TrimPrefix(err.Error(), "template: :"))
		return "", false
	}
	return s, true
}

// listenAddr is host:port, :port (loopback) or the absolute path of a unix socket.
func listenAddr(c *checker, n *yaml.Node, s string) (string, bool) {
	if strings.HasPrefix(s, "/") {
		return s, true
	}
	host, port, err := net.SplitHostPort(s)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		c.fail(n, "127.0.0.1:8080, '[::1]:8080' or /run/stoplog/page.sock", "expected an address to listen on, not %q", clip(s))
		return "", false
	}
	if host == "" {
		return net.JoinHostPort("127.0.0.1", port), true
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		c.fail(n, "127.0.0.1, [::1] or localhost", "expected an IP address before the port, not the name %q", clip(host))
		return "", false
	}
	return s, true
}

func zone() kind {
	return read1(&shape{kind: "string", what: "a time zone"}, func(c *checker, n *yaml.Node) (*time.Location, bool) {
		s, ok := c.scalar(n, "a time zone")
		if !ok {
			return nil, false
		}
		loc, err := time.LoadLocation(s)
		if err != nil || s == "" || strings.Contains(s, "..") {
			c.fail(n, "such as Europe/Zurich or UTC", "unknown time zone %q", clip(s))
			return nil, false
		}
		return loc, true
	})
}

// boolean is true or false, and nothing that older YAML took for them.
func boolean() kind {
	const what = "true or false"
	return read1(&shape{kind: "boolean", what: what}, func(c *checker, n *yaml.Node) (bool, bool) {
		s, ok := c.scalar(n, what)
		if ok && s != "true" && s != "false" {
			hint := map[string]string{"yes": "write true", "on": "write true", "no": "write false", "off": "write false"}[s]
			c.fail(n, hint, "expected true or false, not %q", clip(s))
			return false, false
		}
		return s == "true", ok
	})
}

// bounded is a number, duration or size within the tag's range; want says what
// text must look like, hint what to write instead.
func bounded[T cmp.Ordered](g tags, s *shape, want string, parse func(string) (T, error), hint func(string, error) string) kind {
	s.what = g.noun()
	lo, err := parse(g.lo)
	hi, err2 := parse(g.hi)
	if err != nil || err2 != nil {
		panic("tag range of " + g.name)
	}
	s.min, _ = strconv.ParseInt(g.lo, 10, 64)
	s.max, _ = strconv.ParseInt(g.hi, 10, 64)
	return read1(s, func(c *checker, n *yaml.Node) (v T, ok bool) {
		t, ok := c.scalar(n, s.what)
		if !ok {
			return v, false
		}
		v, err := parse(t)
		switch {
		case err != nil:
			c.fail(n, hint(t, err), "%s must be %s, not %q", s.what, want, clip(t))
		case v < lo || v > hi:
			c.fail(n, "", "%s is %s, but must be between %s and %s", s.what, t, g.lo, g.hi)
		}
		return v, err == nil && lo <= v && v <= hi
	})
}

// integer is a whole number, or a size in bytes: 65536, 64KiB, 16MiB.
func integer(g tags) kind {
	if g.is == "size" {
		return bounded(g, &shape{kind: "string", pattern: sizeRE.String()}, "a size", readSize, func(string, error) string { return "such as 64KiB or 16MiB" })
	}
	return bounded(g, &shape{kind: "integer"}, "a whole number", strconv.Atoi, func(string, error) string { return "" })
}

func factor(g tags) kind {
	parse := func(t string) (float64, error) {
		v, err := strconv.ParseFloat(t, 64)
		if math.IsNaN(v) {
			err = strconv.ErrSyntax
		}
		return v, err
	}
	return bounded(g, &shape{kind: "number"}, "a number", parse, func(string, error) string { return "" })
}

func readSize(t string) (int, error) {
	m := sizeRE.FindStringSubmatch(t)
	if m == nil {
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.Atoi(m[1])
	return v << map[string]int{"": 0, "KiB": 10, "MiB": 20, "GiB": 30}[m[2]], err
}

const durationText = `^([0-9]+(ms|[smhdw]))+$`

func duration(g tags) kind {
	return bounded(g, &shape{kind: "string", pattern: durationText}, "a duration", ParseDuration, func(t string, err error) string {
		if _, e := strconv.Atoi(t); e == nil && len(t) < 10 {
			return "add a unit: " + t + "s, " + t + "m…"
		}
		return err.Error()
	})
}

// prefix is a network or one address.
func prefix(g tags) kind {
	what := g.noun()
	return read1(&shape{kind: "string", what: what}, func(c *checker, n *yaml.Node) (netip.Prefix, bool) { return c.prefix(n, what) })
}

func (c *checker) prefix(n *yaml.Node, what string) (netip.Prefix, bool) {
	t, ok := c.scalar(n, what)
	if !ok {
		return netip.Prefix{}, false
	}
	p, hint, ok := readPrefix(t)
	if !ok {
		c.fail(n, hint, "expected %s, such as 192.0.2.0/24 or 2001:db8::/32, not %q", what, clip(t))
	}
	return p, ok
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
		if p.Bits() < 96 {
			return p, "", false
		}
		return p, fmt.Sprintf("did you mean %s?", netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()), false
	}
	if p != p.Masked() {
		return p, fmt.Sprintf("did you mean %s?", p.Masked()), false
	}
	return p, "", true
}

// prefixList reads prefixes and "file:GLOB" in one list.
func prefixList(g tags) kind {
	const what = "an address, a prefix or file:GLOB"
	file := textual(tags{is: "path"})
	type item struct {
		prefix netip.Prefix
		file   string
	}
	items := list(read1(&shape{kind: "string", what: what}, func(c *checker, n *yaml.Node) (i item, ok bool) {
		glob, is := strings.CutPrefix(n.Value, "file:")
		if !is || n.Kind != yaml.ScalarNode {
			i.prefix, ok = c.prefix(n, what)
			return i, ok
		}
		sub := *n
		sub.Value = glob
		i.file, ok = readAs[string](file, c, &sub)
		return i, ok
	}))
	return read1(items.shape, func(c *checker, n *yaml.Node) (out List, ok bool) {
		all, ok := readAs[[]item](items, c, n)
		for _, i := range all {
			if i.file != "" {
				out.Files = append(out.Files, i.file)
			} else {
				out.Prefixes = append(out.Prefixes, i.prefix)
			}
		}
		return out, ok
	})
}

var portRE = regexp.MustCompile(`^(?:(tcp|udp)/)?(?:([0-9]{1,5})(?:-([0-9]{1,5}))?|([0-9-]*[A-Za-z][A-Za-z0-9-]*))(?:/(tcp|udp))?$`)

// ports is 22, 8000-8999, tcp/22, 53/udp, ssh or udp/ntp.
func ports() kind {
	const what = "a port"
	s := &shape{oneOf: []*shape{{kind: "integer", min: 1, max: 65535}, {kind: "string", pattern: portRE.String()}}, what: what}
	return read1(s, func(c *checker, n *yaml.Node) (Ports, bool) {
		t, ok := c.scalar(n, what)
		if !ok {
			return Ports{}, false
		}
		p, ok := readPorts(t)
		if !ok {
			c.fail(n, "22, 8000-8999, udp/53 or ssh", "expected a port, or a name in /etc/services, not %q", clip(t))
		}
		return p, ok
	})
}

// readPorts reads ports. A name is as if its number stood there, which is that
// of TCP unless the protocol is named or the service has none.
func readPorts(t string) (Ports, bool) {
	m := portRE.FindStringSubmatch(t)
	if m == nil || m[1] != "" && m[5] != "" {
		return Ports{}, false
	}
	if proto := m[1] + m[5]; m[4] != "" {
		p, err := net.LookupPort(cmp.Or(proto, "tcp"), m[4]) // asks no resolver: a service's name
		if err != nil && proto == "" {
			p, err = net.LookupPort("udp", m[4])
		}
		return Ports{Proto: proto, From: uint16(p), To: uint16(p)}, err == nil && p > 0
	}
	lo, _ := strconv.Atoi(m[2])
	hi := lo
	if m[3] != "" {
		hi, _ = strconv.Atoi(m[3])
	}
	if lo < 1 || hi < lo || hi > 65535 {
		return Ports{}, false
	}
	return Ports{Proto: m[1] + m[5], From: uint16(lo), To: uint16(hi)}, true
}

// maxGuarded is as many ports as a block can have.
const maxGuarded = 7

// guarded is "any", or a list of at most seven ports.
func guarded() kind {
	some := list(ports())
	s := &shape{oneOf: []*shape{{kind: "string", words: []string{"any"}}, some.shape}, what: "any, or ports"}
	return read1(s, func(c *checker, n *yaml.Node) (Guarded, bool) {
		if n.Kind == yaml.ScalarNode && n.Value == "any" {
			return Guarded{Any: true}, true
		}
		ps, ok := readAs[[]Ports](some, c, n)
		if ok && (len(ps) == 0 || len(ps) > maxGuarded) {
			c.fail(n, "any, or [80, 443]", "expected any, or one to %d ports", maxGuarded)
			return Guarded{}, false
		}
		return Guarded{Ports: ps}, ok
	})
}

// argv is a program with its arguments; the program's path is absolute, for
// there is no shell and no PATH to trust.
func argv() kind {
	some := list(textual(tags{what: "an argument"}))
	return read1(some.shape, func(c *checker, n *yaml.Node) ([]string, bool) {
		out, ok := readAs[[]string](some, c, n)
		if ok && (len(out) == 0 || out[0][0] != '/') {
			c.fail(n, "[/usr/local/bin/notify-ops, --now]", "expected the absolute path of a program first")
			return nil, false
		}
		return out, ok
	})
}

// room is {capacity: 100} or {capacity: x20}.
type room struct{ capacity, times int }

var roomRE = regexp.MustCompile(`^(x?)([0-9]{1,6})$`)

func roomKind() kind {
	const what = "a capacity, or x20 for twenty times the rule's"
	return read1(&shape{kind: "string", what: what, pattern: `^x?[1-9][0-9]{0,5}$`}, func(c *checker, n *yaml.Node) (r room, ok bool) {
		t, ok := c.scalar(n, what)
		if !ok {
			return r, false
		}
		m := roomRE.FindStringSubmatch(t)
		v := 0
		if m != nil {
			v, _ = strconv.Atoi(m[2])
		}
		switch {
		case v == 0:
			c.fail(n, "", "expected %s, not %q", what, clip(t))
		case m[1] == "x":
			r.times = v
		default:
			r.capacity = v
		}
		return r, v != 0
	})
}
