package rules

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"stoplog/internal/parse/pack"
)

func TestCustomPatterns(t *testing.T) {
	s, problems := LoadBytes("t", []byte(`
sources: [auth]
rules:
  - name: app
    pattern: 'login failed user=(?P<user>\S+) ip=(?P<ip>\S+)$'
    kind: unknown_user
    programs: [my-app]
    bucket: {capacity: 3, leak: 5m}
`), "")
	if s == nil {
		t.Fatal(problems)
	}
	set, err := s.Custom()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	set.Each([]byte("my-app"), []byte("login failed user=joe ip=192.0.2.1"), new(pack.Match), func(m *pack.Match) {
		n++
		if m.Service != "app" || m.Addr != netip.MustParseAddr("192.0.2.1") || string(m.User) != "joe" || m.Outcome != 1 || m.Kind != 2 {
			t.Errorf("got %+v", m)
		}
	})
	set.Each([]byte("other"), []byte("login failed user=joe ip=192.0.2.1"), new(pack.Match), func(*pack.Match) { t.Error("another program's line was read") })
	if n != 1 {
		t.Errorf("got %d events, want 1", n)
	}
	if s, _ := LoadBytes("t", []byte("use: ssh\n"), ""); s != nil {
		if set, err := s.Custom(); set != nil || err != nil {
			t.Errorf("no patterns: got %v, %v", set, err)
		}
	}
}

func TestListFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.txt", "192.0.2.1 # home\n\n# all of it\n198.51.100.7/24\n::ffff:203.0.113.1\n")
	write("b.txt", "2001:db8::/32\nexample.org\n::ffff:192.0.2.0/120\n")
	l := List{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Files: []string{filepath.Join(dir, "*.txt"), filepath.Join(dir, "none")}}
	ps, problems := l.Read()
	want := map[string]bool{"10.0.0.0/8": true, "192.0.2.1/32": true, "198.51.100.0/24": true, "203.0.113.1/32": true, "2001:db8::/32": true}
	if len(ps) != len(want) {
		t.Errorf("got %v", ps)
	}
	for _, p := range ps {
		if !want[p.String()] {
			t.Errorf("%v is in no file", p)
		}
	}
	if len(problems) != 2 || problems[0].Line != 2 || problems[1].Line != 3 {
		t.Errorf("got %v, want the name and the mapped prefix told", problems)
	}
}

func TestNamesOfFlags(t *testing.T) {
	for name, want := range map[string]bool{"captcha": true, "a-1": true, "": false, "A": false, "../x": false, "a b": false, "é": false} {
		if FlagName(name) != want {
			t.Errorf("%q: got %v, want %v", name, !want, want)
		}
	}
}
