package pack

import (
	"strings"
	"testing"
)

func TestLoadProblems(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "x.yaml: the file is empty"},
		{"syntax", "name: [", "x.yaml: yaml: line 1"},
		{"no mapping", "- a", "x.yaml:1:1: expected key: value pairs"},
		{"unknown key", "name: a\npatern: []\n", `x.yaml:2:1: unknown key "patern", did you mean "patterns"?`},
		{"twice", "name: a\nname: b\n", `x.yaml:2:1: key "name" stands here twice`},
		{"no name", "patterns: [{pattern: 'abc <ip>'}]\n", "x.yaml:1:1: name is missing"},
		{"no patterns", "name: a\n", "x.yaml:1:1: patterns are missing"},
		{"outcome", "name: a\npatterns:\n  - {pattern: 'abc <ip>', outcome: failed}\n", `x.yaml:3:36: unknown outcome "failed", did you mean "failure"?`},
		{"kind", "name: a\npatterns:\n  - {pattern: 'abc <ip>', kind: xyzzy-plugh}\n", "known are forbidden, limited, probe, unknown_user"},
		{"RE2", "name: a\npatterns:\n  - pattern: 'abc(?=x) <ip>'\n", "x.yaml:3:14: the pattern is not RE2: invalid or unsupported Perl syntax: (?="},
		{"no address", "name: a\npatterns:\n  - pattern: 'abc'\n", "x.yaml:3:14: no address"},
		{"neither", "name: a\npatterns:\n  - outcome: failure\n", "neither pattern: nor fields:"},
		{"both", "name: a\npatterns:\n  - {pattern: 'abc <ip>', fields: {a: b}}\n", "exclude each other"},
		{"field paths", "name: a\npatterns:\n  - {pattern: 'abc <ip>', ip: addr}\n", "name fields"},
		{"class", "name: a\npatterns:\n  - {pattern: 'abc <ip>', class: 12}\n", `class is 0 to 9, not "12"`},
		{"sample", "name: a\npatterns: [{pattern: 'abc <ip>'}]\nsamples: [{ip: 192.0.2.7}]\n", "x.yaml:3:11: line is missing"},
		{"list", "name: a\npatterns: abc\n", "x.yaml:2:11: expected a list"},
	}
	for _, tt := range tests {
		p, ps := Load("x.yaml", []byte(tt.text))
		var all []string
		for _, pr := range ps {
			all = append(all, pr.Error())
		}
		if got := strings.Join(all, "\n"); p != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestLoadTellsAllAtOnce(t *testing.T) {
	_, ps := Load("x.yaml", []byte("nam: a\npatterns:\n  - {pattern: '(', kind: a}\n  - {pattern: 'x', outcom: y}\n"))
	if len(ps) < 5 {
		t.Errorf("got %d problems, want all: %v", len(ps), ps)
	}
}

func TestLoadWarns(t *testing.T) {
	tests := []struct {
		expr string
		want bool
	}{
		{`^login of <user> from <ip>$`, false},
		{`^login of <user> from <ip>: .*$`, true},
		{`login from <ip>: .*$`, true}, // anything may stand before it
		{`^login from <ip>: .*$`, false},
		{`^login of (?P<user>\S+) from <ip>: .*$`, false},
		{`^login of [^"]+ from <ip>: .+$`, true},
	}
	for _, tt := range tests {
		_, ps := CompilePattern("app", tt.expr, nil, nil)
		if got := len(ps) == 1 && ps[0].Warning; got != tt.want {
			t.Errorf("%s: warned %t, want %t: %v", tt.expr, got, tt.want, ps)
		}
	}
}

func TestCompilePattern(t *testing.T) {
	const expr = `login failed user=(?P<user>\S+) ip=(?P<ip>\S+)$`
	good := []string{
		"login failed user=alice ip=192.0.2.7",
		"May  1 10:11:12 host app[9]: login failed user=alice ip=192.0.2.7",
	}
	p, ps := CompilePattern("my-app", expr, good, []string{"login ok user=alice ip=192.0.2.7"})
	if p == nil || len(ps) > 0 {
		t.Fatal(ps)
	}
	var got []string
	var m Match
	NewSet(p).Each([]byte("anything"), []byte(good[0]), &m, func(m *Match) {
		got = append(got, m.Service+" "+m.Addr.String()+" "+string(m.User))
	})
	if len(got) != 1 || got[0] != "my-app 192.0.2.7 alice" {
		t.Errorf("got %q", got)
	}
	for _, tt := range []struct {
		expr            string
		matches, ignore []string
		want            string
	}{
		{expr, []string{"nothing"}, nil, `line 1 of matches does not match: "nothing"`},
		{expr, nil, good[:1], "line 1 of ignores matches, address 192.0.2.7"},
		{"abc(", nil, nil, "the pattern is not RE2: missing closing )"},
	} {
		p, ps := CompilePattern("my-app", tt.expr, tt.matches, tt.ignore)
		if p != nil || len(ps) == 0 || !strings.Contains(ps[0].Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.expr, ps, tt.want)
		}
	}
	if p, ps := CompilePattern("x", "abc", nil, nil); p == nil || len(ps) != 1 || !ps[0].Warning {
		t.Errorf("a pattern that names nobody: got %v, %v, want it with a warning", p, ps)
	}
	if _, ps := CompilePattern("x", `ab (?<!y)`, nil, nil); len(ps) != 1 || ps[0].Offset != 3 {
		t.Errorf("offset: got %+v, want 3", ps)
	}
}

func TestNearest(t *testing.T) {
	for w, want := range map[string]string{"failur": "failure", "sucess": "success", "zzzzzzzzz": "", "othr": "other"} {
		if got := nearest(w, []string{"failure", "success", "other"}); got != want {
			t.Errorf("%s: got %q, want %q", w, got, want)
		}
	}
}
