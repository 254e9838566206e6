package boot

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fresh is what the README asks for on each Debian release before its two
// commands: Go of that release, or of its backports where that is too old to
// fetch the toolchain that go.mod names.
var fresh = map[string]string{
	"trixie":   "apt-get install -y -q --no-install-recommends git make golang-go sudo ca-certificates",
	"bookworm": "apt-get install -y -q --no-install-recommends git make sudo ca-certificates && apt-get install -y -q --no-install-recommends -t bookworm-backports golang-go",
}

// TestReadmeOnFreshDebian follows the README on a minimal Debian: the packages,
// the command that builds and runs, and the one that passes the tests. The root
// is pivoted to, as the tests need mount namespaces. It uses the network to
// fetch packages and modules, and takes many minutes.
func TestReadmeOnFreshDebian(t *testing.T) {
	soak(t)
	need(t, "debootstrap", "systemd-nspawn", "git")
	for suite, install := range fresh {
		t.Run(suite, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			site := mirror()
			command(t, append([]string{"debootstrap", "--variant=minbase", suite, root}, site...)...)
			from := "http://deb.debian.org/debian"
			if len(site) > 0 {
				from = site[0]
			}
			sources := "deb " + from + " " + suite + " main\ndeb " + from + " " + suite + "-backports main\n"
			if err := os.WriteFile(filepath.Join(root, "etc/apt/sources.list"), []byte(sources), 0o644); err != nil {
				t.Fatal(err)
			}
			command(t, "git", "clone", "-q", "--no-hardlinks", "../..", filepath.Join(root, "src"))
			for _, step := range []string{
				"apt-get update -q && " + install,
				"cd /src && make && timeout --preserve-status -s TERM 20 sudo ./stoplog run --dry-run",
				"cd /src && make test",
			} {
				inside(t, root, step)
			}
		})
	}
}

// inside runs a shell command as root in a pivoted root with this side's
// network, and fails the test when the command does.
func inside(t *testing.T, root, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Minute)
	defer cancel()
	argv := []string{"--quiet", "--directory=" + root, "--console=pipe", "--as-pid2", "--capability=all", "--register=no",
		"--resolv-conf=copy-host", "--setenv=DEBIAN_FRONTEND=noninteractive", "--setenv=LC_ALL=C.UTF-8", "--setenv=CI=true"}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		argv = append(argv, "--keep-unit")
	}
	const roots = "/etc/ssl/certs/ca-certificates.crt" // whom this side trusts, its network's own authorities too
	if _, err := os.Stat(roots); err == nil {
		argv = append(argv, "--bind-ro="+roots+":/run/roots.crt", "--setenv=SSL_CERT_FILE=/run/roots.crt")
	}
	for _, name := range []string{"GOPROXY", "GONOSUMDB", "GOSUMDB", "http_proxy", "https_proxy", "no_proxy"} {
		if v, ok := os.LookupEnv(name); ok {
			argv = append(argv, "--setenv="+name+"="+v)
		}
	}
	c := exec.CommandContext(ctx, "systemd-nspawn", append(argv, "sh", "-ec", script)...)
	c.Env = append(os.Environ(), "SYSTEMD_SECCOMP=0")
	out, err := c.CombinedOutput()
	if err != nil {
		text := string(out)
		t.Fatalf("%s: %v\n%s", strings.SplitN(script, "\n", 2)[0], err, text[max(0, len(text)-8000):])
	}
}
