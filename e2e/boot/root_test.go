package boot

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// packages are what every root has beside Debian's minimal system. A package
// that only one case needs belongs here too: roots have no network.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "openssh-server", "nftables", "ipset",
	"iptables", "iproute2", "sudo", "util-linux", "login", "cron", "adduser", "procps", "curl", "netcat-openbsd",
	"rpm", "ufw", "firewalld", "fail2ban",
}

// prepare is run once in a new root. alice and bob are ordinary accounts.
const prepare = `set -eu
echo boot >/etc/hostname
printf '127.0.0.1 localhost boot\n::1 localhost boot\n' >/etc/hosts
for u in alice bob; do useradd -m -s /bin/bash $u; echo $u:$u-password | chpasswd; done
printf 'PasswordAuthentication yes\nPermitRootLogin no\nUseDNS no\nPerSourcePenalties no\n' >/etc/ssh/sshd_config.d/boot.conf
sshd -t 2>/dev/null || sed -i /PerSourcePenalties/d /etc/ssh/sshd_config.d/boot.conf
mkdir -p /var/log/journal
systemctl disable ufw.service firewalld.service fail2ban.service
systemctl mask systemd-networkd-wait-online.service systemd-modules-load.service apt-daily.timer apt-daily-upgrade.timer
rm -f /var/cache/apt/archives/*.deb`

// base returns the folder of a fresh root of that Debian release, which nobody
// may change. It is made at the first use and kept for later runs, in
// STOPLOG_BOOT_CACHE or else in the user's cache folder.
func base(t *testing.T, suite string) string {
	t.Helper()
	cache := os.Getenv("STOPLOG_BOOT_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			dir = os.TempDir()
		}
		cache = filepath.Join(dir, "stoplog-boot")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, filepath.Join(cache, "lock"))
	defer unlock()
	sum := sha256.Sum256([]byte(strings.Join(packages, ",") + prepare))
	dir := filepath.Join(cache, fmt.Sprintf("%s-%x", suite, sum[:6]))
	if err := os.Chtimes(dir, time.Time{}, time.Now()); err == nil {
		return dir
	}
	// Others are of another list of packages, and a run may be using them.
	dirs, _ := filepath.Glob(filepath.Join(cache, "*-*"))
	for _, old := range dirs {
		if i, err := os.Stat(old); err == nil && time.Since(i.ModTime()) > 7*24*time.Hour {
			os.RemoveAll(old)
		}
	}
	half := dir + ".new"
	os.RemoveAll(half)
	command(t, append([]string{"debootstrap", "--variant=minbase", "--include=" + strings.Join(packages, ","), suite, half}, mirror()...)...)
	command(t, "chroot", half, "sh", "-c", prepare)
	if err := os.Rename(half, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mirror is where this machine has its own Debian packages from, if it is a
// Debian; debootstrap knows a place otherwise.
func mirror() []string {
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian").Output()
	if f := strings.Fields(string(out)); err == nil && len(f) > 0 {
		return f[:1]
	}
	return nil
}

// lock takes a lock that other processes see, and returns what gives it back.
func lock(t *testing.T, path string) func() {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// deb makes a package of that version and returns its path.
func deb(t *testing.T, version string) string { t.Helper(); return pack(t, "deb", version) }

// pack makes a package of that kind ("deb", "rpm") and version.
func pack(t *testing.T, kind, version string) string {
	t.Helper()
	unlock := lock(t, filepath.Join(os.TempDir(), "stoplog-deb.lock"))
	defer unlock()
	command(t, "make", "-C", "../..", "-s", kind, "VERSION="+version)
	found, _ := filepath.Glob("../../dist/stoplog*" + version + "*." + kind)
	if len(found) != 1 {
		t.Fatalf("make %s made %q", kind, found)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(found[0]))
	command(t, "mv", found[0], to)
	return to
}
