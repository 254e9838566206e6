package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// book is a rules file as it is written: a Set, and what must still be put
// together with other files.
type book struct {
	Use []string `in:"the rules file" key:"use" doc:"built-in rules by name; auto: all whose logs exist; -name: except this one" what:"the name of built-in rules, or auto" eg:"[auto, -mail]"`
	Set
	NetworksBy map[string]networkText `key:"networks" doc:"ranges with their own prefix length and capacity" keys:"net" eg:"{198.51.100.0/22: {prefix: 32, capacity: x20}}"`
	NotifyBy   map[string]Notify      `key:"notify" doc:"notification targets, by name" keys:"name" what:"the name of a target" eg:"{ops: {webhook: \"https://example.org/hook\"}}"`
	RulesD     string                 `key:"rules_d" doc:"folder with more rules files (default: rules.d next to this file)" is:"path" what:"a folder" eg:"/etc/stoplog/more"`
	Drafts     []draft                `key:"rules" doc:"what to count, and how much is too much" eg:"{name: xmlrpc, match: {path: /xmlrpc.php}, bucket: {capacity: 10, leak: 30s}}"`

	used []usage
	node *yaml.Node
}

// inFolder are the keys that a file of rules.d may have.
var inFolder = []string{"use", "sources", "networks", "allow", "deny", "notify", "exports", "rules"}

func folderObject() *object {
	var other []string
	for _, n := range objectFor[book]().names {
		if !slices.Contains(inFolder, n) {
			other = append(other, n)
		}
	}
	return objectFor[book](other...)
}

// usage is one word of `use` and where it stands.
type usage struct {
	name string
	node *yaml.Node
	file string
}

func (b *book) placed(p place) {
	b.node, b.FlagFiles = p.node, p.has("flags")
	if n := p.keys["use"]; n != nil {
		r := p.c.resolve(n)
		for i, s := range b.Use {
			at := r
			if r.Kind == yaml.SequenceNode {
				at = r.Content[i]
			}
			b.used = append(b.used, usage{s, at, p.c.file})
		}
	}
	for _, k := range sortedKeys(b.NotifyBy) {
		t := b.NotifyBy[k]
		t.Name = k
		b.Notify = append(b.Notify, t)
	}
}

type networkText struct {
	Len      int  `in:"a network" key:"prefix" doc:"length of the prefixes in this range" what:"a prefix length" range:"8..128" eg:"32"`
	Capacity room `key:"capacity" doc:"a capacity, or x20 for twenty times the rule's" eg:"x20"`
}

// networkList puts the networks in order, the longest first, so that the
// first that contains an address is the one that counts.
func (b *book) networkList() []Network {
	var out []Network
	for _, k := range sortedKeys(b.NetworksBy) {
		n := b.NetworksBy[k]
		if p, _, ok := readPrefix(k); ok {
			out = append(out, Network{Prefix: p, Len: n.Len, Room: n.Capacity.times, Capacity: n.Capacity.capacity})
		}
	}
	slices.SortStableFunc(out, func(a, b Network) int { return cmp.Compare(b.Prefix.Bits(), a.Prefix.Bits()) })
	return out
}

// sourceText is an element of `sources` that is a mapping.
type sourceText struct {
	File    string            `in:"a source" key:"file" doc:"a file or glob" is:"path" what:"a file or glob" eg:"/srv/www/*/log/access*.log"`
	Exclude []string          `key:"exclude" doc:"globs of files to skip" is:"path" what:"a glob" eg:"/srv/www/old/log/*"`
	Pipe    string            `key:"pipe" doc:"a named pipe" is:"path" what:"a pipe" eg:"/run/logs.fifo"`
	Journal journalText       `key:"journal" doc:"the systemd journal, or a part of it" eg:"{units: ssh.service}"`
	Service string            `key:"service" doc:"the service that writes this log: sshd, nginx, gitea…, http for an access log, syslog for a file of many programs, or a name of your own. Lines of other services are not read. Default: the service that usually logs there, otherwise the syslog tags decide" what:"the name of a service" eg:"http"`
	Format  string            `key:"format" doc:"combined, common, vhost, json, logfmt, or an nginx log_format (default: the service's format)" what:"a format" eg:"combined"`
	Fields  map[string]string `key:"fields" doc:"for json and logfmt: names of ip, user, time, status, path, message…, as dotted paths (default: the usual names)" what:"a dotted path" eg:"{ip: client.addr}"`
	Client  Client            `key:"client" doc:"the client's address if a proxy is in front of the server" eg:"{header: x-forwarded-for, trusted: 10.0.0.0/8}"`
	Zone    *time.Location    `key:"zone" doc:"time zone of timestamps without one (default: the machine's)" eg:"Europe/Zurich"`
	kind    SourceKind
}

type journalText struct {
	Units       []string `in:"a selection of the journal" key:"units" doc:"systemd units; with service, their entries count as that service's" what:"a unit" eg:"ssh.service"`
	Identifiers []string `key:"identifiers" doc:"syslog identifiers" what:"an identifier" eg:"sshd"`
	Containers  []string `key:"containers" doc:"names of containers whose output Docker or Podman logs to the journal; with service, their entries count as that service's" what:"a container" eg:"web"`
	Matches     []string `key:"matches" doc:"FIELD=value, like matches of journalctl" what:"FIELD=value" eg:"_TRANSPORT=syslog"`
}

func (s *sourceText) check(p place) {
	kinds := 0
	for name, kind := range map[string]SourceKind{"file": File, "pipe": Pipe, "journal": Journal} {
		if p.has(name) {
			s.kind = kind
			kinds++
		}
	}
	switch {
	case kinds != 1:
		p.fail("", "expected one of file, pipe and journal")
	case s.Fields != nil && s.Format != "json" && s.Format != "logfmt":
		p.fail("format: json", "fields needs format json or logfmt")
	case s.Exclude != nil && s.kind != File:
		p.fail("", "exclude needs file")
	}
}

// sourceKind reads auth, stdin, {file: GLOB, …}, {pipe: PATH, …} and
// {journal: {units: […]}, …}.
func sourceKind() kind {
	plain, obj := word("a source", "auth", "journal", "stdin"), objectFor[sourceText]().asKind()
	return read1(&shape{what: "a source", oneOf: []*shape{plain.shape, obj.shape}}, func(c *checker, n *yaml.Node) (Source, bool) {
		if c.resolve(n).Kind != yaml.MappingNode {
			w, ok := readAs[string](plain, c, n)
			return Source{Kind: map[string]SourceKind{"journal": Journal, "stdin": Stdin}[w], In: c.file, Line: n.Line}, ok
		}
		t, ok := readAs[sourceText](obj, c, n)
		j := t.Journal
		return Source{Kind: t.kind, Path: t.File + t.Pipe, Exclude: t.Exclude, Service: t.Service, Format: t.Format, Client: t.Client,
			Fields: t.Fields, Zone: t.Zone, Units: j.Units, Identifiers: j.Identifiers, Containers: j.Containers, Matches: j.Matches, In: c.file, Line: n.Line}, ok
	})
}

// draft is a rule as it is written, before its parts are put together.
type draft struct {
	Rule
	TTL      time.Duration `key:"ttl" doc:"TTL of a first block (default: that of block)" range:"1s..366d" eg:"1h"`
	Multiply float64       `key:"multiply" doc:"factor for the TTL of each further block (default: that of block)" range:"1..1000" eg:"2"`
	Max      time.Duration `key:"max" doc:"maximum TTL of a block (default: that of block)" range:"1s..366d" eg:"7d"`
	Then     answers       `key:"then" doc:"what to do on a breach, a list" default:"block" eg:"[{flag: targeted, for: 1h}, {notify: ops}]"`
	Success  string        `key:"clears" doc:"success: a login removes the points of its own source and account" words:"success"`
	Mode     string        `key:"mode" doc:"observe: report, but do not block" default:"block" what:"a mode" words:"observe block"`
	Bucket   []bucketText  `key:"bucket" is:"single" doc:"a leaky bucket: how many points it holds, and how fast one drains. A rule without a bucket or window acts on every matching event" eg:"{capacity: 5, leak: 1m}"`
	Buckets  []bucketText  `key:"buckets" doc:"several buckets, each with its own answer" eg:"[{capacity: 5, leak: 1m}, {capacity: 20, leak: 12h, ttl: 7d}]"`
	Window   []windowText  `key:"window" is:"single" doc:"an exact count within a time, or a count of distinct values" eg:"{count: 5, within: 10m}"`
	Windows  []windowText  `key:"windows" doc:"several windows, each with its own answer" eg:"[{over: 10, within: 1m}, {over: 100, within: 1d}]"`
	Expr     patternText   `key:"pattern" doc:"regular expression (RE2) for the message, with (?P<ip>…) and other named groups. It matches anywhere unless it contains ^ or $, and not if different addresses could match. It reads sources that match.source or match.service names, otherwise sources listed without a service. Or a filter of fail2ban, which reads the sources that match.source names" what:"a pattern" eg:"'login failed user=(?P<user>\\S+) ip=(?P<ip>\\S+)'"`
	Programs []string      `key:"programs" doc:"for pattern: syslog tags of the programs that write these lines (default: all programs without a built-in parser)" what:"a program name" eg:"my-app"`
	Outcome  string        `key:"outcome" doc:"for pattern: outcome of these lines (default: failure)" what:"an outcome" words:"other failure success"`
	Kind     string        `key:"kind" doc:"for pattern: kind of these lines (default: plain)" what:"a kind" words:"probe unknown_user limited forbidden"`
	Matches  []string      `key:"matches" doc:"for pattern: lines that it must match" what:"a log line" eg:"['login failed user=joe ip=192.0.2.1']"`
	Ignores  []string      `key:"ignores" doc:"for pattern: lines that it must not match" what:"a log line" eg:"['login ok user=joe ip=192.0.2.1']"`

	node    *yaml.Node
	written map[string]*yaml.Node // keys, those of merges too
	plain   []string              // keys written that need a pattern
	broken  bool                  // a mistake in it was noted
}

const (
	maxDrain = 700 * day // of a full bucket
)

func (d *draft) placed(p place) {
	d.node, d.Line, d.File, d.written, d.broken = p.node, p.node.Line, p.c.file, p.keys, p.broken
	d.Clears, d.Observe = p.has("clears"), d.Mode == "observe"
	for _, k := range p.list {
		switch k {
		case "bucket", "buckets", "window", "windows":
			d.addLevels(p, k)
		case "programs", "outcome", "kind", "matches", "ignores":
			d.plain = append(d.plain, k)
		}
	}
	if n := p.keys["pattern"]; n != nil {
		d.Pattern = &Pattern{Text: d.Expr.Text, Of: d.Expr.Of, Programs: d.Programs, Outcome: cmp.Or(d.Outcome, "failure"), Kind: d.Kind, Line: n.Line, Column: n.Column,
			Matches: d.Matches, MatchesAt: p.lines("matches"), Ignores: d.Ignores, IgnoresAt: p.lines("ignores")}
	}
}

// lines are those of a key's elements.
func (p place) lines(key string) []int {
	n := p.keys[key]
	if n == nil {
		return nil
	}
	r := p.c.resolve(n)
	if r.Kind != yaml.SequenceNode {
		return []int{n.Line}
	}
	at := make([]int, len(r.Content))
	for i, e := range r.Content {
		at[i] = e.Line
	}
	return at
}

// addLevels adds what one of the keys bucket, buckets, window and windows has.
func (d *draft) addLevels(p place, key string) {
	bs, ws := d.Bucket, d.Window
	switch key {
	case "buckets":
		bs = d.Buckets
	case "windows":
		ws = d.Windows
	}
	if n := p.keys[key]; p.c.resolve(n).Kind == yaml.SequenceNode && len(p.c.resolve(n).Content) == 0 {
		p.c.fail(n, "", "an empty list counts nothing")
	}
	if strings.HasPrefix(key, "bucket") {
		for _, b := range bs {
			d.Levels = append(d.Levels, b.level())
		}
		return
	}
	for _, w := range ws {
		d.Levels = append(d.Levels, w.level())
	}
}

// answerText is what a level may have of its own.
type answerText struct {
	TTL      time.Duration `key:"ttl" doc:"TTL of a first block (default: the rule's)" range:"1s..366d" eg:"7d"`
	Multiply float64       `key:"multiply" doc:"factor for the TTL of each further block (default: the rule's)" range:"1..1000" eg:"2"`
	Max      time.Duration `key:"max" doc:"maximum TTL of a block (default: the rule's)" range:"1s..366d" eg:"60d"`
	Weight   *Weight       `key:"weight" doc:"points of an event in this bucket or window (default: the rule's weight)" eg:"2"`
	Then     answers       `key:"then" doc:"what to do on a breach of this bucket or window (default: the rule's then)" eg:"[block, {notify: ops}]"`
	line     int
}

func (t answerText) level() Level {
	return Level{TTL: t.TTL, Multiply: t.Multiply, Max: t.Max, Weight: t.Weight, Then: t.Then, Line: t.line}
}

type bucketText struct {
	Capacity int           `in:"a bucket" key:"capacity,required" doc:"points it holds; with capacity 5 the sixth is a breach" range:"0..1000000" eg:"5"`
	Leak     time.Duration `key:"leak,required" doc:"time in which one point drains" range:"1ms..365d" eg:"1m"`
	Per      string        `key:"per" doc:"connection: count each connection once, however often it fails, and ignore lines without one" words:"connection"`
	answerText
}

func (b *bucketText) placed(p place) { b.line = p.node.Line }

func (b *bucketText) check(p place) {
	if time.Duration(b.Capacity+1) > maxDrain/max(b.Leak, 1) {
		p.fail("", "a full bucket would take longer than 700d to drain")
	}
}

func (b *bucketText) level() Level {
	l := b.answerText.level()
	l.Kind, l.Capacity, l.Leak, l.PerConn = Bucket, b.Capacity, b.Leak, b.Per != ""
	return l
}

type windowText struct {
	Count    int           `in:"a window" key:"count" doc:"this many events are a breach, like maxretry" range:"1..10000" eg:"5"`
	Over     int           `key:"over" doc:"more than this many events are a breach" range:"0..10000" eg:"10"`
	First    bool          `key:"first" doc:"an event is a breach if the key had none within the window: the first login of a user in 90 days" eg:"true"`
	Within   time.Duration `key:"within,required" doc:"length of the window" range:"1s..366d" eg:"10m"`
	Distinct Key           `key:"distinct" doc:"count only different values of this, written as in key" eg:"prefix"`
	Prefix   Lens          `key:"prefix" doc:"with distinct: prefix, count the sources of each network of this length, and block the part that contains most of them; a family without a length is not counted" eg:"{ipv6: 56}"`
	answerText
}

func (w *windowText) placed(p place) { w.line = p.node.Line }

func (w *windowText) check(p place) {
	asked := 0
	for _, has := range []bool{p.has("count"), p.has("over"), w.First} {
		if has {
			asked++
		}
	}
	switch {
	case asked != 1:
		p.fail("", "a window needs one of count (this many are a breach), over (more than this many are) and first: true")
	case w.First && w.Distinct != nil:
		p.fail("", "first does not work with distinct: name what must be new in the rule's key")
	case !w.First && w.Within > 30*day:
		p.fail("", "only a window with first: true can be longer than 30d")
	}
}

func (w *windowText) level() Level {
	l := w.answerText.level()
	l.Kind, l.Over, l.First, l.Within, l.Of, l.Prefix = Window, w.Over, w.First, w.Within, w.Distinct, w.Prefix
	if w.Distinct != nil {
		l.Kind = Distinct
	}
	if w.Count > 0 {
		l.Over = w.Count - 1
	}
	return l
}

// answers is `then`.
type answers []Answer

// thenText is an element of `then` that is a mapping.
type thenText struct {
	Block    string        `in:"an answer" key:"block" doc:"block the prefix with drop, reject or slow; or block the contributors" what:"a way to block" words:"drop reject slow contributors"`
	Each     int           `key:"each" doc:"for contributors: only those with at least this many attempts (default: 1)" range:"1..1000" eg:"3"`
	Ports    []Ports       `key:"ports" doc:"ports that the block covers (default: the rule's)" eg:"[80, 443]"`
	Cut      bool          `key:"cut" doc:"also cut established connections" default:"false"`
	Flag     string        `key:"flag" doc:"raise this flag" is:"flag" eg:"captcha"`
	For      time.Duration `key:"for" doc:"how long the flag stays raised" what:"a time" range:"1s..30d" eg:"1h"`
	Notify   string        `key:"notify" doc:"send a message to this target of notify" is:"name" what:"the name of a target" eg:"ops"`
	Exec     []string      `key:"exec" is:"argv" doc:"run this program with these arguments, without a shell. Its environment has STOPLOG_RULE, _KEY, _PREFIX, _ADDR, _SERVICE, _USER, _COUNT (failures), _POINTS (their weight), _TTL, _TIME and _SOURCE. It is killed after 30s" eg:"[/usr/local/bin/busy]"`
	Lockdown lockdownText  `key:"lockdown" doc:"refuse new connections from all sources that are not allowed or known-good" eg:"{ports: 22, for: 5m}"`
	answer   Answer
}

type lockdownText struct {
	Ports []Ports       `in:"lockdown" key:"ports" doc:"ports to close (default: all)" eg:"[22]"`
	For   time.Duration `key:"for,required" doc:"how long it lasts" what:"a time" range:"1s..1d" eg:"5m"`
}

// check makes the answer of the one thing that is asked for, with what belongs
// to it.
func (t *thenText) check(p place) {
	made := map[string]Answer{
		"block":    {Kind: Block, Action: t.Block, Ports: t.Ports, Cut: t.Cut},
		"flag":     {Kind: RaiseFlag, Flag: t.Flag, For: t.For},
		"notify":   {Kind: Tell, Target: t.Notify},
		"exec":     {Kind: Exec, Argv: t.Exec},
		"lockdown": {Kind: Lockdown, Ports: t.Lockdown.Ports, For: t.Lockdown.For},
	}
	contributors := t.Block == "contributors"
	if contributors {
		made["block"] = Answer{Kind: BlockContributors, Each: max(t.Each, 1), Ports: t.Ports, Cut: t.Cut}
	}
	asked := 0
	for k, a := range made {
		if p.has(k) {
			t.answer = a
			asked++
		}
	}
	switch {
	case asked != 1:
		p.fail("", "expected one of block, flag, lockdown, notify and exec in each element of then")
	case p.has("flag") && !p.has("for"):
		p.fail("{flag: "+t.Flag+", for: 1h}", "a flag needs for: how long it stays raised")
	case p.has("for") && !p.has("flag"):
		p.fail("", "for belongs to flag; a block lasts as long as the rule's ttl")
	case p.has("each") && !contributors:
		p.fail("", "each belongs to block: contributors")
	case !p.has("block") && (t.Cut || p.has("ports")):
		p.fail("", "cut and ports belong to block")
	}
}

// answersKind reads a list of `block`, `observe`, {flag: x, for: 1h}, {block:
// reject}… Where one of them is a mistake, the whole is one that asks nothing of
// the rule: it is not as if then had been left out.
func answersKind() kind {
	plain, obj := word("an answer", "block", "observe"), objectFor[thenText]().asKind()
	all := list(read1(&shape{what: "an answer", oneOf: []*shape{plain.shape, obj.shape}}, func(c *checker, n *yaml.Node) (Answer, bool) {
		if c.resolve(n).Kind == yaml.MappingNode {
			t, ok := readAs[thenText](obj, c, n)
			return t.answer, ok
		}
		w, ok := readAs[string](plain, c, n)
		return Answer{Kind: map[string]AnswerKind{"observe": Observe}[w]}, ok
	}))
	return read1(all.shape, func(c *checker, n *yaml.Node) (answers, bool) {
		if as, ok := readAs[[]Answer](all, c, n); ok {
			if len(as) == 0 {
				c.warn(n.Line, n.Column, "then: [observe]", "an empty list is as if then were left out")
			}
			return as, true
		}
		return answers{{Kind: Observe}}, true
	})
}

var keyParts = map[string]KeyPart{
	"all": ByAll, "prefix": ByPrefix, "address": ByAddr, "user": ByUser, "service": ByService,
	"path": ByPath, "host": ByHost, "method": ByMethod, "agent": ByAgent,
}

var keyNames = []string{"prefix", "address", "user", "service", "path", "host", "method", "agent", "all", "field NAME", "param NAME"}

// keyKind reads prefix, [user, prefix], "field customer", "param id".
func keyKind() kind {
	some := list(read1(&shape{kind: "string", what: "one of " + strings.Join(keyNames, ", ")}, func(c *checker, n *yaml.Node) (Part, bool) {
		w, ok := c.scalar(n, "what to count by")
		if !ok {
			return Part{}, false
		}
		p, ok := readPart(w)
		if !ok {
			c.fail(n, didYouMean(w, keyNames), "cannot count by %q", clip(w))
		}
		return p, ok
	}))
	return read1(some.shape, func(c *checker, n *yaml.Node) (Key, bool) {
		parts, ok := readAs[Key](some, c, n)
		for i, p := range parts {
			if ok && p.Name == "" && parts[:i].Has(p.By) {
				c.fail(n, "", "%s is listed twice", p)
				ok = false
			}
		}
		if ok && len(parts) > 1 && (parts.Has(ByAll) || len(parts) > 4) {
			c.fail(n, "", "all cannot be combined, and a key has at most four parts")
			ok = false
		}
		return parts, ok && len(parts) > 0
	})
}

func partKind() kind {
	k := keyKind()
	return read1(k.shape, func(c *checker, n *yaml.Node) (Part, bool) {
		parts, ok := readAs[Key](k, c, n)
		if ok && len(parts) != 1 {
			c.fail(n, "", "expected only one key in by")
			return Part{}, false
		}
		return append(parts, Part{})[0], ok
	})
}

func readPart(w string) (Part, bool) {
	kind, arg, named := strings.Cut(w, " ")
	if named && nameRE.MatchString(arg) {
		switch kind {
		case "field":
			return Part{ByField, arg}, true
		case "param":
			return Part{ByParam, arg}, true
		}
	}
	by, ok := keyParts[w]
	return Part{By: by}, ok
}

func (t *Tiers) check(p place) {
	names := sortedKeys(t.Tiers)
	switch {
	case t.By.By == ByAll || t.By.By == ByPrefix || t.By.By == ByAddr:
		p.fail("by: field customer", "tiers need by: the field with the customer")
	case t.File == "":
		p.fail("", "tiers need file: the tier of each customer")
	case len(t.Tiers) == 0:
		p.fail("free: {capacity: 10, leak: 6s}", "tiers need at least one tier")
	case t.Default == "":
		p.fail("default: "+names[0], "tiers need default: the tier of all other customers")
	case !slices.Contains(names, t.Default):
		p.fail(didYouMean(t.Default, names), "there is no tier %q", clip(t.Default))
	}
}

// check looks at what one key of the firewall asks of another.
func (f *Firewall) check(p place) {
	for i, b := range f.Backends {
		if slices.Contains(f.Backends[:i], b) {
			p.fail("", "backend %s is listed twice", b)
		}
	}
	has := func(b string) bool { return slices.Contains(f.Backends, b) }
	if len(f.Backends) > 1 && (has("auto") || has("none")) {
		p.fail("", "auto and none cannot be combined with other backends")
	}
	if len(f.Backends) == 0 {
		p.fail("backend: auto", "no backend is listed")
	}
	if f.Hook == "prerouting" && f.Action != "drop" {
		p.fail("action: drop, or hook: input", "%s does not work in prerouting: the kernel has no reject and no connection state there", f.Action)
	}
	if has("set-only") && (f.Sets.Kind == "" || f.Sets.V4 == "" && f.Sets.V6 == "") {
		p.fail("sets: {kind: ipset, ipv4: NAME}", "set-only needs sets: the names of your own sets")
	}
	if has("set-only") && f.Sets.Kind == "nft" && f.Sets.Table == "" {
		p.fail("table: inet filter", "nft sets need a table")
	}
	if has("exec") && f.Exec.Block == nil {
		p.fail("", "backend exec needs exec: {block: [program], unblock: [program]}")
	}
}
