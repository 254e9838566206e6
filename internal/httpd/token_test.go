package httpd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if ts, err := ReadTokens(path); err != nil || len(ts) != 0 {
		t.Fatalf("no file: %v, %v", ts, err)
	}
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	secret, err := AddToken(path, "anna", now)
	if err != nil {
		t.Fatal(err)
	}
	if len(secret) < 43 || !strings.HasPrefix(secret, "stoplog_") {
		t.Errorf("secret %q", secret)
	}
	other, err := AddToken(path, "bob.2", now)
	if err != nil || other == secret {
		t.Fatal(err, other == secret)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), secret[8:]) {
		t.Errorf("the file holds the secret: %v", err)
	}
	if fi, _ := os.Stat(path); fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", fi.Mode())
	}
	ts, err := ReadTokens(path)
	if err != nil || len(ts) != 2 || ts[0].Name != "anna" || !ts[0].Made.Equal(now) {
		t.Fatalf("%v, %v", ts, err)
	}
	for _, c := range []struct{ secret, want string }{{secret, "anna"}, {other, "bob.2"}, {"", ""}, {secret[:len(secret)-1], ""}, {secret + "x", ""}, {string(ts[0].Hash[:]), ""}} {
		if got, ok := FindToken(ts, c.secret); got.Name != c.want || ok != (c.want != "") {
			t.Errorf("FindToken(%.12q…) = %q, %v, want %q", c.secret, got.Name, ok, c.want)
		}
	}
	if _, err := AddToken(path, "anna", now); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second anna: %v", err)
	}
	if was, err := RemoveToken(path, "anna"); !was || err != nil {
		t.Error(was, err)
	}
	if was, err := RemoveToken(path, "anna"); was || err != nil {
		t.Error(was, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files are left behind: %v, %v", left, err)
	}
}

func TestTokenNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for _, name := range []string{"", "a b", "a\nb", "../x", "Anna", "-x", ".x", strings.Repeat("x", 33), "é", "a:b", "#x"} {
		if _, err := AddToken(path, name, time.Now()); !errors.Is(err, ErrTokenName) {
			t.Errorf("%q: %v, want ErrTokenName", name, err)
		}
	}
}

func TestHostileTokenFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	hash := strings.Repeat("ab", 32)
	for _, text := range []string{
		"anna", "anna " + hash, "anna " + hash + " soon", "anna " + hash[2:] + " 2026-11-20T09:00:00Z", "An\x00na " + hash + " 2026-11-20T09:00:00Z",
		"anna " + hash + " 2026-11-20T09:00:00Z x", strings.Repeat("# x\n", maxTokenFile),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if ts, err := ReadTokens(path); err == nil || ts != nil {
			t.Errorf("%.40q: %v, %v, want an error", text, ts, err)
		}
		if _, err := AddToken(path, "bob", time.Now()); err == nil {
			t.Errorf("%.40q was overwritten", text)
		}
	}
	// Whoever can write to the folder must not make root write elsewhere.
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	if _, err := AddToken(path, "bob", time.Now()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("through a link: %v", err)
	}
	if data, _ := os.ReadFile(victim); len(data) != 0 {
		t.Error("the link's target was written")
	}
}

func TestTokensAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := AddToken(path, "t"+string(rune('a'+i)), time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if ts, err := ReadTokens(path); err != nil || len(ts) != 8 {
		t.Errorf("%d tokens of 8, %v", len(ts), err)
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte("# x\nanna " + strings.Repeat("ab", 32) + " 2026-11-20T09:00:00Z\n"))
	f.Add([]byte("anna\x00 ff \n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ts, err := parseTokens(data, "f")
		for _, x := range ts {
			if err == nil && !tokenName(x.Name) {
				t.Errorf("%q became the name %q", data, x.Name)
			}
		}
	})
}
