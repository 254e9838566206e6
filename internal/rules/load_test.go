package rules

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// goodFiles are texts that load without a mistake, by name.
func goodFiles(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, _ := filepath.Glob("testdata/good/*.yaml")
	for _, n := range append(names, "../../rules.example.yaml") {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(n)] = string(b)
	}
	return out
}

func TestGoodFilesLoad(t *testing.T) {
	for name, text := range goodFiles(t) {
		s, problems := LoadBytes(name, []byte(text), "")
		for _, p := range problems {
			if !p.Warning {
				t.Error(p.Error())
			}
		}
		if s == nil {
			t.Errorf("%s: no set", name)
		}
	}
}

// Rules files of the first version load as they did; what is deprecated has a
// warning that says what to write instead.
func TestFirstVersionLoads(t *testing.T) {
	for name, warnings := range map[string]int{"everything": 3, "example": 0} {
		text, err := os.ReadFile("testdata/first/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		s, problems := LoadBytes(name, text, "")
		if s == nil {
			t.Fatal(problems)
		}
		deprecated := 0
		for _, p := range problems {
			if strings.Contains(p.Msg, "deprecated") {
				deprecated++
			}
		}
		if deprecated != warnings {
			t.Errorf("%s: got %d warnings of deprecated keys, want %d: %v", name, deprecated, warnings, problems)
		}
	}
}

// Each file of testdata/bad holds one mistake, and beside it what is said of
// it. STOPLOG_UPDATE=1 writes what is said now; read the difference.
func TestEveryMistakeIsTold(t *testing.T) {
	names, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(names) < 50 {
		t.Fatalf("got %d files, %v", len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(name)
		s, problems := LoadBytes(base, text, "")
		var b strings.Builder
		for _, p := range problems {
			b.WriteString(p.Error() + "\n")
		}
		wantSet := strings.HasPrefix(base, "warn-")
		if (s != nil) != wantSet || len(problems) == 0 {
			t.Errorf("%s: got a set: %v, problems %q", base, s != nil, b.String())
		}
		golden := strings.TrimSuffix(name, ".yaml") + ".want"
		if os.Getenv("STOPLOG_UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil || b.String() != string(want) {
			t.Errorf("%s:\ngot  %swant %s", base, b.String(), want)
		}
	}
}

// fixes apply the hints of files in testdata/bad that say more than one word to
// write: the first text becomes the second.
var fixes = map[string][2]string{
	"block-without-source":          {"key: user", "key: user, then: [{flag: suspect, for: 1h}]"},
	"warn-raw-source":               {"- {file: /var/log/mumble-server/mumble-server.log, service: murmur}\n", ""},
	"boolean-yes":                   {"yes", "true"},
	"client-header":                 {`"X-Real-IP: "`, "x-forwarded-for"},
	"colon":                         {"a: b", `"a: b"`},
	"contributors-without-distinct": {"bucket: {capacity: 1, leak: 1m}", "window: {distinct: prefix, over: 10, within: 10m}"},
	"double-quotes":                 {`"\S+"`, `'(?P<ip>\S+)'`},
	"duration-order":                {"10m1h", "1h30m"},
	"duration-unit":                 {"10min", "10m"},
	"duration-without-unit":         {"10}", "10m}"},
	"exec-relative":                 {"[notify-send, hello]", "[/usr/local/bin/notify-ops, --now]"},
	"fields-of-combined":            {"format: combined", "format: json"},
	"flag-name":                     {"Captcha!", "captcha"},
	"glob":                          {"[x", "[x]"},
	"listen-bare-v6":                {"[::1]:8080", "'[::1]:8080'"},
	"listen-name":                   {"example.org", "localhost"},
	"listen-no-addr":                {"clients:", "addr: 127.0.0.1:8080, clients:"},
	"listen-port":                   {`"localhost"`, "127.0.0.1:8080"},
	"nft-sets-without-table":        {"kind: nft", "kind: nft, table: inet filter"},
	"no-wall":                       {"backend: []", "backend: auto"},
	"notify-email":                  {`"ops"`, "ops@example.net"},
	"notify-url":                    {"example.org", "https://example.org"},
	"outcome-without-pattern":       {"outcome: failure", "match: {outcome: failure}"},
	"pattern-no-ip":                 {"something bad$", `something bad (?P<ip>\S+)`},
	"pattern-with-service":          {"{not: sshd}", "sshd"},
	"percent":                       {"%h %l %u", `"%h %l %u"`},
	"ports":                         {"sshh", "ssh"},
	"prefix-wider-than-floor":       {"prefix:", "floor: {ipv4: 12}\nprefix:"},
	"regex":                         {"(?!x)", "x"},
	"reject-in-prerouting":          {"action: reject", "action: drop"},
	"rule-is-ready":                 {"use: [ssh]", "use: [auto, -ssh]"},
	"rule-wider-than-floor":         {"sources:", "floor: {ipv4: 12}\nsources:"},
	"set-only-without-sets":         {"set-only", "set-only, sets: {kind: ipset, ipv4: NAME}"},
	"size":                          {"64k", "64KiB"},
	"source-zone":                   {"Mars/Olympus", "Europe/Zurich"},
	"status-word":                   {"forbidden", "401-403"},
	"tab":                           {"\t", "  "},
	"then-flag-without-time":        {"{flag: x}", "{flag: x, for: 1h}"},
	"then-reject-in-prerouting":     {"prerouting", "input"},
	"tiers-without-by":              {"file:", "by: field customer, file:"},
	"tiers-without-default":         {"file:", "default: x, file:"},
	"tiers-without-tier":            {"default: x", "default: free, free: {capacity: 10, leak: 6s}"},
	"warn-matches-everything":       {"name: a", "name: a, match: {outcome: failure}"},
	"warn-no-rules":                 {"sources:", "use: auto\nsources:"},
	"warn-no-sources":               {"rules:", "use: auto\nrules:"},
	"warn-notify-nobody":            {"sources:", "notify: {ops: {webhook: https://example.org}}\nsources:"},
	"warn-own-source":               {"service: shop", "service: shop, format: json"},
	"warn-pattern-reads-nothing":    {"name: a", "name: a, match: {source: /srv/app/app.log}"},
	"warn-probe-slow":               {"leak: 1h", "leak: 1m"},
	"warn-source-without-service":   {"access.log}", "access.log, service: http}"},
	"widen-over-floor":              {"widen:", "floor: {ipv4: 12}\nwiden:"},
	"window-prefix-floor":           {"sources:", "floor: {ipv6: 24}\nsources:"},
	"window-prefix-not-distinct":    {"{count: 5, within: 1d, prefix: {ipv6: 48}}", "{distinct: prefix, over: 8, within: 1d, prefix: {ipv6: 56}}"},
	"window-prefix-one":             {"over: 0", "over: 8"},
}

var meantRE = regexp.MustCompile(`did you mean (\S+)\?|known: ([^,\s]+)`)

// applied is the text with a problem's hint applied, "" when there is none.
func applied(t *testing.T, base, text string, p Problem) string {
	fix, ok := fixes[base]
	if ok {
		if !strings.Contains(text, fix[0]) {
			t.Errorf("%s does not have %q", base, fix[0])
		}
		return strings.Replace(text, fix[0], fix[1], 1)
	}
	m := meantRE.FindStringSubmatch(p.Hint)
	if m == nil {
		return ""
	}
	if p.Warning { // at the rule
		return strings.Replace(text, regexp.MustCompile(`"([^"]+)"`).FindStringSubmatch(p.Msg)[1], m[1]+m[2], 1)
	}
	lines := strings.Split(text, "\n")
	line := lines[p.Line-1]
	from := p.Column - 1
	wrong := regexp.MustCompile(`"([^"]+)"( \(|$)`).FindStringSubmatch(p.Msg)
	if wrong == nil || !strings.Contains(line[from:], wrong[1]) {
		from, wrong = 0, regexp.MustCompile(`"([^"]+)"`).FindStringSubmatch(p.Msg)
	}
	if wrong == nil {
		t.Fatalf("%s: nothing to replace: %v", base, p)
	}
	lines[p.Line-1] = line[:from] + strings.Replace(line[from:], wrong[1], m[1]+m[2], 1)
	return strings.Join(lines, "\n")
}

// What check proposes is accepted when it is applied: of each file, the problem is
// gone, and no new one comes.
func TestProposalsAreAccepted(t *testing.T) {
	names, _ := filepath.Glob("testdata/bad/*.yaml")
	done := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(filepath.Base(name), ".yaml")
		_, before := LoadBytes("t", text, "")
		for _, p := range before {
			if p.Hint == "" || base == "many-at-once" { // its mistakes have files of their own
				continue
			}
			fixed := applied(t, base, string(text), p)
			if fixed == "" {
				t.Errorf("%s: the hint %q is not tried", base, p.Hint)
				continue
			}
			done++
			set, after := LoadBytes("t", []byte(fixed), "")
			if set == nil && len(before) == 1 || len(before) > 1 && len(after) >= len(before) {
				t.Errorf("%s: %q applied: %v", base, p.Hint, after)
			}
			for _, q := range after {
				if q.Msg == p.Msg {
					t.Errorf("%s: %q applied, and still: %v", base, p.Hint, q)
				}
			}
			if fixes[base][0] != "" {
				break // one change mends the file
			}
		}
	}
	if done < 60 {
		t.Errorf("%d hints were tried", done)
	}
}

// The example is the built-in default: it must be without even a warning.
func TestExample(t *testing.T) {
	s, problems := LoadBytes("rules.example.yaml", []byte(goodFiles(t)["rules.example.yaml"]), "")
	for _, p := range problems {
		t.Error(p.Error())
	}
	if s == nil {
		t.Fatal("no set")
	}
	for _, name := range []string{"ssh-login", "ssh-probe", "nginx-auth", "apache-auth", "web-login"} {
		if s.Find(name) == nil {
			t.Errorf("the default has no rule %s", name)
		}
	}
	auth := 0
	for _, src := range s.Sources {
		if src.Kind == Auth {
			auth++
		}
	}
	if auth != 1 {
		t.Errorf("got %d auth sources, want 1", auth)
	}
}

// commentedYAML is how the example comments out YAML: right behind the sign,
// with the indentation that it has, and no prose is indented so.
var commentedYAML = regexp.MustCompile(`^#( {2}| {4})?\S`)

// The commented parts of the example are rules too: they must load when a
// newcomer takes the comment signs away.
func TestExampleUncommented(t *testing.T) {
	text := goodFiles(t)["rules.example.yaml"]
	var out []string
	for _, line := range strings.Split(text, "\n") {
		if commentedYAML.MatchString(line) {
			line = line[1:]
		}
		out = append(out, line)
	}
	text = strings.Replace(strings.Join(out, "\n"), "allow: []\n", "", 1)
	text = strings.Replace(text, "rules: []\n", "", 1)
	s, problems := LoadBytes("example", []byte(text), "")
	for _, p := range problems {
		t.Error(p.Error())
	}
	if s != nil && (s.Find("one-account") == nil || len(s.Networks) != 1 || len(s.Allow.Prefixes) != 2) {
		t.Errorf("parts of the example were not read")
	}
}

func TestValuesArrive(t *testing.T) {
	s, _ := LoadBytes("everything", []byte(goodFiles(t)["everything.yaml"]), "/etc/stoplog")
	if s == nil {
		t.Fatal("no set")
	}
	r := s.Find("my-ssh")
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"prefix", s.Prefix, Lens{27, 60}},
		{"floor, half given", s.Floor, Lens{20, 32}},
		{"block", s.Block, Escalation{10 * time.Minute, 2.5, 30 * day, 60 * day}},
		{"networks, the longest first", s.Networks[0], Network{Prefix: netip.MustParsePrefix("2001:db8::/32"), Len: 56, Capacity: 100}},
		{"networks", s.Networks[1], Network{Prefix: netip.MustParsePrefix("198.51.100.0/22"), Len: 32, Room: 20}},
		{"allow file", s.Allow.Files[0], "/etc/stoplog/allow.d/*.txt"},
		{"allow", len(s.Allow.Prefixes), 2},
		{"deny", s.Deny.Prefixes[0].String(), "203.0.113.0/24"},
		{"header", s.Sources[5].Client.Header, "x-forwarded-for"},
		{"second bucket's ttl", r.Levels[1].TTL, 7 * day},
		{"second bucket's answers", len(r.Levels[1].Then), 2},
		{"first bucket's answer", r.Levels[0].Then[0].Kind, Block},
		{"rule's prefix, the set's", r.Prefix, Lens{27, 60}},
		{"clears", r.Clears, true},
		{"count is one less", s.Find("lockdown").Levels[0].Over, 149},
		{"pattern's service", s.Find("my-app").Match.Services[0], "my-app"},
		{"observe", s.Find("my-app").Observe, true},
		{"ports of the answer", len(s.Find("slow-down").Levels[0].Then[0].Ports), 2},
		{"page", s.Listen.Page.TokenFile, "/etc/stoplog/token"},
		{"feed, loopback", s.Listen.Feed.Addr, "127.0.0.1:8081"},
		{"ready", s.Find("voip-login") != nil && s.Find("mail-login") == nil, true},
		{"notify, by name", s.Notify[0].Name + s.Notify[1].Name + s.Notify[2].Name, "mailopstell"},
		{"key", s.Find("api").Key.String(), "param key+service"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const rule = "rules:\n  - {name: %, match: {user: %}, bucket: {capacity: 1, leak: 1m}}\n"
	write("rules.yaml", "sources: [auth]\n"+strings.ReplaceAll(rule, "%", "main"))
	write("rules.d/10-a.yaml", "allow: [192.0.2.1]\n"+strings.ReplaceAll(rule, "%", "a"))
	write("rules.d/20-b.yaml", "sources: [{file: b.log}]\n"+strings.ReplaceAll(rule, "%", "b"))
	write("rules.d/ignored.txt", "nonsense")
	s, problems := Load(filepath.Join(dir, "rules.yaml"))
	if s == nil || len(problems) != 0 {
		t.Fatalf("got %v", problems)
	}
	if len(s.Rules) != 3 || len(s.Files) != 3 || len(s.Allow.Prefixes) != 1 || s.Sources[1].Path != filepath.Join(dir, "rules.d/b.log") {
		t.Errorf("got %d rules of %v, sources %+v", len(s.Rules), s.Files, s.Sources)
	}
	write("rules.d/30-c.yaml", "block: {ttl: 1h}\n"+strings.ReplaceAll(rule, "%", "a"))
	s, problems = Load(filepath.Join(dir, "rules.yaml"))
	if s != nil || len(problems) != 2 {
		t.Fatalf("two mistakes: got %v", problems)
	}
	for i, want := range []string{"30-c.yaml:1:1: unknown key \"block\"", "30-c.yaml:3:5: rule a is defined twice, also in " + filepath.Join(dir, "rules.d/10-a.yaml") + ":3"} {
		if !strings.Contains(problems[i].Error(), want) {
			t.Errorf("got %q, want %q", problems[i].Error(), want)
		}
	}
}

func TestMissingFile(t *testing.T) {
	s, problems := Load("/nonexistent/rules.yaml")
	if s != nil || len(problems) != 1 || problems[0].Error() != "/nonexistent/rules.yaml: open: no such file or directory" {
		t.Errorf("got %v", problems)
	}
}

func TestTiersFile(t *testing.T) {
	dir := t.TempDir()
	text := "sources: [auth]\nrules:\n  - name: a\n    match: {status: 429}\n    key: param k\n    tiers: {by: param k, file: c.yaml, default: free, free: {capacity: 1, leak: 1s}, pro: {capacity: 9, leak: 1s}}\n    then: [{flag: f, for: 1m}]\n"
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("acme: pro\nother: free\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, problems := LoadBytes("x", []byte(text), dir)
	if s == nil {
		t.Fatal(problems)
	}
	tiers := s.Rules[0].Tiers
	if tiers.Of("acme").Capacity != 9 || tiers.Of("other").Capacity != 1 || tiers.Of("nobody").Capacity != 1 {
		t.Errorf("got %+v", tiers)
	}
	if len(s.Files) != 1 || s.Files[0] != filepath.Join(dir, "c.yaml") {
		t.Errorf("files to watch: got %v", s.Files)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("acme: por\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, problems = LoadBytes("x", []byte(text), dir)
	if s != nil || len(problems) != 1 || !strings.Contains(problems[0].Error(), "c.yaml:1:7: expected a tier, not \"por\" (did you mean pro?)") {
		t.Errorf("got %v", problems)
	}
}

func TestBillionLaughs(t *testing.T) {
	text := "a: &a [x, x, x, x, x, x, x, x, x]\nallow: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
	for _, c := range "cdefgh" {
		p := string(c - 1)
		text += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+p+", ", 9) + "*" + p + "]\n"
	}
	begin := time.Now()
	s, problems := LoadBytes("x", []byte(text+"deny: *h\n"), "")
	if s != nil || len(problems) == 0 {
		t.Error("it loaded")
	}
	if len(problems) > maxProblems+maxProblems {
		t.Errorf("got %d problems", len(problems))
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
}

func FuzzLoad(f *testing.F) {
	for _, text := range goodFiles(f) {
		f.Add([]byte(text))
	}
	names, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, problems := LoadBytes("f", data, "")
		if (s == nil) != failed(problems) {
			t.Fatalf("a set: %v, problems %v", s != nil, problems)
		}
		for _, p := range problems {
			if p.Msg == "" || p.File == "" || strings.ContainsRune(p.Error(), '\n') {
				t.Fatalf("no good message: %q", p.Error())
			}
		}
		if s == nil {
			return
		}
		for _, r := range s.Rules {
			if r.Name == "" || len(r.Levels) == 0 {
				t.Fatalf("a rule without name or level: %+v", r)
			}
			for _, l := range r.Levels {
				if len(l.Then) == 0 || l.Kind == Bucket && l.Leak <= 0 {
					t.Fatalf("a level that cannot work: %+v", l)
				}
			}
		}
	})
}

// An anchor that holds itself ends somewhere.
func TestAliasThatHoldsItself(t *testing.T) {
	for _, text := range []string{
		"block: &a {<<: *a}\n",
		"block: &a {<<: {<<: *a}}\n",
		"allow: &a [*a]\n",
		"rules: &a [*a]\n",
		"networks: &a {10.0.0.0/8: *a}\n",
		"rules:\n  - &r {name: a, match: &m {fields: {x: {not: *m}}}}\n",
		"rules:\n  - &r {name: a, then: &t [{lockdown: *t}]}\n",
	} {
		if s, problems := LoadBytes("x", []byte(text), ""); s != nil || len(problems) == 0 {
			t.Errorf("%q loaded", text)
		}
	}
}

// What a rule counts is written down only when reading has bounded it: each of
// these aliases makes a hundred of the one before.
func TestBombInAMatch(t *testing.T) {
	text := "rules:\n  - name: a\n    about: &a x\n    bucket: {capacity: 5, leak: 1m}\n    match:\n"
	for i, f := range []string{"path", "user", "host", "agent"} {
		text += fmt.Sprintf("      %s: &%c [%s]\n", f, 'b'+i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", 'a'+i), 100), ", "))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if s, _ := LoadBytes("x", []byte(text), ""); s != nil {
		t.Error("it loaded")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 100<<20 {
		t.Errorf("%d MiB were allocated", got>>20)
	}
}

// A file of many rules is checked in the time that it takes to read it.
func TestManyRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("sources: [auth]\nrules:\n")
	for i := range 4000 {
		fmt.Fprintf(&b, "  - {name: r%d, match: {outcome: failure}, key: field path, then: [{flag: f%d, for: 1h}]}\n", i, i)
	}
	begin := time.Now()
	if s, problems := LoadBytes("x", []byte(b.String()), ""); s == nil || len(problems) == 0 {
		t.Errorf("got %v", problems)
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestMistakeBehindManyWarnings(t *testing.T) {
	text := "sources: [auth]\nrules:\n"
	for i := range maxProblems + 1 {
		text += fmt.Sprintf("  - {name: r%d, match: {service: sshd}, then: [{notify: nobody}]}\n", i)
	}
	text += "  - {name: last, match: {service: sshd}, key: user, bucket: {capacity: 1, leak: 1m}}\n"
	s, problems := LoadBytes("x", []byte(text), "")
	if s != nil || !failed(problems) {
		t.Errorf("a rule by user that blocks its source loaded, with %d problems", len(problems))
	}
}

func TestEmptyFile(t *testing.T) {
	dir := t.TempDir()
	main, more := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "rules.d", "a.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "# nothing yet\n"} {
		write(main, text)
		if s, problems := Load(main); s == nil || len(problems) != 1 || !strings.Contains(problems[0].Msg, "there are no rules") {
			t.Errorf("%q: got %v, want one warning", text, problems)
		}
	}
	write(more, "sources: [auth]\nrules:\n  - {name: a, match: {service: sshd, outcome: failure}, bucket: {capacity: 5, leak: 1m}}\n")
	if s, problems := Load(main); s == nil || len(problems) != 0 || s.Find("a") == nil {
		t.Errorf("with a folder beside it: got %v", problems)
	}
}

// The earlier of several mappings that come in by a merge wins, as YAML says.
func TestMergeList(t *testing.T) {
	const text = `sources: [auth]
rules:
  - {<<: [&a {name: a, match: {service: sshd, outcome: failure}, ttl: 1h}, &b {ttl: 2h, bucket: {capacity: 5, leak: 1m}}]}
  - {<<: [*b, *a], name: b}
`
	s, problems := LoadBytes("x", []byte(text), "")
	if s == nil || len(s.Rules) != 2 {
		t.Fatal(problems)
	}
	for i, want := range []time.Duration{time.Hour, 2 * time.Hour} {
		if r := s.Rules[i]; r.Levels[0].Capacity != 5 || r.Levels[0].TTL != want {
			t.Errorf("%s: got capacity %d and ttl %s, want 5 and %s", r.Name, r.Levels[0].Capacity, r.Levels[0].TTL, want)
		}
	}
	for bad, want := range map[string]string{
		"prefix: &p {ipv4: 24}\nfloor: {<<: *p, <<: *p}\n": `x:2:17: "<<" occurs twice, first in line 2`,
		"block: &a {<<: [*a]}\n":                           "the file has more than",
		"block: {<<: [1]}\n":                               "expected a mapping for <<",
	} {
		if s, problems := LoadBytes("x", []byte(bad), ""); s != nil || len(problems) == 0 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%q: got %v, want %s", bad, problems, want)
		}
	}
}

func TestTooLargeIsToldOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(file, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, problems := Load(file)
	if len(problems) != 1 || strings.Count(problems[0].Error(), file) != 1 || !strings.Contains(problems[0].Error(), "larger than") {
		t.Errorf("got %v, want the file once", problems)
	}
}

// A key that stands one level too high is told where it goes.
func TestKeyOneLevelTooHigh(t *testing.T) {
	for key, want := range map[string]string{
		"capacity: 5":   "it belongs in bucket: {capacity: …}",
		"capcity: 5":    "it belongs in bucket: {capacity: …}",
		"within: 5m":    "it belongs in window: {within: …}",
		"service: sshd": "it belongs in match: {service: …}",
		"tll: 5m":       "did you mean ttl?",
	} {
		_, problems := LoadBytes("x", []byte("sources: [auth]\nrules:\n  - {name: a, match: {outcome: failure}, "+key+"}\n"), "")
		if len(problems) != 1 || problems[0].Hint != want {
			t.Errorf("%s: got %v, want the hint %q", key, problems, want)
		}
	}
}

// Words of use that undo each other, or nothing, are told, each in its file.
func TestUseAndLeaveOut(t *testing.T) {
	for use, want := range map[string]string{
		"[ssh, -ssh]":        "x:1:12: ssh is both turned on and turned off",
		"[auto, ssh, -ssh]":  "x:1:18: ssh is both turned on and turned off",
		"[mail, -ssh]":       "x:1:1: warning: -ssh has no effect without auto",
		"[auto, -ssh, mail]": "",
	} {
		_, problems := LoadBytes("x", []byte("use: "+use+"\n"), "")
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want)) {
			t.Errorf("%s: got %v, want %q", use, problems, want)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.d", "a.yaml")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("# mine\nuse: shh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, problems := LoadBytes("x", []byte("use: auto\n"), dir); len(problems) != 1 || problems[0].File != file || problems[0].Line != 2 {
		t.Errorf("in a folder: got %v, want it at %s:2", problems, file)
	}
}

// A listener that other machines reach, and that asks nobody who they are, is a
// warning.
func TestOpenListeners(t *testing.T) {
	for listen, want := range map[string]string{
		"page: {addr: '0.0.0.0:8080'}":                                           "listen.page: anyone who reaches 0.0.0.0:8080 can try tokens",
		"page: {addr: '0.0.0.0:8080', token_file: /x}":                           "listen.page",
		"page: {addr: '0.0.0.0:8080', clients: [192.0.2.1]}":                     "",
		"page: {addr: ':8080'}":                                                  "",
		"page: {addr: '[::1]:8080'}":                                             "",
		"page: {addr: /run/x.sock}":                                              "",
		"feed: {addr: '[::]:9190'}":                                              "listen.feed: anyone who reaches [::]:9190 can read the list",
		"feed: {addr: '192.0.2.10:9190'}":                                        "listen.feed",
		"feed: {addr: '0.0.0.0:9190', token_file: /x}":                           "",
		"feed: {addr: '0.0.0.0:9190', clients: [192.0.2.1]}":                     "",
		"metrics: {addr: '0.0.0.0:9777'}":                                        "listen.metrics: anyone who reaches 0.0.0.0:9777 can read the metrics",
		"metrics: {addr: 'localhost:9777'}":                                      "",
		"metrics: {textfile: /x}":                                                "",
		"check: {addr: '0.0.0.0:9180', header: x-real-ip, trusted: [192.0.2.1]}": "",
	} {
		_, problems := LoadBytes("x", []byte("use: auto\nlisten:\n  "+listen+"\n"), "")
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !problems[0].Warning || problems[0].Line != 3 || !strings.Contains(problems[0].Msg, want)) {
			t.Errorf("%s: got %v, want %q", listen, problems, want)
		}
	}
}

// A mistake in an answer is one mistake, and a when that changes nothing a
// warning.
func TestAnswersAndWhen(t *testing.T) {
	for rule, want := range map[string]string{
		"key: user, window: {distinct: prefix, over: 3, within: 1h}, then: [{block: contributors, each: 0}]":       "each is 0",
		"key: all, bucket: {capacity: 5, leak: 1m}, then: [{lockdown: {for: 0s}}]":                                 "a time is 0s",
		"key: all, bucket: {capacity: 5, leak: 1m, then: [{flag: lockdown, for: 1h}]}":                             "lockdown cannot be the name of a flag",
		"when: {flag: lockdown, capacity: 1}, bucket: {capacity: 5, leak: 1m}":                                     "lockdown cannot be the name of a flag",
		"when: {flag: x, capacity: 5}, bucket: {capacity: 5, leak: 1m}":                                            "the flag x changes nothing",
		"when: {blocked: 7d, capacity: 5}, bucket: {capacity: 5, leak: 1m}":                                        "so blocked changes nothing",
		"when: {blocked: 7d, capacity: 1}, key: user, bucket: {capacity: 5, leak: 1m}, then: [{flag: x, for: 1h}]": "there is no prefix that could be blocked",
		"when: {capacity: 1}, bucket: {capacity: 5, leak: 1m}":                                                     "needs one of flag and blocked",
		"when: {flag: x, blocked: 7d, capacity: 1}, bucket: {capacity: 5, leak: 1m}":                               "needs one of flag and blocked",
		"when: {blocked: 7d, capacity: 1}, bucket: {capacity: 5, leak: 1m, per: connection}":                       "",
		"bucket: {capacity: 5, leak: 1m, per: request}":                                                            `expected per, not "request"`,
		"when: {flag: x, capacity: 4}, buckets: [{capacity: 3, leak: 1m}, {capacity: 5, leak: 1m}]":                "",
	} {
		_, problems := LoadBytes("x", []byte("sources: [auth]\nrules:\n  - {name: a, match: {outcome: failure}, "+rule+"}\n"), "")
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Msg, want)) {
			t.Errorf("%s: got %v, want %q alone", rule, problems, want)
		}
	}
}
