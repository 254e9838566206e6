package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestImportedRulesBlock imports a filter of one's own and replays lines that
// it is for.
func TestImportedRulesBlock(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"jail.conf":          "[DEFAULT]\nfilter = %(__name__)s\n[shop]\nenabled = true\nmaxretry = 3\nfindtime = 10m\nlogpath = " + filepath.Join(dir, "shop.log") + "\n",
		"filter.d/shop.conf": "[Definition]\nfailregex = ^\\s*\\[\\d+\\] wrong password for <F-USER>\\S+</F-USER> by <HOST>$\n ^\\s*\\[\\d+\\] no such coupon, client <HOST>\n",
		"shop.log": "2026-11-20 10:00:00 [7] wrong password for joe by 192.0.2.1\n" +
			"2026-11-20 10:00:01 [8] no such coupon, client 192.0.2.1, 3 tries\n" +
			"2026-11-20 10:00:02 [9] wrong password for bob by 192.0.2.1\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, yaml, errs := run(t, "", "import", "fail2ban", dir)
	if code != exitOK || errs != "" {
		t.Fatalf("exit %d, told %q", code, errs)
	}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := run(t, "", "check", file); code != exitOK {
		t.Fatalf("check: exit %d\n%s%s", code, out, errs)
	}
	_, out, _ := run(t, "", "replay", "--json", "--config", file, filepath.Join(dir, "shop.log"))
	if !strings.Contains(out, `"rule":"shop","prefix":"192.0.2.1/32"`) {
		t.Errorf("three failures by two patterns did not block:\n%s", out)
	}
	if code, _, _ := run(t, "", "import", "fail2ban", filepath.Join(dir, "none")); code != exitRuntime {
		t.Errorf("a missing folder: exit %d, want %d", code, exitRuntime)
	}
}

// TestImportNeverWaitsForAPipe: a pipe in place of a file is refused, not read.
func TestImportNeverWaitsForAPipe(t *testing.T) {
	for _, pipe := range []string{"jail.conf", "jail.local"} {
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
		if pipe == "jail.local" {
			if err := os.WriteFile(filepath.Join(dir, "jail.conf"), []byte("[DEFAULT]\nbantime = 1h\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		code, out, errs := run(t, "", "import", "fail2ban", dir)
		if !strings.Contains(out+errs, "not a regular file") || pipe == "jail.conf" && code == exitOK {
			t.Errorf("%s: exit %d: %s%s", pipe, code, out, errs)
		}
	}
}
