package notify

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"stoplog/internal/rules"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"plain text", "plain text"}, {"Zoë 日本", "Zoë 日本"},
		{"a\r\nBcc: x", `a\x0d\x0aBcc: x`}, {"\x1b[2J\x00\x7f", `\x1b[2J\x00\x7f`},
		{"\xff\xc3", `\xff\xc3`}, {"\u202eevil\u200b", `\u202eevil\u200b`}, {"\U000e0041", `\U000e0041`}, {"\u0085", `\u0085`},
	} {
		if got := clean(c.in); got != c.want {
			t.Errorf("clean(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestTextIsBounded(t *testing.T) {
	for _, in := range []string{strings.Repeat("a", 1<<20), strings.Repeat("\x00", 1<<20), strings.Repeat("é", 1<<20)} {
		if got := utf8.RuneCountInString(text(in)); got != maxText {
			t.Errorf("%d characters of %q…, want %d", got, in[:4], maxText)
		}
	}
}

func letterOf(t *testing.T, tmpl string, ms ...Message) letter {
	t.Helper()
	f, err := newForm(rules.Notify{Name: "ops", Template: tmpl}, "web1")
	if err != nil {
		t.Fatal(err)
	}
	var g group
	for _, m := range ms {
		g.add(m, time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	}
	l, err := f.letter(g.digest(nil))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestBuiltInForm(t *testing.T) {
	flood := breach(2)
	flood.Rule, flood.Key, flood.Prefix, flood.Addr, flood.Blocks, flood.TTL, flood.User = "login-flood", "all", "", "", nil, 0, ""
	l := letterOf(t, "", breach(1), flood)
	want := `web1: 1 block (login-flood, ssh-login)
login-flood: 1 breach, 0 blocks
ssh-login: 1 breach, 1 block
10.0.0.16/28

2026-11-20T09:00:00Z ssh-login: 10.0.0.16/28, from 10.0.0.16, service sshd, user root, 6 failures, blocked 10.0.0.16/28 for 10m (auth.log:123)
    | Failed password for root

2026-11-20T09:00:00Z login-flood: service sshd, 6 failures (auth.log:123)
    | Failed password for root
`
	if string(l.plain) != want {
		t.Errorf("got:\n%s\nwant:\n%s", l.plain, want)
	}
	var d Digest
	if err := json.Unmarshal(l.body, &d); err != nil {
		t.Fatal(err)
	}
	if d.Host != "web1" || d.Target != "ops" || d.Count != 2 || d.Blocks != 1 || len(d.Events) != 2 || d.Events[0].Blocks[0] != "10.0.0.16/28" || d.Events[0].TTL != "10m" {
		t.Errorf("digest %+v", d)
	}
	if l.typ != "application/json" {
		t.Errorf("type %s", l.typ)
	}
}

func TestTemplates(t *testing.T) {
	for _, c := range []struct{ tmpl, body, typ string }{
		{`{"text": {{.JSON .Text}}}`, `{"text": "web1: 1 block (ssh-login)\n10.0.0.16/28"}`, "application/json"},
		{"{{.Host}} {{.Blocks}}{{range .Events}} {{.User}}{{end}}", "web1 1 root", "text/plain; charset=utf-8"},
		{"{{.Details}}", string(letterOf(t, "", breach(1)).plain), "text/plain; charset=utf-8"},
	} {
		l := letterOf(t, c.tmpl, breach(1))
		if string(l.body) != c.body || l.typ != c.typ {
			t.Errorf("%s: %q as %s, want %q as %s", c.tmpl, l.body, l.typ, c.body, c.typ)
		}
	}
}

// TestHostileTexts: nothing of a log may reach the short text, a header or
// anything unescaped.
func TestHostileTexts(t *testing.T) {
	m := breach(1)
	m.Key, m.User, m.Service = "user=<!channel>", "<!channel>\r\nBcc: x@example.net", "\x1b]0;x\x07"
	m.Evidence = []string{"\u202e\x00\nfrom"}
	l := letterOf(t, "", m)
	var d Digest
	if err := json.Unmarshal(l.body, &d); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(d.Text+l.subject, "channel") {
		t.Errorf("log text in %q or %q", d.Text, l.subject)
	}
	if got, want := d.Events[0].User, `<!channel>\x0d\x0aBcc: x@example.net`; got != want {
		t.Errorf("user %q, want %q", got, want)
	}
	if got, want := d.Events[0].Evidence[0], `\u202e\x00\x0afrom`; got != want {
		t.Errorf("evidence %q, want %q", got, want)
	}
}

func TestGroupIsBounded(t *testing.T) {
	var g group
	m := breach(1)
	m.Evidence = make([]string, 1000)
	m.Blocks = make([]netip.Prefix, 1000)
	for i := range m.Blocks {
		m.Blocks[i] = netip.MustParsePrefix("192.0.2.0/28")
	}
	for i := range 1000 {
		m.Rule = strings.Repeat("r", i%500+1)
		g.add(m, time.Time{})
	}
	d := g.digest(nil)
	if len(d.Events) != maxShown || len(d.Rules) > maxRules+1 || len(d.Prefixes) != maxPrefixes || len(d.Events[0].Evidence) != maxEvidence || len(d.Events[0].Blocks) != maxBlocks {
		t.Errorf("%d events, %d rules, %d prefixes", len(d.Events), len(d.Rules), len(d.Prefixes))
	}
	n := 0
	for _, r := range d.Rules {
		n += r.Count
	}
	if d.Count != 1000 || n != 1000 || d.Blocks != 1_000_000 || d.More != 1000-maxShown {
		t.Errorf("count %d, by rule %d, blocks %d, more %d: counts must stay exact", d.Count, n, d.Blocks, d.More)
	}
}

// FuzzRender: whatever a log says, what is sent is printable, valid JSON
// where JSON is meant, and its short text holds nothing of it.
func FuzzRender(f *testing.F) {
	f.Add("root", "192.0.2.0/28", "Failed password\r\n.\r\nMAIL FROM:<x@example.net>")
	f.Add("\"}],\"text\":\"@here", "\xff\xfe", "\x1b[31m\u2028")
	f.Add(strings.Repeat("\x00", 4096), "\U0001f600", "=?utf-8?q?x?=")
	hook := `{"text": {{.JSON .Text}}, "who": [{{range $i, $e := .Events}}{{if $i}},{{end}}{{$.JSON $e.User}}{{end}}]}`
	hooked, err := newForm(rules.Notify{Template: hook}, "web1")
	if err != nil {
		f.Fatal(err)
	}
	own, err := newForm(rules.Notify{}, "web1")
	if err != nil {
		f.Fatal(err)
	}
	m := mailer{cfg: rules.Email{From: "a@example.net", To: []string{"b@example.net"}}, host: "web1"}
	f.Fuzz(func(t *testing.T, user, key, line string) {
		var g group
		g.add(Message{Rule: "r", Key: key, Prefix: key, Addr: line, Service: line, User: user, Source: user, Evidence: []string{line, key}}, time.Time{})
		d := g.digest(nil)
		for _, x := range []*form{hooked, own} {
			l, err := x.letter(d)
			if err != nil || !json.Valid(l.body) {
				t.Fatalf("%v: %q", err, l.body)
			}
			if l.subject != "[stoplog] web1: 1 breach (r)" {
				t.Fatalf("subject %q", l.subject)
			}
			for _, r := range string(l.plain) {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Fatalf("%q in %q", r, l.plain)
				}
			}
			checkMail(t, m.message(l, time.Time{}), l.plain)
		}
	})
}

func TestSubjects(t *testing.T) {
	for _, c := range []struct {
		count, blocks int
		rules         []string
		want          string
	}{
		{1, 0, []string{"a"}, "h: 1 breach (a)"},
		{2, 0, []string{"a"}, "h: 2 breaches (a)"},
		{2, 1, []string{"a", "b"}, "h: 1 block (a, b)"},
		{9, 5, []string{"a", "b", "c"}, "h: 5 blocks (a, b, c)"},
		{9, 5, []string{"a", "b", "c", "d"}, "h: 5 blocks (a, b, c, …)"},
	} {
		d := Digest{Host: "h", Count: c.count, Blocks: c.blocks}
		for _, r := range c.rules {
			d.Rules = append(d.Rules, RuleCount{Rule: r})
		}
		if got := d.subject(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestMostActiveFirst: the rules of a message are in a stable order.
func TestMostActiveFirst(t *testing.T) {
	var g group
	for i, rule := range []string{"b", "c", "a", "c", "d\n", "c", "b"} {
		m := breach(i)
		m.Rule = rule
		g.add(m, time.Time{})
	}
	var got []string
	for _, r := range g.digest(nil).Rules {
		got = append(got, r.Rule)
	}
	if s := strings.Join(got, " "); s != `c b a d\x0a` {
		t.Errorf("got %s, want c b a d\\x0a", s)
	}
}
