package packaging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deb makes a package of this version and returns its path.
func deb(t *testing.T, version string) string {
	t.Helper()
	need(t, false, "make", "dpkg-deb", "gzip")
	run(t, "make", "-C", "..", "-s", "deb", "VERSION="+version)
	found, _ := filepath.Glob("../dist/stoplog_" + version + "_*.deb")
	if len(found) != 1 {
		t.Fatalf("make deb made %q", found)
	}
	// Out of the way of the next one, and of what else may use dist/.
	to := filepath.Join(t.TempDir(), filepath.Base(found[0]))
	run(t, "mv", found[0], to)
	return to
}

// TestDebContents looks into the package: what must be in it, and that it
// ships no rules, so that none is ever replaced.
func TestDebContents(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a package")
	}
	path := deb(t, "7.0.1")
	list := run(t, "dpkg-deb", "-c", path)
	for _, want := range []string{"./usr/bin/stoplog", "./usr/lib/systemd/system/stoplog.service", "./usr/share/doc/stoplog/rules.example.yaml",
		"./usr/share/doc/stoplog/copyright", "./usr/share/doc/stoplog/rules.schema.json", "./usr/share/man/man8/stoplog.8.gz",
		"./usr/share/man/man8/stoplog-run.8.gz", "./usr/share/bash-completion/completions/stoplog",
		"./usr/share/zsh/vendor-completions/_stoplog", "./usr/share/fish/vendor_completions.d/stoplog.fish",
		"./usr/share/doc/stoplog/examples/hosts-deny.conf", "./usr/share/doc/stoplog/contrib/prometheus/alerts.yaml"} {
		if !strings.Contains(list, " "+want+"\n") {
			t.Errorf("%s is missing in\n%s", want, list)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(list), "\n") {
		f := strings.Fields(line)
		if len(f) < 6 {
			t.Fatalf("dpkg-deb printed %q", line)
		}
		if f[1] != "root/root" {
			t.Errorf("%s belongs to %s", f[5], f[1])
		}
		if strings.ContainsAny(f[0][1:], "sStT") || f[0][5] == 'w' || f[0][8] == 'w' {
			t.Errorf("%s has mode %s", f[5], f[0])
		}
		if strings.HasPrefix(f[5], "./etc/stoplog/") && f[5] != "./etc/stoplog/" {
			t.Errorf("%s is shipped; what is in /etc is the administrator's", f[5])
		}
	}
	info := run(t, "dpkg-deb", "-f", path)
	for _, want := range []string{"Package: stoplog\n", "Version: 7.0.1\n", "Depends: adduser\n"} {
		if !strings.Contains(info, want) {
			t.Errorf("no %q in\n%s", want, info)
		}
	}
	dir := t.TempDir()
	run(t, "dpkg-deb", "-e", path, dir)
	for _, s := range []string{"postinst", "prerm", "postrm"} {
		run(t, "sh", "-n", filepath.Join(dir, s))
	}
}

// TestPackageVersion: versions of packages begin with a digit and sort.
func TestPackageVersion(t *testing.T) {
	for in, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-4-gabc": "1.2.3+4+gabc", "7.0.1": "7.0.1"} {
		if got := strings.TrimSpace(run(t, "../hack/package-version", in)); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got := run(t, "../hack/package-version", "abc1234-dirty"); !strings.HasPrefix(got, "0.0~") {
		t.Errorf("a commit: got %s, want one that sorts before any release", got)
	}
	if _, err := os.Stat("nfpm.yaml"); err != nil {
		t.Error(err)
	}
}
