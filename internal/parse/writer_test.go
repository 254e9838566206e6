package parse

import (
	"strings"
	"testing"

	"stoplog/internal/parse/pack"
	"stoplog/internal/source"
)

// writer is an entry by "unit uid exe", of which "-" is none.
func writer(s, ident string) source.Entry {
	f := strings.Fields(s)
	en := source.Entry{Time: testNow, Ident: []byte(ident), PID: 77, UID: -1}
	if f[0] != "-" {
		en.Unit = []byte(f[0])
	}
	if f[1] != "-" {
		en.UID = 0
		for _, c := range f[1] {
			en.UID = en.UID*10 + int64(c-'0')
		}
	}
	if f[2] != "-" {
		en.Exe = []byte(f[2])
	}
	return en
}

const (
	sshFailure   = "Failed password for root from 192.0.2.7 port 4000 ssh2"
	sshSuccess   = "Accepted password for ann from 192.0.2.7 port 4000 ssh2"
	sshProbe     = "Connection closed by 192.0.2.7 port 4000 [preauth]"
	auditFailure = `type=USER_AUTH msg=audit(1795166590.123:4): pid=7 uid=0 auid=4294967295 ses=4294967295 msg='op=password acct="root" exe="/usr/sbin/sshd" hostname=? addr=192.0.2.7 terminal=ssh res=failed'`
	pamFailure   = "pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root"
	pfFailure    = "warning: unknown[192.0.2.7]: SASL LOGIN authentication failed: x"
	dcFailure    = "imap-login: Disconnected (auth failed, 1 attempts in 2 secs): user=<a>, method=PLAIN, rip=192.0.2.7, lip=192.0.2.1"
	wmFailure    = "Invalid login as root from 192.0.2.7"
	ftFailure    = "(?@192.0.2.7) [WARNING] Authentication failed for user [root]"
	wgFailure    = "wireguard: wg0: Invalid handshake initiation from 192.0.2.7:51820"
	giFailure    = "2026/11/20 09:23:10 ...s/web/auth/auth.go:202:SignInPost() [I] Failed authentication attempt for ann from 192.0.2.7:4000: user does not exist [uid: 0, name: ann]"
)

// TestWhoMaySpeak holds what each writer of a journal entry may say. want is
// "yes" (an event, verified), "text" (an event, unverified) or "no" (no event,
// and counted).
func TestWhoMaySpeak(t *testing.T) {
	for _, c := range []struct{ by, tag, msg, want string }{
		// sshd: its unit under each distribution's name, an instance of a socket
		// unit, the session that logind moved it to, and after its end.
		{"ssh.service 0 /usr/sbin/sshd", "sshd", sshFailure, "yes"},
		{"sshd.service 0 /usr/lib/openssh/sshd-session", "sshd-session", sshFailure, "yes"},
		{"ssh@3-192.0.2.1:22-192.0.2.7:4000.service 0 /usr/lib/openssh/sshd-session", "sshd-session", sshFailure, "yes"},
		{"ssh.service 0 -", "sshd-session", sshProbe, "yes"},
		{"- 0 -", "sshd-session", sshProbe, "yes"},
		{"session-c1.scope 0 /usr/lib/openssh/sshd-session", "sshd-session", sshFailure, "yes"},
		{"session-c1.scope 0 /usr/sbin/sshd", "sshd", sshSuccess, "yes"},
		{"ssh.service 0 /usr/sbin/sshd", "sshd", pamFailure, "yes"},
		{"auditd.service 0 /usr/sbin/audisp-syslog", "audispd", auditFailure, "yes"},
		{"session-c1.scope 1000 /usr/bin/logger", "audispd", auditFailure, "no"},

		// People, whatever they call themselves and whatever they run.
		{"session-c1.scope 1000 /usr/bin/logger", "sshd", sshFailure, "no"},
		{"session-c1.scope 1000 /usr/sbin/sshd", "sshd", sshFailure, "no"},
		{"- 1000 -", "sshd", sshFailure, "no"},
		{"- 1000 -", "sshd", sshProbe, "no"},
		{"- 1000 -", "sshd", sshSuccess, "no"},
		{"- 1000 -", "sshd", pamFailure, "no"},
		{"user@1000.service 1000 /usr/bin/logger", "sshd", sshFailure, "no"},
		{"ssh.service 1000 /usr/bin/logger", "sshd", sshFailure, "no"}, // a login without pam_systemd
		{"ssh.service 998 /usr/bin/logger", "sshd", sshFailure, "no"},
		{"session-c1.scope 0 /usr/bin/sudo", "sshd", sshFailure, "no"},
		{"session-c1.scope 0 -", "sshd", sshFailure, "no"},
		{"user@0.service 0 /usr/sbin/sshd", "sshd", sshFailure, "no"},
		{"- 0 /usr/bin/logger", "sshd", sshFailure, "no"},
		{"docker-0123.scope 0 /usr/sbin/sshd", "sshd", sshFailure, "no"},
		{"machine-x.scope 0 /usr/sbin/sshd", "sshd", sshFailure, "no"},
		{"- - -", "sshd", sshFailure, "no"},

		// Other services.
		{"apache2.service 33 /usr/sbin/apache2", "sshd", sshFailure, "no"},
		{"cron.service 0 /usr/bin/logger", "sshd", sshFailure, "no"},
		{"sshguard.service 0 /usr/bin/logger", "sshd", sshFailure, "no"},
		{"not-ssh.service 0 /usr/sbin/sshd", "sshd", sshFailure, "no"},
		{"ssh.socket 0 -", "sshd", sshFailure, "no"},

		{"postfix@-.service 107 /usr/lib/postfix/sbin/smtpd", "postfix/smtpd", pfFailure, "yes"},
		{"postfix.service 107 /usr/lib/postfix/sbin/smtpd", "postfix/smtpd", pfFailure, "yes"},
		{"postfix.service 1000 /usr/bin/logger", "postfix/smtpd", pfFailure, "no"}, // .forward
		{"postfix.service 65534 /usr/bin/logger", "postfix/smtpd", pfFailure, "no"},
		{"dovecot.service 107 /usr/bin/logger", "postfix/smtpd", pfFailure, "no"},
		{"- 1000 -", "postfix/smtpd", pfFailure, "no"},
		{"dovecot.service 0 /usr/lib/dovecot/log", "dovecot", dcFailure, "yes"},
		{"- 1000 -", "dovecot", dcFailure, "no"},
		{"session-1.scope 0 /usr/lib/dovecot/log", "dovecot", dcFailure, "no"},
		{"webmin.service 0 /usr/bin/perl", "webmin", wmFailure, "yes"},
		{"- 1000 -", "webmin", wmFailure, "no"},
		{"user@1000.service 1000 /usr/bin/logger", "webmin", wmFailure, "no"},
		{"pure-ftpd.service 0 /usr/sbin/pure-ftpd", "pure-ftpd", ftFailure, "yes"},
		{"inetd.service 0 /usr/sbin/pure-ftpd", "pure-ftpd", ftFailure, "yes"},
		{"- 0 -", "pure-ftpd", ftFailure, "yes"},
		{"session-1.scope 1000 /usr/bin/logger", "pure-ftpd", ftFailure, "no"},
		{"session-1.scope 1000 /usr/bin/logger", "kernel", wgFailure, "no"},
		{"ulogd2.service 0 /usr/bin/logger", "kernel", wgFailure, "no"},

		// Applications, in the units of their names, as whatever account.
		{"gitea.service 1001 /usr/local/bin/gitea", "gitea", giFailure, "yes"},
		{"gitea.service 61184 /usr/local/bin/gitea", "gitea", giFailure, "yes"},
		{"forgejo.service 998 /usr/local/bin/forgejo", "forgejo", giFailure, "yes"},
		{"git-forge.service 998 /usr/local/bin/gitea", "gitea", giFailure, "no"},
		{"user@1001.service 1001 /usr/local/bin/gitea", "gitea", giFailure, "no"},
		{"session-1.scope 1001 /usr/local/bin/gitea", "gitea", giFailure, "no"},

		// A program that nobody knows.
		{"x.service 0 /usr/bin/x", "x", "authentication failure from 192.0.2.7", "no"},
		{"ssh.service 0 /usr/sbin/sshd", "stoplog", sshFailure, "-"},
		{"ssh.service 0 /usr/sbin/sshd", "", sshFailure, "-"},
	} {
		en := writer(c.by, c.tag)
		p := liveParser(t)
		got, ev := speak(p, en, c.msg)
		if got != c.want {
			t.Errorf("%s as %s: %q\n got %s, want %s (%s %v)", c.by, c.tag, c.msg, got, c.want, ev.Service, ev.Outcome)
		}
		if got != "no" && got != "-" && ev.Time != testNow {
			t.Errorf("%s: time %d, want the journal's", c.by, ev.Time)
		}
	}
}

// liveParser reads the journal as a daemon does whose rules name no unit.
func liveParser(t *testing.T) *Parser {
	t.Helper()
	packs, err := pack.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Packs: packs})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// speak parses an entry and sums up what became of it.
func speak(p *Parser, en source.Entry, msg string) (string, Event) {
	var ev Event
	ok := p.Parse(&source.Line{Text: []byte(msg), Entry: &en}, testNow, &ev)
	n, _ := p.Foreign()
	switch {
	case ok && ev.Informs:
		return "informs", ev
	case ok && ev.Verified:
		return "yes", ev
	case ok:
		return "text", ev
	case n > 0:
		return "no", ev
	}
	return "-", ev
}

// TestKernelAndStdout: the transport cannot be chosen.
func TestKernelAndStdout(t *testing.T) {
	en := writer("- - -", "kernel")
	en.Transport = source.KernelTransport
	if got, _ := speak(liveParser(t), en, wgFailure); got != "yes" {
		t.Errorf("the kernel: %s", got)
	}
	en = writer("session-1.scope 1000 /usr/bin/logger", "kernel")
	if got, _ := speak(liveParser(t), en, wgFailure); got != "no" {
		t.Errorf("under the kernel's name: %s", got)
	}
	// What a service prints is cut at newlines that a client may have sent.
	en = writer("gitea.service 998 /usr/local/bin/gitea", "gitea")
	en.Transport = source.StdoutTransport
	if got, _ := speak(liveParser(t), en, giFailure); got != "text" {
		t.Errorf("printed by an application: %s", got)
	}
	en = writer("ssh.service 0 /usr/sbin/sshd", "sshd")
	en.Transport = source.StdoutTransport
	if got, _ := speak(liveParser(t), en, sshSuccess); got != "yes" {
		t.Errorf("printed by sshd -e: %s", got)
	}
}

// TestSuAndSudoInform: their records are the caller's.
func TestSuAndSudoInform(t *testing.T) {
	for _, c := range []struct{ by, tag, msg, want string }{
		{"session-c1.scope 1000 /usr/bin/su", "su", "FAILED SU (to bob) alice on none", "informs"},
		{"session-c1.scope 1000 /usr/bin/sudo", "sudo", "pam_unix(sudo:auth): authentication failure; logname=alice uid=1000 euid=0 tty= ruser=alice rhost=192.0.2.7  user=alice", "informs"},
		{"session-c1.scope 1000 /usr/bin/sudo", "sudo", "   alice : user NOT in sudoers ; PWD=/home/alice ; USER=root ; COMMAND=/usr/bin/id", "informs"},
		{"session-c1.scope 1000 /usr/bin/logger", "su", "FAILED SU (to bob) alice on none", "no"},
		{"session-c1.scope 1000 /usr/bin/su", "sshd", sshFailure, "no"},
		{"session-c1.scope 1000 /usr/bin/sudo", "su", "FAILED SU (to bob) alice on none", "no"},
	} {
		got, ev := speak(liveParser(t), writer(c.by, c.tag), c.msg)
		if got != c.want || ev.Addr.IsValid() || ev.Verified {
			t.Errorf("%s as %s: %q\n got %s %v verified %v, want %s without an address", c.by, c.tag, c.msg, got, ev.Addr, ev.Verified, c.want)
		}
	}
}

// TestMachineInforms: lines about accounts, units and the kernel are reported,
// from their programs alone, and have no address and count toward no block.
func TestMachineInforms(t *testing.T) {
	const user, unit = "new user: name=x from 192.0.2.7, UID=0, GID=0, home=/, shell=/bin/sh", "app.service: Start request repeated too quickly."
	for _, c := range []struct{ by, tag, msg, want string }{
		{"session-c1.scope 0 /usr/sbin/useradd", "useradd", user, "informs"},
		{"cloud-init.service 0 /usr/sbin/useradd", "useradd", user, "informs"},
		{"session-c1.scope 1000 /usr/bin/logger", "useradd", user, "-"},
		{"session-c1.scope 0 /usr/bin/passwd", "passwd", "password for 'ann' changed by 'ann'", "informs"},
		{"init.scope 0 /usr/lib/systemd/systemd", "systemd", unit, "informs"},
		{"user@1000.service 1000 /usr/lib/systemd/systemd", "systemd", unit, "-"},
		{"session-c1.scope 1000 /usr/bin/logger", "systemd", unit, "-"},
	} {
		got, ev := speak(liveParser(t), writer(c.by, c.tag), c.msg)
		if c.want == "informs" && ev.Informs {
			got = "informs"
		}
		if got != c.want || ev.Addr.IsValid() {
			t.Errorf("%s as %s: %q\n got %s %v, want %s without an address", c.by, c.tag, c.msg, got, ev.Addr, c.want)
		}
	}
}

// TestSourcesNameWriters: a source may name the units, containers and accounts
// that speak for a service.
func TestSourcesNameWriters(t *testing.T) {
	packs, err := pack.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	forge := JournalOptions{Units: []string{"git-forge.service"}, All: true}
	box := JournalOptions{Containers: []string{"forge"}}
	for _, c := range []struct {
		service        string
		j              JournalOptions
		by, in         string // unit, uid, program; container
		tag, msg, want string
	}{
		{"gitea", forge, "git-forge.service 1001 /x/gitea", "", "gitea", giFailure, "yes"},
		{"", forge, "git-forge.service 1001 /x/gitea", "", "gitea", giFailure, "yes"},
		{"gitea", forge, "git-forge.service 1001 /x/gitea", "", "sshd", sshFailure, "-"},
		{"", forge, "git-forge.service 0 /x/gitea", "", "sshd", sshFailure, "no"},
		{"gitea", JournalOptions{Units: []string{"git-forge.service"}}, "other.service 1001 /x/gitea", "", "gitea", giFailure, "no"},
		{"sshd", JournalOptions{Units: []string{"my-ssh.service"}, All: true}, "my-ssh.service 0 /x/sshd", "", "sshd", sshFailure, "yes"},
		{"ssh", JournalOptions{Units: []string{"my-ssh.service"}, All: true}, "my-ssh.service 0 /x/sshd", "", "sshd", sshFailure, "yes"},
		{"sshd", JournalOptions{Units: []string{"my-ssh.service"}, All: true}, "my-ssh.service 1000 /bin/logger", "", "sshd", sshFailure, "no"},
		{"postfix", JournalOptions{All: true, Users: true}, "user@1001.service 1001 /x", "", "postfix/smtpd", pfFailure, "yes"},
		{"gitea", JournalOptions{All: true, Users: true}, "user@1001.service 1001 /x", "", "gitea", giFailure, "yes"},
		{"gitea", JournalOptions{All: true, Users: true}, "user@1001.service 1001 /x", "", "sshd", sshFailure, "-"},

		// Docker's driver writes what a container says as root, in docker.service.
		{"", JournalOptions{}, "docker.service 0 /usr/bin/dockerd", "forge", "gitea", giFailure, "no"},
		{"", JournalOptions{}, "docker.service 0 /usr/bin/dockerd", "forge", "sshd", sshFailure, "no"},
		{"", JournalOptions{}, "docker.service 0 /usr/bin/dockerd", "forge", "x", pamFailure, "no"},
		{"", JournalOptions{}, "ssh.service 0 /usr/bin/dockerd", "forge", "sshd", sshFailure, "no"},
		{"gitea", box, "docker.service 0 /usr/bin/dockerd", "forge", "3f2a", giFailure, "yes"},
		{"gitea", box, "docker.service 0 /usr/bin/dockerd", "other", "gitea", giFailure, "no"},
		{"gitea", box, "docker.service 0 /usr/bin/dockerd", "", "gitea", giFailure, "no"},
		{"gitea", box, "libpod-conmon-12ab.scope 0 /usr/bin/conmon", "forge", "gitea", giFailure, "yes"},
		{"gitea", box, "git-forge.service 0 /usr/bin/conmon", "forge", "gitea", giFailure, "yes"},
		{"gitea", box, "session-1.scope 1000 /usr/bin/logger", "forge", "gitea", giFailure, "no"},
		{"gitea", box, "user@1000.service 1000 /usr/bin/conmon", "forge", "gitea", giFailure, "no"},
		{"gitea", box, "docker.service 0 /usr/bin/dockerd", "forge", "sshd", sshFailure, "-"},
	} {
		p, err := New(Options{Service: c.service, Journal: c.j, Packs: packs})
		if err != nil {
			t.Fatal(err)
		}
		en := writer(c.by, c.tag)
		if c.in != "" {
			en.Container = []byte(c.in)
		}
		if got, _ := speak(p, en, c.msg); got != c.want {
			t.Errorf("service %q, %+v: %s in %q as %s: %q\n got %s, want %s", c.service, c.j, c.by, c.in, c.tag, c.msg, got, c.want)
		}
	}
}

// TestOwnPatternsInTheJournal: a user's own pattern reads a tag only when its
// writer may use it.
func TestOwnPatternsInTheJournal(t *testing.T) {
	pk, problems := pack.CompilePattern("mine", `login failed ip=(?P<ip>\S+)`, nil, nil)
	if pk == nil {
		t.Fatal(problems)
	}
	const msg = "login failed ip=192.0.2.7"
	for _, c := range []struct {
		program, by, tag string
		j                JournalOptions
		want             bool
	}{
		{"myapp", "myapp.service 998 /usr/bin/python3", "python3", JournalOptions{}, true},
		{"myapp", "myapp.service 998 /usr/bin/myapp", "myapp", JournalOptions{}, true},
		{"myapp", "apache2.service 33 /usr/bin/logger", "myapp", JournalOptions{}, false},
		{"myapp", "session-1.scope 1000 /usr/bin/logger", "myapp", JournalOptions{}, false},
		{"myapp", "user@1000.service 1000 /usr/bin/logger", "myapp", JournalOptions{}, false},
		{"myapp", "- 1000 -", "myapp", JournalOptions{}, false},
		{"myapp", "user@1000.service 1000 /x", "myapp", JournalOptions{All: true, Users: true}, true},
		{"sshd", "ssh.service 0 /usr/sbin/sshd", "sshd", JournalOptions{}, true},
		{"sshd", "session-1.scope 0 /usr/sbin/sshd", "sshd", JournalOptions{}, true},
		{"sshd", "session-1.scope 1000 /usr/sbin/sshd", "sshd", JournalOptions{}, false},
		{"", "myapp.service 998 /usr/bin/python3", "python3", JournalOptions{}, true},
		{"", "session-1.scope 1000 /usr/bin/logger", "x", JournalOptions{}, false},
		{"", "- 1000 -", "x", JournalOptions{}, false},
	} {
		var programs []string
		if c.program != "" {
			programs = []string{c.program}
		}
		p, err := New(Options{Journal: c.j, Custom: Patterns{Free: pack.NewSet(pk.As(programs, pack.Failure, pack.Plain))}})
		if err != nil {
			t.Fatal(err)
		}
		en := writer(c.by, c.tag)
		var ev Event
		p.Parse(&source.Line{Text: []byte(msg), Entry: &en}, testNow, &ev)
		got := false
		p.Custom(nil, func(*Event) { got = true })
		if got != c.want {
			t.Errorf("a pattern for %q, %s as %s: got %v, want %v", c.program, c.by, c.tag, got, c.want)
		}
	}
}

// TestNamedWriterSpeaksForItsServiceOnly: whom a source names may write for the
// service that the source names, and for no other with units of its own.
func TestNamedWriterSpeaksForItsServiceOnly(t *testing.T) {
	for service, told := range map[string]bool{"sshd": true, "sshd-work": true, "gitea": false, "my-gitea": false} {
		p, err := New(Options{Service: service, Journal: JournalOptions{All: true}})
		if err != nil {
			t.Fatal(err)
		}
		en := &source.Entry{Time: 1, Ident: []byte("sshd"), Unit: []byte("work.service")}
		if got := p.speaksFor(en, "sshd"); got != told {
			t.Errorf("%s: speaks for sshd: %v", service, got)
		}
	}
}

// TestCutAccessLines: of an access log the head and tail of a long line are read, for the
// address comes first; of any other source they are not.
func TestCutAccessLines(t *testing.T) {
	line := &source.Line{Cut: true, Text: []byte(`192.0.2.7 - - [20/Nov/2026:11:00:00 +0000] "GET /` + strings.Repeat("x", 9000) + ` HTTP/1.1" 401 5 "-" "-"`)}
	for service, told := range map[string]bool{"nginx": true, AccessLog: true, "sshd": false, "": false} {
		p, err := New(Options{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		var ev Event
		if got := p.Parse(line, 1, &ev); got != told || told && ev.Addr.String() != "192.0.2.7" {
			t.Errorf("%q: understood %v, from %v", service, got, ev.Addr)
		}
	}
}
