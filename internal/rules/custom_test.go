package rules

import (
	"os"
	"path/filepath"
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
