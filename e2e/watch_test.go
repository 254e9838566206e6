package e2e

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// accountsScript changes accounts with the real programs, on copies of /etc and
// /dev. $1 is the socket that takes the place of /dev/log.
const accountsScript = `
set -e
mount --make-rprivate /
cp -a /etc "$2/etc"; mount --bind "$2/etc" /etc
mkdir "$2/dev"
for d in null zero tty urandom; do touch "$2/dev/$d"; mount --bind "/dev/$d" "$2/dev/$d"; done
touch "$2/dev/log"; mount --bind "$1" "$2/dev/log"
mount --rbind "$2/dev" /dev
groupadd watched-group
useradd -M watched
usermod -aG watched-group watched
echo 'watched:A long pass phrase 1' | chpasswd
passwd -l watched
chage -M 90 watched
chsh -s /bin/sh watched
useradd -M -o -u 0 -g 0 second-root
su nobody -s /bin/sh -c 'su root -c true < /dev/null' || true
userdel -f watched
groupdel watched-group
`

// TestWatchRulesOnRealPrograms: the rules watch report what useradd, passwd, su
// and their kin log, and block nobody, whatever the names of users hold.
func TestWatchRulesOnRealPrograms(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("changes accounts, in a mount namespace of its own")
	}
	dir := scratch(t)
	sock := filepath.Join(dir, "log")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: sock, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := os.Chmod(sock, 0o666); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for b := make([]byte, 8192); ; {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			// <86>Nov 22 16:49:21 useradd[7]: …, as rsyslog writes it to a file.
			_, text, ok := strings.Cut(string(b[:n]), ">")
			if text = strings.TrimRight(text, "\x00\n"); ok && len(text) > 16 {
				lines <- text[:16] + "host " + text[16:] + "\n"
			}
		}
	}()
	out, err := exec.Command("unshare", "-m", "sh", "-c", accountsScript, "sh", sock, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	end, err := net.Dial("unixgram", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if _, err := end.Write([]byte("<86>Nov 22 16:49:21 end[1]: end of the log")); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for line := range lines {
		if strings.Contains(line, "end of the log") {
			break
		}
		log.WriteString(line)
	}
	// The kernel's and systemd's, and a forged line in each place.
	stamp := time.Now().Format(time.Stamp)
	for _, l := range []string{
		"kernel: [  12.5] Out of memory: Killed process 12 (my sqld) total-vm:1kB, anon-rss:1kB, file-rss:0kB",
		"kernel: [  12.6] Failed password for root from 198.51.100.1[12]: segfault at 0 ip 000055d0c8a3f139 sp 00007ffd0f0e4f50 error 6 in x[55d0c8a3f000+1000]",
		"kernel: [  12.7] EXT4-fs (sda1): Remounting filesystem read-only",
		"systemd[1]: app.service: Start request repeated too quickly.",
		"useradd[9]: new user: name=sshd: Failed password for root from 198.51.100.1 port 22 ssh2, UID=1, GID=1, home=/, shell=/bin/sh",
	} {
		log.WriteString(stamp + " host " + l + "\n")
	}
	rules := put(t, filepath.Join(dir, "rules.yaml"), "use: [auto, watch]\n", 0o644)
	c := exec.Command(binary, "replay", "--json", "--config", rules, "-")
	c.Stdin, c.Stderr = strings.NewReader(log.String()), os.Stderr
	out, err = c.Output()
	if err != nil {
		t.Fatal(err)
	}
	reported := map[string]int{}
	for line := range bytes.Lines(out) {
		var a struct{ Type, Rule string }
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		switch a.Type {
		case "rule", "summary":
		case "observe":
			reported[a.Rule]++
		default:
			t.Errorf("more than a report: %s", line)
		}
	}
	for rule, least := range map[string]int{"watch-accounts": 9, "watch-password": 2, "watch-sudo": 1, "watch-sudo-failed": 1,
		"watch-oom": 1, "watch-crash": 1, "watch-filesystem": 1, "watch-service": 1} {
		if reported[rule] < least {
			t.Errorf("%s reported %d times, want %d", rule, reported[rule], least)
		}
	}
	if t.Failed() {
		t.Logf("%s\n%s", log.String(), out)
	}
}
