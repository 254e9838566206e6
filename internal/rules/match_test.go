package rules

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// rule loads a set with one rule of this match.
func ruleOf(t *testing.T, match string) *Rule {
	t.Helper()
	s, problems := LoadBytes("t", []byte("sources: [auth]\nrules:\n  - {name: r, match: "+match+", bucket: {capacity: 1, leak: 1m}}\n"), "")
	if s == nil {
		t.Fatalf("%s: %v", match, problems)
	}
	return s.Rules[0]
}

func TestMatch(t *testing.T) {
	web := &parse.Event{Service: "http", Addr: netip.MustParseAddr("192.0.2.9"), Method: []byte("POST"),
		Path: []byte("/wp-login.php"), Query: []byte("a=1&id=7%2C8&flag&sp=x+y"), Status: 401, Agent: []byte("curl/8.1"),
		Referrer: []byte("-"), Host: []byte("example.org"), Message: []byte("the line"),
		Fields: []parse.Field{{Name: "tenant", Value: []byte("acme")}}}
	login := &parse.Event{Service: "sshd", Outcome: parse.Failure, Kind: parse.UnknownUser, User: []byte("joe"), Addr: netip.MustParseAddr("2001:db8::1")}
	for _, c := range []struct {
		match string
		ev    *parse.Event
		want  bool
	}{
		{"{service: http}", web, true},
		{"{service: [sshd, http]}", web, true},
		{"{service: sshd}", web, false},
		{"{service: {not: [sshd, vsftpd]}}", web, true},
		{"{service: {not: http}}", web, false},
		{"{outcome: failure}", login, true},
		{"{outcome: [success, other]}", login, false},
		{"{outcome: {not: success}}", login, true},
		{"{kind: unknown_user}", login, true},
		{"{kind: plain}", login, false},
		{"{kind: {not: [probe, limited]}}", login, true},
		{"{user: joe}", login, true},
		{"{user: {not: [root, joe]}}", login, false},
		{"{user: {not: root}}", web, false}, // an event without a user is no "not root"
		{"{ip: 2001:db8::/32}", login, true},
		{"{ip: [192.0.2.8, 192.0.2.0/29]}", web, false},
		{"{ip: {not: 192.0.2.0/24}}", web, false},
		{"{status: 401}", web, true},
		{"{status: 401-403}", web, true},
		{"{status: 4xx}", web, true},
		{"{status: [200, 500-599]}", web, false},
		{"{status: \">=400\"}", web, true},
		{"{status: \"<401\"}", web, false},
		{"{status: {not: 401}}", web, false},
		{"{status: 0-999}", login, false},
		{"{method: POST, path: /wp-login.php}", web, true},
		{"{method: GET, path: /wp-login.php}", web, false},
		{"{path: /wp-*}", web, true},
		{"{path: \"*.php\"}", web, true},
		{"{path: \"*login*\"}", web, true},
		{"{path: \"/wp-l?gin.php\"}", web, true},
		{"{path: \"/w*-l*.php\"}", web, true},
		{"{path: {starts: /wp, ends: .php, contains: log, not: /wp-admin}}", web, true},
		{"{path: {starts: /wp, not: \"*login*\"}}", web, false},
		{"{path: {is: \"/wp-*\"}}", web, false},
		{"{path: {glob: \"/wp-*\"}}", web, true},
		{"{path: {regex: \"^/wp-.*php$\"}}", web, true},
		{"{path: {starts: [/a, /wp]}}", web, true},
		{"{agent: {regex: \"(?i)CURL\"}}", web, true},
		{"{host: example.org, referrer: \"-\", message: the line}", web, true},
		{"{query: \"a=1*\"}", web, true},
		{"{params: {id: \"7,8\"}}", web, true},
		{"{params: {sp: x y}}", web, true},
		{"{params: {flag: \"*\"}}", web, true},
		{"{params: {none: \"*\"}}", web, false},
		{"{fields: {tenant: acme}}", web, true},
		{"{fields: {tenant: {not: acme}}}", web, false},
		{"{fields: {customer: acme}}", web, false},
		{"{source: /var/log/x}", web, true},
		{"{source: \"/var/log/*.gz\"}", web, false},
	} {
		m := &ruleOf(t, c.match).Match
		got := m.Takes(c.ev.Service, c.ev.Outcome, c.ev.Kind) && m.Event(c.ev, &source.Origin{Name: "/var/log/x"})
		if got != c.want {
			t.Errorf("%s: got %v, want %v", c.match, got, c.want)
		}
	}
}

// What a deprecated operator's warning says to write instead matches the same.
func TestDeprecatedOperators(t *testing.T) {
	for _, c := range []struct{ written, hint string }{
		{`starts: /wp`, `glob: '/wp*'`},
		{`ends: .php`, `glob: '*.php'`},
		{`contains: wp-`, `glob: '*wp-*'`},
		{`starts: [/a, /wp]`, `glob: ['/a*', '/wp*']`},
		{`starts: "/a*b"`, `regex: '\A/a\*b'`},
		{`ends: "b?"`, `regex: 'b\?\z'`},
		{`starts: a, ends: b`, ``},
		{`contains: ["it's*", x]`, `regex: ['it''s\*', 'x']`},
	} {
		text := "sources: [auth]\nrules:\n  - {name: r, match: {user: {%s}}, bucket: {capacity: 1, leak: 1m}}\n"
		old, problems := LoadBytes("t", []byte(fmt.Sprintf(text, c.written)), "")
		if c.hint == "" {
			if old == nil || len(problems) != 2 || problems[0].Hint != "one glob or regex for all of it" {
				t.Errorf("%s: got %v", c.written, problems)
			}
			continue
		}
		if old == nil || len(problems) != 1 || problems[0].Hint != c.hint || problems[0].Line != 3 {
			t.Errorf("%s: got %v, want the hint %s", c.written, problems, c.hint)
			continue
		}
		now, problems := LoadBytes("t", []byte(fmt.Sprintf(text, c.hint)), "")
		if now == nil || len(problems) != 0 {
			t.Errorf("%s: got %v", c.hint, problems)
			continue
		}
		for _, user := range []string{"/wp-login.php", "/wp", "/a", "x/wp-", "wp-", "/a*b", "/a*bc", "x/a*b", "/axb", "b?", "ab?", "b?c", "bx", "it's*", "it's", "x", "", "a\nb?\n", ".php"} {
			ev := &parse.Event{User: []byte(user)}
			if a, b := old.Rules[0].Match.Event(ev, nil), now.Rules[0].Match.Event(ev, nil); a != b {
				t.Errorf("%q: %s is %v, %s is %v", user, c.written, a, c.hint, b)
			}
		}
	}
}

// However a path is written, what the server serves is what is matched.
func TestPathCannotHide(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{"/wp-login.php", "/wp-login.php"},
		{"//wp-login.php", "/wp-login.php"},
		{"/./wp-login.php", "/wp-login.php"},
		{"/blog/../wp-login.php", "/wp-login.php"},
		{"/wp%2Dlogin.php", "/wp-login.php"},
		{"/wp%2dlogin%2ephp", "/wp-login.php"},
		{"/%2e%2e/wp-login.php", "/wp-login.php"},
		{"/a/./b/", "/a/b/"},
		{"/a/b/", "/a/b/"},
		{"/100%", "/100%"},
		{"/%zz%4", "/%zz%4"},
		{"/%252e", "/%2e"}, // once
		{"/", "/"},
		{"//", "/"},
		{"", ""},
		{"*", "*"},
	} {
		if got := string(Path(&parse.Event{Path: []byte(c.written)})); got != c.want {
			t.Errorf("%s: got %s, want %s", c.written, got, c.want)
		}
	}
}

func TestWeight(t *testing.T) {
	s, problems := LoadBytes("t", []byte("sources: [auth]\nrules:\n  - {name: r, match: {outcome: failure}, weight: {base: 1, unknown_user: 2, user: {root: 3, \"adm*\": 4}, status: {4xx: 5}}, bucket: {capacity: 9, leak: 1m}}\n"), "")
	if s == nil {
		t.Fatal(problems)
	}
	w := &s.Rules[0].Weight
	for _, c := range []struct {
		ev   parse.Event
		want int
	}{
		{parse.Event{}, 1},
		{parse.Event{Kind: parse.UnknownUser}, 2},
		{parse.Event{Kind: parse.UnknownUser, User: []byte("root")}, 3},
		{parse.Event{User: []byte("admin")}, 4},
		{parse.Event{User: []byte("root"), Status: 404}, 5},
		{parse.Event{Status: 200}, 1},
	} {
		if got := w.Of(&c.ev, nil); got != c.want {
			t.Errorf("%+v: got %d, want %d", c.ev, got, c.want)
		}
	}
	if w.Most() != 5 {
		t.Errorf("most: got %d, want 5", w.Most())
	}
}

// slowGlob is what * and ? mean, written down.
func slowGlob(p, s string) bool {
	if p == "" {
		return s == ""
	}
	if p[0] == '*' {
		for i := 0; i <= len(s); i++ {
			if slowGlob(p[1:], s[i:]) {
				return true
			}
		}
		return false
	}
	return s != "" && (p[0] == '?' || p[0] == s[0]) && slowGlob(p[1:], s[1:])
}

func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{{"*a*b", "xaxb"}, {"a?c", "abc"}, {"**", ""}, {"", "x"}, {"*x", "xx"}, {"x*", "xy"}, {"*x*", "axb"}, {"?", "*"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, p, s string) {
		if len(p) > 8 || len(s) > 12 {
			return
		}
		want := slowGlob(p, s)
		if got := glob([]byte(p), []byte(s)); got != want {
			t.Errorf("glob %q of %q: got %v, want %v", p, s, got, want)
		}
		g := globTest(p)
		if got := g.holds(&subject{text: []byte(s)}); got != want {
			t.Errorf("test %q of %q: got %v, want %v", p, s, got, want)
		}
	})
}

func TestGlobIsNotQuadraticForEver(t *testing.T) {
	p, s := []byte(strings.Repeat("*a", 40)+"b"), []byte(strings.Repeat("a", 20000))
	if glob(p, s) {
		t.Error("it matched")
	}
}

func TestMeaning(t *testing.T) {
	meaning := func(match string) string {
		r := ruleOf(t, match)
		return r.Meaning(&r.Levels[0])
	}
	same := [][2]string{
		{"{service: sshd, outcome: failure}", "{outcome: failure, service: sshd}"},
		{"{service: [a, b]}", "{service: [b, a]}"},
		{"{service: [a]}", "{service: a}"},
		{"{path: {starts: /a, ends: b}}", "{path: {ends: b, starts: \"/a\"}}"},
	}
	for _, c := range same {
		if meaning(c[0]) != meaning(c[1]) {
			t.Errorf("%s and %s mean another", c[0], c[1])
		}
	}
	for _, c := range [][2]string{{"{service: sshd}", "{service: vsftpd}"}, {"{path: /a}", "{agent: /a}"}, {"{service: a}", "{service: {not: a}}"}} {
		if meaning(c[0]) == meaning(c[1]) {
			t.Errorf("%s and %s mean the same", c[0], c[1])
		}
	}
}

// What a rule takes from another by a merge is as much its own.
func TestMeaningOfMerges(t *testing.T) {
	meaning := func(match, pattern string) string {
		s, problems := LoadBytes("x", []byte(`
sources: [auth]
rules:
  - &a {name: a, match: `+match+`, bucket: {capacity: 5, leak: 1m}}
  - {<<: *a, name: b}
  - {name: c, pattern: 'login (?P<ip>\S+)', `+pattern+` bucket: {capacity: 5, leak: 1m}}
`), "")
		if s == nil {
			t.Fatal(problems)
		}
		b, c := s.Find("b"), s.Find("c")
		return b.Meaning(&b.Levels[0]) + c.Meaning(&c.Levels[0])
	}
	first := meaning("{service: sshd}", "")
	if meaning("{service: vsftpd}", "") == first {
		t.Error("what is merged may change and mean the same")
	}
	if meaning("{service: sshd}", "outcome: success,") == first {
		t.Error("failures and successes mean the same")
	}
}

func TestConditionsThatPickNothing(t *testing.T) {
	for match, want := range map[string]string{
		`{path: "*"}`:                  "matches",
		`{path: /*}`:                   "matches",
		`{status: 100-599}`:            "matches",
		`{path: {not: "*"}}`:           "can never match",
		`{status: {not: 100-599}}`:     "can never match",
		`{path: /login*}`:              "",
		`{user: {is: a, not: a}}`:      "can never match: the conditions for user contradict each other",
		`{user: {glob: "a*", is: b}}`:  "can never match: the conditions for user contradict each other",
		`{user: {is: [a, b], not: a}}`: "",
		`{user: {glob: "a*", not: b}}`: "",
		`{status: {not: [4xx, 5xx]}}`:  "",
	} {
		_, problems := LoadBytes("x", []byte("sources: [auth]\nrules:\n  - {name: a, match: "+match+", bucket: {capacity: 1, leak: 1m}}\n"), "")
		got := ""
		for _, p := range problems {
			got += p.Msg
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", match, got, want)
		}
	}
}

// More different sources than one source holds never come together.
func TestSpreadWithinOneSource(t *testing.T) {
	for rule, want := range map[string]string{
		"window: {distinct: address, over: 20, within: 1h}":                                           "can never breach for IPv4: a /28 contains only 16 addresses",
		"prefix: {ipv4: 24, ipv6: 124}, window: {distinct: address, over: 20, within: 1h}":            "can never breach for IPv6: a /124 contains only 16 addresses",
		"key: address, window: {distinct: prefix, over: 2, within: 1h}":                               "can never breach: there is only one prefix for each address",
		"window: {distinct: address, over: 15, within: 1h}":                                           "",
		"key: user, window: {distinct: address, over: 20, within: 1h}, then: [{lockdown: {for: 1h}}]": "",
	} {
		_, problems := LoadBytes("x", []byte("sources: [auth]\nrules:\n  - {name: a, match: {outcome: failure}, "+rule+"}\n"), "")
		got := ""
		for _, p := range problems {
			got += p.Msg
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", rule, got, want)
		}
	}
	const wide = "sources: [auth]\nnetworks: {10.0.0.0/8: {prefix: 24}}\nrules:\n  - {name: a, match: {outcome: failure}, window: {distinct: address, over: 20, within: 1h}}\n"
	if _, problems := LoadBytes("x", []byte(wide), ""); len(problems) != 0 {
		t.Errorf("a network with wider prefixes: got %v", problems)
	}
}

// A network that gives more room than there can be is warned of.
func TestTooMuchRoom(t *testing.T) {
	for text, want := range map[string]string{
		"networks: {10.0.0.0/8: {capacity: x999999}}\nrules: [{name: a, match: {outcome: failure}, bucket: {capacity: 1000, leak: 1h}}]\n":            "a capacity of 999999000, in 10.0.0.0/8, a full bucket would take longer than 700d to drain",
		"networks: {10.0.0.0/8: {capacity: x20}}\nrules: [{name: a, match: {outcome: failure}, window: {over: 9999, within: 1h}}]\n":                  "a window counts up to 65535, not up to 199980",
		"networks: {10.0.0.0/8: {capacity: x20}}\nrules: [{name: a, match: {outcome: failure}, bucket: {capacity: 50, leak: 1h}}]\n":                  "",
		"networks: {10.0.0.0/8: {capacity: 2}}\nrules: [{name: a, match: {outcome: failure}, bucket: {capacity: 3, leak: 170d}}]\n":                   "",
		"networks: {10.0.0.0/8: {capacity: x999999}}\nrules: [{name: a, key: all, then: [{lockdown: {for: 1h}}], bucket: {capacity: 9, leak: 1h}}]\n": "",
	} {
		s, problems := LoadBytes("x", []byte("sources: [auth]\n"+text), "")
		got := ""
		for _, p := range problems {
			got += p.Msg
		}
		if s == nil || want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
