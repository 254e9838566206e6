package pack

import (
	"testing"
)

func loadAll(t *testing.T, texts ...string) *Set {
	t.Helper()
	var packs []*Pack
	for _, x := range texts {
		p, ps := Load("x.yaml", []byte(x))
		if p == nil {
			t.Fatal(ps)
		}
		packs = append(packs, p)
	}
	return NewSet(packs...)
}

const (
	packA = "name: alpha\nprograms: [alphad]\npatterns: [{pattern: '^login failed from <ip>$'}]\n"
	packB = "name: beta\nprograms: ['*']\npatterns: [{pattern: '^refused <ip>$', kind: forbidden}]\n"
	packC = "name: gamma\npatterns: [{pattern: '^login failed from .* at <ip>$'}, {pattern: '^login failed from <ip> at .*$', outcome: success}]\n"
)

func TestTags(t *testing.T) {
	s := loadAll(t, packA, packB)
	tests := []struct {
		tag, msg, want string
	}{
		{"alpha", "login failed from 192.0.2.7", "alpha"},
		{"alphad", "login failed from 192.0.2.7", "alpha"},
		{"docker-alpha-1", "login failed from 192.0.2.7", "alpha"},
		{"alpha(www.example.org)", "login failed from 192.0.2.7", "alpha"},
		{"java", "login failed from 192.0.2.7", ""},
		{"alphabet", "login failed from 192.0.2.7", ""},
		{"", "login failed from 192.0.2.7", ""},
		{"sshd", "login failed from 192.0.2.7", ""},
		{"sshd", "refused 192.0.2.7", "beta"},
	}
	for _, tt := range tests {
		var m Match
		got := ""
		if s.MatchTagged([]byte(tt.tag), []byte(tt.msg), &m) {
			got = m.Service
		}
		if got != tt.want {
			t.Errorf("%s: %s: got %q, want %q", tt.tag, tt.msg, got, tt.want)
		}
	}
}

func TestMatchService(t *testing.T) {
	s := loadAll(t, packA, packB)
	var m Match
	if !s.MatchIn(s.Named("alphad"), []byte("login failed from 192.0.2.7"), &m) {
		t.Error("a service is not known by its program")
	}
	if s.MatchIn(s.Named("alpha"), []byte("refused 192.0.2.7"), &m) || s.MatchIn(s.Named("none"), []byte("refused 192.0.2.7"), &m) {
		t.Error("another service's line was read")
	}
	if p := s.Pack("alphad"); p == nil || p.Name() != "alpha" || s.Pack("none") != nil {
		t.Errorf("got %v", p)
	}
}

func TestPatternsThatDisagree(t *testing.T) {
	s := loadAll(t, packC)
	var m Match
	if s.MatchBare([]byte("login failed from 192.0.2.7 at 198.51.100.1"), &m) {
		t.Errorf("two patterns read two addresses: got %s, want nobody", m.Addr)
	}
	if !s.MatchBare([]byte("login failed from 192.0.2.7 at home"), &m) || m.Outcome != Success {
		t.Errorf("got %+v", m)
	}
	n := 0
	s.Each(nil, []byte("login failed from 192.0.2.7 at 198.51.100.1"), &m, func(*Match) { n++ })
	if n != 2 {
		t.Errorf("Each: got %d matches, want 2", n)
	}
}

func TestUnless(t *testing.T) {
	s := loadAll(t, "name: a\npatterns: [{pattern: '^ban of <ip> by (?P<rule>.*)$', unless: 'by ours$'}]\n")
	var m Match
	if !s.MatchBare([]byte("ban of 192.0.2.7 by them"), &m) || s.MatchBare([]byte("ban of 192.0.2.7 by ours"), &m) {
		t.Error("unless is not minded")
	}
}

func TestAs(t *testing.T) {
	p, ps := CompilePattern("app", `^refused <ip>$`, nil, nil)
	if p == nil {
		t.Fatal(ps)
	}
	s := NewSet(p.As([]string{"appd"}, Other, Probe))
	var m Match
	if s.MatchTagged([]byte("x"), []byte("refused 192.0.2.7"), &m) || s.MatchTagged([]byte("app"), []byte("refused 192.0.2.7"), &m) {
		t.Error("another program's line was read")
	}
	if !s.MatchTagged([]byte("appd"), []byte("refused 192.0.2.7"), &m) || m.Outcome != Other || m.Kind != Probe {
		t.Errorf("got %+v", m)
	}
	if !NewSet(p.As(nil, Failure, Plain)).MatchTagged([]byte("x"), []byte("refused 192.0.2.7"), &m) {
		t.Error("no programs: every program's line is meant")
	}
}

func TestNoAllocationOnMiss(t *testing.T) {
	s, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var m Match
	tag, line := []byte("sshd"), []byte(benchLines["postfix"])
	if n := testing.AllocsPerRun(100, func() { s.MatchTagged(tag, line, &m); s.MatchBare(line, &m) }); n > 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	s, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	for range 4 {
		go func() {
			var m Match
			done <- s.MatchBare([]byte("2024-05-01T10:11:12Z ACCEPT host=::ffff:192.0.2.7 port=39590 fd=4 n=1/4096"), &m)
		}()
	}
	for range 4 {
		if !<-done {
			t.Error("no match")
		}
	}
}

func TestSyslogOnly(t *testing.T) {
	s := loadAll(t, "name: a\nsyslog_only: true\npatterns: [{pattern: '^refused <ip>$'}]\n")
	var m Match
	line := []byte("refused 192.0.2.7")
	if s.MatchBare(line, &m) {
		t.Error("a line without a tag was read")
	}
	if !s.MatchTagged([]byte("a"), line, &m) || !s.MatchIn(s.Named("a"), line, &m) || !s.MatchIn(s.Named("A"), line, &m) || s.Named("a-auth") != nil {
		t.Error("a line of the service was not read")
	}
}

func TestBuiltinIsLazy(t *testing.T) {
	s, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	p := s.Pack("gitea")
	if p == nil || len(p.Logs()) == 0 || len(p.Programs()) == 0 || len(s.Services()) < 100 {
		t.Fatalf("got %v of %d packs", p, len(s.Services()))
	}
	if d := s.Pack("drupal"); d == nil || !d.tagOnly {
		t.Errorf("the index lost what drupal's file says: %+v", d)
	}
	if p.patterns != nil {
		t.Error("a file was read before a line needed it")
	}
	var m Match
	if !s.MatchIn(s.Named("forgejo"), []byte("Failed authentication attempt for x from 192.0.2.7:1: user does not exist [uid: 0, name: x]"), &m) || p.patterns == nil {
		t.Errorf("got %+v", m)
	}
}
