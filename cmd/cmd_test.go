package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"stoplog/internal/control"
)

// run executes one command line with a fresh tree of commands.
func run(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	example, err := os.ReadFile("../rules.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	code = execute(context.Background(), &env{example: example, out: &o, errw: &e, in: strings.NewReader(stdin)}, args)
	return code, o.String(), e.String()
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("prefx: {ipv4: 28}\nrules:\n  - name: x\n    bucket: {capcity: 5, leak: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nobody := filepath.Join(dir, "none.sock")
	for _, c := range []struct {
		name string
		args []string
		want int
	}{
		{"version", []string{"version"}, exitOK},
		{"help", []string{"help"}, exitOK},
		{"unknown command", []string{"frobnicate"}, exitUsage},
		{"unknown flag", []string{"list", "--frob"}, exitUsage},
		{"too many arguments", []string{"status", "x", "y"}, exitUsage},
		{"too few arguments", []string{"block"}, exitUsage},
		{"a name is no address", []string{"block", "host.example"}, exitUsage},
		{"a zone is refused", []string{"block", "fe80::1%eth0"}, exitUsage},
		{"a bad time", []string{"block", "192.0.2.1", "--ttl", "soon"}, exitUsage},
		{"a bad order", []string{"list", "--sort", "colour"}, exitUsage},
		{"no daemon", []string{"--socket", nobody, "status"}, exitNoDaemon},
		{"no daemon to block", []string{"--socket", nobody, "block", "192.0.2.1"}, exitNoDaemon},
		{"bad rules", []string{"check", bad}, exitRules},
		{"bad rules in replay", []string{"replay", "--config", bad, "-"}, exitRules},
		{"missing rules", []string{"check", filepath.Join(dir, "none")}, exitRules},
		{"a missing log", []string{"parse", filepath.Join(dir, "none.log")}, exitRuntime},
		{"built-in rules", []string{"check", "../rules.example.yaml"}, exitOK},
	} {
		code, out, errs := run(t, "", c.args...)
		if code != c.want {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.name, code, c.want, out, errs)
		}
		if code != exitOK && strings.TrimSpace(errs) == "" {
			t.Errorf("%s: failed without a word", c.name)
		}
	}
}

func TestCheckTellsAllMistakes(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("prefx: {ipv4: 28}\nrules:\n  - name: x\n    match: {outcome: failure}\n    bucket: {capcity: 5, leak: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, errs := run(t, "", "check", bad)
	for _, want := range []string{"bad.yaml:1:", "prefix", "bad.yaml:5:", "capacity"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in:\n%s", want, errs)
		}
	}
}

// TestParseShape holds the stable shape of parse --json.
func TestParseShape(t *testing.T) {
	in := "2026-11-20T09:00:00Z host sshd[7]: Failed password for root from 192.0.2.1 port 4000 ssh2\n" +
		"nonsense\n" +
		`192.0.2.9 - - [20/Nov/2026:09:00:01 +0000] "GET /a?b=1 HTTP/1.1" 404 12 "-" "curl \x1b[31m"` + "\n"
	code, out, errs := run(t, in, "parse", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d events, want 2:\n%s", len(lines), out)
	}
	want := []map[string]any{
		{"line": 1.0, "time": "2026-11-20T09:00:00Z", "ip": "192.0.2.1", "service": "sshd", "outcome": "failure", "user": "root"},
		{"line": 3.0, "time": "2026-11-20T09:00:01Z", "ip": "192.0.2.9", "outcome": "other", "method": "GET", "path": "/a", "query": "b=1", "status": 404.0},
	}
	for i, w := range want {
		var got map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatalf("%s: %v", lines[i], err)
		}
		for k, v := range w {
			if got[k] != v {
				t.Errorf("event %d: %s = %v, want %v", i, k, got[k], v)
			}
		}
	}
	if !strings.Contains(errs, "3 lines, 2 understood") || !strings.Contains(errs, "like: nonsense") {
		t.Errorf("the counts are not told: %q", errs)
	}
}

// TestReplayShape holds the stable shape of replay --json.
func TestReplayShape(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "auth.log")
	var b strings.Builder
	for i := range 9 {
		b.WriteString("2026-11-20T09:00:0" + string(rune('0'+i)) + "Z host sshd[" + string(rune('1'+i)) + "]: Failed password for bob from 192.0.2.7 port 4000 ssh2\n")
	}
	if err := os.WriteFile(log, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(dir, "rules.yaml")
	text := "use: []\nrules:\n  - name: ssh-login\n    match: {service: sshd, outcome: failure}\n    bucket: {capacity: 5, leak: 1m}\n"
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "", "replay", "--json", "--config", rules, log)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	want := `{"type":"block","at":"2026-11-20T09:00:05Z","rule":"ssh-login","prefix":"192.0.2.0/28","ttl":"10m","count":6,"points":6,"source":"` + log + `","line":6}
{"type":"rule","rule":"ssh-login","breaches":1,"blocks":1,"prefixes":1,"stopped":3,"good_hit":0,"worst":{"prefix":"192.0.2.0/28","stopped":3,"lines":["` +
		strings.Join(strings.SplitN(b.String(), "\n", 4)[:3], `","`) + `"]}}
{"type":"summary","lines":9,"events":9,"blocks":1,"prevented":3}
`
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"plain text":             "plain text",
		"\x1b[31mred":            `\x1b[31mred`,
		"a\rb\x00c":              `a\x0db\x00c`,
		"caf\u00e9":              "café",
		"\u202eevil":             `\u202eevil`,
		"\x9b31m":                `\x9b31m`,
		"\xff\xfe":               `\xff\xfe`,
		"two\nlines":             "two\nlines",
		"zero\u200bwidth\u2028x": `zero\u200bwidth\u2028x`,
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzAppendText(f *testing.F) {
	f.Add([]byte("a\"b\\c\n\x00\xff\u2028"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		got := append([]byte("{\"x\":1"), appendText(nil, "k", b)...)
		got = append(got, '}')
		var m map[string]any
		if err := json.Unmarshal(got, &m); err != nil {
			t.Fatalf("%q became %s: %v", b, got, err)
		}
		if s, ok := m["k"].(string); !ok || s != strings.ToValidUTF8(string(b), "\ufffd") && !strings.Contains(s, "\ufffd") {
			t.Fatalf("%q became %q", b, m["k"])
		}
		if bytes.ContainsAny(got, "\x1b\x00\n\r") {
			t.Fatalf("control characters are left in %q", got)
		}
	})
}

// TestTablesFit: a table is never wider than the terminal, and leaves out what
// says nothing.
func TestTablesFit(t *testing.T) {
	now := time.Now()
	bs := []control.Block{
		{Prefix: "192.0.2.0/28", Rule: "ssh-login", Count: 6, Points: 6, Reason: "6 failures by 192.0.2.0/28", Backend: "nftables", Since: now, Until: now.Add(time.Hour)},
		{Prefix: "2001:db8:1234:5678::/64", Rule: "a-rule-with-a-name", Count: 60, Points: 60, Reason: "60 failures by 2001:db8:1234:5678::/64", Backend: "nftables", Since: now, Until: now.Add(time.Hour)},
	}
	print := func(columns int) string {
		var b strings.Builder
		if err := printBlocks(&b, bs, now, columns); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	widest := func(s string) (n int) {
		for l := range strings.Lines(s) {
			n = max(n, utf8.RuneCountInString(strings.TrimRight(l, " \n")))
		}
		return n
	}
	if out := print(80); widest(out) > 80 || strings.Contains(out, "REASON") || strings.Contains(out, "BACKEND") || strings.Contains(out, "POINTS") {
		t.Errorf("%d columns:\n%s", widest(out), out)
	}
	bs[0].Reason, bs[0].By = strings.Repeat("a long reason ", 20), "anna"
	if out := print(90); widest(out) > 90 || !strings.Contains(out, "a long") || strings.Contains(out, "failures by") {
		t.Errorf("%d columns:\n%s", widest(out), out)
	}
	if out := print(0); !strings.Contains(out, strings.Repeat("a long reason ", 10)) {
		t.Errorf("cut without a terminal:\n%s", out)
	}
	bs[1].Points, bs[1].Backend = 90, "ipset"
	if out := print(80); !strings.Contains(out, "POINTS") || !strings.Contains(out, "BACKEND") {
		t.Errorf("what differs is left out:\n%s", out)
	}
}
