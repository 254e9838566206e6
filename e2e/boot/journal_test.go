package boot

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Two failures or probes of any service are enough for a block, so that one
// forged line too many shows.
const nervous = `use: []
sources:
  - journal
  - {journal: {units: [myapp, noise]}, service: gitea}
  - {journal: {containers: [forge]}, service: gitea}
rules:
  - {name: failures, match: {outcome: failure}, bucket: {capacity: 1, leak: 12h, ttl: 1h}}
  - {name: probes, match: {outcome: other, kind: probe}, bucket: {capacity: 1, leak: 1m, ttl: 1h}}
`

// forge makes a local account say, in every way it has, that victim failed to
// log in everywhere, and that it got in. $1 is the victim.
const forge = `set -u
v=$1
say() {
	"$@" -t sshd "Failed password for root from $v port 4000 ssh2"
	"$@" -t sshd "Connection closed by $v port 4000 [preauth]"
	"$@" -t sshd "Accepted password for root from $v port 4000 ssh2"
	"$@" -t sshd-session "pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=$v  user=root"
	"$@" -t webmin "Invalid login as root from $v"
	"$@" -t webmin "Successful login as root from $v"
	"$@" -t postfix/smtpd "warning: unknown[$v]: SASL LOGIN authentication failed: authentication failure"
	"$@" -t dovecot "imap-login: Disconnected (auth failed, 1 attempts in 2 secs): user=<a>, method=PLAIN, rip=$v, lip=192.0.2.1"
	"$@" -t pure-ftpd "(?@$v) [WARNING] Authentication failed for user [root]"
	"$@" -t kernel "wireguard: wg0: Invalid handshake initiation from $v:51820"
	"$@" -t gitea "Failed authentication attempt for a from $v:4000"
	"$@" -t anything "authentication failure from $v"
	"$@" -t su "pam_unix(su:auth): authentication failure; logname= uid=1000 euid=0 tty= ruser=alice rhost=$v  user=root"
}
cat_as() { shift; echo "$2" | systemd-cat -t "$1"; }
native() { printf 'MESSAGE=%s\nSYSLOG_IDENTIFIER=%s\n_SYSTEMD_UNIT=ssh.service\n_UID=0\nCONTAINER_NAME=forge\n' "$3" "$2" | logger --journald; }
for i in 1 2; do
	say logger
	say logger -p auth.info
	say cat_as
	say native
done
`

// preload runs in whatever program a user starts: it writes to the system log
// and stays, so that journald sees the program.
const preload = `#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
__attribute__((constructor)) static void say(void) {
	struct sockaddr_un a = {AF_UNIX, "/dev/log"};
	const char *m = "<38>sshd[77]: Failed password for root from " VICTIM " port 4000 ssh2";
	int s = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (connect(s, (struct sockaddr *)&a, sizeof a)) _exit(1);
	for (int i = 0; i < 3; i++) send(s, m, strlen(m), 0);
	for (;;) pause();
}
`

// TestNobodyIsFramed: through a real journald, only the real sshd, and the
// units and containers that the rules name, can have an address blocked or
// known-good, and their failures are counted wherever systemd put them.
func TestNobodyIsFramed(t *testing.T) {
	need(t, "gcc")
	const victim = "198.51.100.66"
	m := boot(t, "trixie")
	m.installBuilt()
	m.write("/etc/stoplog/rules.yaml", nervous, 0o644)
	m.write("/usr/local/bin/forge", "#!/bin/sh\n"+forge, 0o755)
	so := m.path("/usr/local/lib/say.so")
	source := filepath.Join(t.TempDir(), "say.c")
	if err := os.WriteFile(source, []byte(preload), 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, "gcc", "-shared", "-fPIC", "-DVICTIM=\""+victim+"\"", "-o", so, source)
	m.run("systemctl", "start", "stoplog")

	// An account, in its session and in its own service manager.
	m.session("203.0.113.77", "alice", strings.Join([]string{
		"forge " + victim,
		"systemd-run --user --wait -q --collect forge " + victim,
		"systemd-run --user --wait -q --collect --unit=ssh forge " + victim,
		"setsid -f env LD_PRELOAD=/usr/local/lib/say.so /usr/sbin/sshd -D </dev/null >/dev/null 2>&1",
		"for i in 1 2; do echo wrong | su -c true bob; echo wrong | sudo -S true; done; true",
	}, "\n"))
	m.awaitJournal("Failed password for root from "+victim, "_EXE=/usr/sbin/sshd", "_UID=1000")
	m.awaitJournal("FAILED SU (to bob) alice", "_EXE=/usr/bin/su")
	m.awaitJournal("authentication failure; logname=alice", "_EXE=/usr/bin/sudo")

	// Services: one without rights, one that is root's, one that logs what
	// containers say.
	m.run("systemd-run", "--wait", "-q", "--collect", "--unit=apache2", "-p", "User=www-data", "forge", victim)
	m.run("systemd-run", "--wait", "-q", "--collect", "--unit=backup", "-p", "SyslogIdentifier=sshd", "sh", "-c",
		"for i in 1 2 3; do echo 'Failed password for root from "+victim+" port 4000 ssh2'; done")
	m.write("/root/contained", fmt.Sprintf("MESSAGE=Failed password for root from %s port 4000 ssh2\nSYSLOG_IDENTIFIER=sshd\nCONTAINER_NAME=forge\n", victim), 0o644)
	m.write("/root/uncontained", fmt.Sprintf("MESSAGE=Failed authentication attempt for a from %s:4000\nSYSLOG_IDENTIFIER=gitea\nCONTAINER_NAME=other\n", victim), 0o644)
	m.write("/root/forge", "MESSAGE=Failed authentication attempt for a from 203.0.113.100:4000\nSYSLOG_IDENTIFIER=3f2a\nCONTAINER_NAME=forge\n", 0o644)
	m.run("systemd-run", "--wait", "-q", "--collect", "--unit=docker", "sh", "-c",
		// Each waits for a second, so that journald finds the process.
		"for i in 1 2; do for f in contained uncontained forge; do nc -w 1 -uU /run/systemd/journal/socket </root/$f; done; done")

	// An application of an ordinary account, whose unit the rules name.
	m.run("systemd-run", "--wait", "-q", "--collect", "--unit=myapp", "-p", "User=bob", "sh", "-c",
		"for i in 1 2 3; do echo 'Failed authentication attempt for a from 203.0.113.120:4000'; echo 'Failed password for root from "+victim+" port 4 ssh2'; done")
	want := []string{"203.0.113.96/28", "203.0.113.112/28"}

	// The real sshd: three attempts of one connection, and probes.
	m.login("203.0.113.145", "alice", "wrong1", "wrong2", "wrong3")
	m.login("203.0.113.161", "nobody-here", "wrong1", "wrong2")
	for range 2 {
		m.from("203.0.113.177")
		command(t, m.outsider("sh", "-c", "echo hello | nc -s 203.0.113.177 -N -w 5 "+address+" 22")...)
	}
	want = append(want, "203.0.113.144/28", "203.0.113.160/28", "203.0.113.176/28")

	// Attempts that journald looks at when systemd moved the process into the
	// session already, or when it has ended.
	m.late(func(release func()) {
		entered := make(chan error, 1)
		m.from("203.0.113.193")
		go func() {
			_, err := m.ssh("203.0.113.193", "alice", "touch /tmp/in; while [ ! -e /tmp/out ]; do sleep 0.1; done", "wrong1", "wrong2", "alice-password")
			entered <- err
		}()
		m.until("the session", func() bool { _, err := m.try("test", "-e", "/tmp/in"); return err == nil })
		release()
		m.awaitJournal("Failed password for alice from 203.0.113.193", "_SYSTEMD_UNIT="+m.sessionOf("alice"))
		m.write("/tmp/out", "", 0o644)
		m.run("touch", "/tmp/out")
		if err := <-entered; err != nil {
			t.Errorf("the session that journald saw late: %v", err)
		}
	})
	m.late(func(release func()) {
		m.login("203.0.113.209", "alice", "wrong1", "wrong2")
		release()
		m.awaitJournal("Failed password for alice from 203.0.113.209")
	})
	want = append(want, "203.0.113.192/28", "203.0.113.208/28")

	for _, prefix := range want {
		m.awaitBlock(prefix)
	}
	// The journal is in order: what came before these is read.
	var got []string
	for _, b := range m.blocks() {
		got = append(got, b.Prefix)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("blocked are %q, want %q\n%s", got, want, m.run("stoplog", "status"))
	}
	var told struct {
		KnownGood []string `json:"known_good"`
	}
	if out := m.run("stoplog", "explain", "--json", victim); json.Unmarshal([]byte(out), &told) != nil || len(told.KnownGood) > 0 {
		t.Errorf("the victim is known: %s", out)
	}
	if out := m.run("stoplog", "explain", "--json", "203.0.113.77"); !strings.Contains(out, "known_good\":[") {
		t.Errorf("who logged in is not known-good: %s", out)
	}
	if out := m.run("stoplog", "status"); !strings.Contains(out, "entries by other units than the service's: ignored (") {
		t.Errorf("status does not say what was ignored:\n%s", out)
	}
}

// late stops journald while f runs, until f calls release.
func (m *machine) late(f func(release func())) {
	m.t.Helper()
	m.run("systemctl", "kill", "--signal=STOP", "systemd-journald")
	release := func() { m.run("systemctl", "kill", "--signal=CONT", "systemd-journald") }
	defer release()
	f(release)
}

// sessionOf is the unit of a session of that user.
func (m *machine) sessionOf(user string) string {
	m.t.Helper()
	for _, s := range strings.Fields(m.run("loginctl", "show-user", user, "-p", "Sessions", "--value")) {
		if out := m.run("loginctl", "show-session", s, "-p", "Class", "-p", "Scope", "-p", "State"); strings.Contains(out, "Class=user\n") && !strings.Contains(out, "State=closing") {
			_, scope, _ := strings.Cut(out, "Scope=")
			scope, _, _ = strings.Cut(scope, "\n")
			return scope
		}
	}
	m.t.Fatalf("%s has no session", user)
	return ""
}

// TestMessagesWithNUL: journald ends a message at a NUL byte, in a way of its
// own for each way it came; the client is found behind it.
func TestMessagesWithNUL(t *testing.T) {
	m := boot(t, "trixie")
	m.installBuilt()
	m.write("/etc/stoplog/rules.yaml", nervous, 0o644)
	m.run("systemctl", "start", "stoplog")
	line := func(addr string) string { return "Failed authentication attempt for a\x00b from " + addr + ":4000" }
	native := line("203.0.113.20")
	native = "SYSLOG_IDENTIFIER=gitea\nMESSAGE\n" + string(binary.LittleEndian.AppendUint64(nil, uint64(len(native)))) + native + "\n"
	// Behind the NUL byte stands what the client chose.
	printed := line("203.0.113.36") + "\n"
	m.write("/root/syslog", "<38>gitea[7]: "+line("203.0.113.4"), 0o644)
	m.write("/root/native", native, 0o644)
	m.write("/root/printed", printed, 0o644)
	m.write("/root/noise", "first\x00Failed authentication attempt for a from 198.51.100.66:4000\n", 0o644)
	// A unit of its own: the line ends as a record of the victim's would, which
	// raises doubt about what the same unit printed before.
	m.run("systemd-run", "--wait", "-q", "--collect", "--unit=noise", "-p", "SyslogIdentifier=gitea", "cat", "/root/noise", "/root/noise", "/root/noise")
	m.run("systemd-run", "--wait", "-q", "--collect", "--unit=myapp", "-p", "SyslogIdentifier=gitea", "sh", "-c", strings.Join([]string{
		"for i in 1 2 3; do",
		"nc -w 1 -uU /dev/log </root/syslog", "nc -w 1 -uU /run/systemd/journal/socket </root/native", "cat /root/printed",
		"done",
	}, "\n"))
	for _, prefix := range []string{"203.0.113.0/28", "203.0.113.16/28", "203.0.113.32/28"} {
		m.awaitBlock(prefix)
	}
	if bs := m.blocks(); len(bs) != 3 {
		t.Errorf("blocked are %v, want three", bs)
	}
}
