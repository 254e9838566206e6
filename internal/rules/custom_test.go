package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParsePrefix(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "192.0.2.7/28": "192.0.2.0/28", "::ffff:192.0.2.7": "192.0.2.7/32",
		"[2001:db8::1]": "2001:db8::1/128", "2001:db8::1/64": "2001:db8::/64",
		"fe80::1%eth0": "", "host.example": "", "192.0.2.07": "", "192.0.2.0/33": "", "::ffff:192.0.2.0/120": "", "": "", "ALL": "", "[]": "",
	} {
		p, ok := ParsePrefix(in)
		if ok != (want != "") || ok && p.String() != want {
			t.Errorf("ParsePrefix(%q) = %s, %v; want %q", in, p, ok, want)
		}
	}
}

func TestListRead(t *testing.T) {
	dir := t.TempDir()
	text := "# office\n192.0.2.7   # the printer\n\n2001:db8::/48\nnot an address\n10.0.0.0/8\r\n"
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ps, problems := List{Files: []string{filepath.Join(dir, "*.txt"), filepath.Join(dir, "none.txt")}}.Read()
	if len(ps) != 3 || ps[0].String() != "192.0.2.7/32" || ps[2].String() != "10.0.0.0/8" {
		t.Errorf("read %v", ps)
	}
	if len(problems) != 1 || problems[0].Line != 5 || !problems[0].Warning {
		t.Errorf("problems: %v, want one at line 5", problems)
	}
}

func TestFlagName(t *testing.T) {
	for name, want := range map[string]bool{"captcha": true, "a-1": true, "": false, "../x": false, "A": false, "a b": false, "a\n": false, "ü": false} {
		if FlagName(name) != want {
			t.Errorf("FlagName(%q) = %v", name, !want)
		}
	}
}

// A file of the deny list may be others' work: what must never be denied is
// left out of it, and told.
func TestDenyFilesHoldWhatTheyWant(t *testing.T) {
	file := filepath.Join(t.TempDir(), "drop.txt")
	if err := os.WriteFile(file, []byte("192.0.2.0/24\n10.0.0.0/8\n127.0.0.1\n::/0\n2001:db8::/32\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, problems := LoadBytes("x", []byte("use: ssh\ndeny: [\"file:"+file+"\"]\n"), "")
	if s == nil {
		t.Fatal(problems)
	}
	ps, problems := s.ReadDeny()
	if got := fmt.Sprint(ps); got != "[192.0.2.0/24 2001:db8::/32]" {
		t.Errorf("got %s", got)
	}
	want := []string{":2:1: warning: 10.0.0.0/8 is skipped: it is wider than the floor", ":3:1: warning: 127.0.0.1/32 is skipped: it is local to this machine", ":4:1: warning: ::/0 is skipped: it is wider than the floor"}
	for i, w := range want {
		if len(problems) != len(want) || !strings.Contains(problems[i].Error(), w) {
			t.Fatalf("got %v, want %q", problems, want)
		}
	}
}
