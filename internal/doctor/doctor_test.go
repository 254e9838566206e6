package doctor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/protect"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fake is a running daemon.
type fake struct {
	status  control.Status
	err     error
	blocks  []control.Block
	allowed []control.AllowEntry
}

func (f fake) Status(context.Context) (control.Status, error)        { return f.status, f.err }
func (f fake) List(context.Context) ([]control.Block, error)         { return f.blocks, f.err }
func (f fake) Allowed(context.Context) ([]control.AllowEntry, error) { return f.allowed, f.err }

// reading knows lines that begin with a stamp and say "known".
func reading(rules.Source) (Reader, error) {
	return func(l *source.Line, _ time.Time) (int64, bool) {
		at, ok := stampOf(l.Text)
		if !ok || !bytes.Contains(l.Text, []byte("known")) {
			return 0, false
		}
		return at, true
	}, nil
}

func stampOf(line []byte) (int64, bool) {
	word, _, _ := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339, string(word))
	return at.UnixNano(), err == nil
}

// healthy is a machine on which nothing is to do.
func healthy(t *testing.T) *Machine {
	t.Helper()
	m := &Machine{
		Root: t.TempDir(), Now: now, EUID: 0, SSH: "192.0.2.10 50000 198.51.100.1 22", RulesName: "/etc/stoplog/rules.yaml", User: "stoplog",
		Set: &rules.Set{
			Sources: []rules.Source{{Kind: rules.File, Path: "/var/log/app*.log"}},
			Protect: rules.Protect{SSHPeers: true}, Rules: []*rules.Rule{{Name: "a"}},
			Allow: rules.List{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		},
		CanRead:  func(string, fs.FileInfo) bool { return true },
		Firewall: func(context.Context) (string, error) { return "nftables: the preferred backend; it works here", nil },
		Daemon: fake{status: control.Status{State: "ok", Rules: "/etc/stoplog/rules.yaml"},
			allowed: []control.AllowEntry{{Prefix: "192.0.2.0/24", Origin: "rules"}}},
		Reader: reading, Synced: func() (bool, error) { return true, nil },
		Protect: protect.Finder{Interfaces: func() ([]net.Addr, error) { return nil, nil }, Alive: func(int32) bool { return true }},
	}
	log(t, m, "/var/log/app.log", 30, "known", now)
	return m
}

// log writes n lines, the last of them written at the given time.
func log(t *testing.T, m *Machine, path string, n int, text string, stamp time.Time) {
	t.Helper()
	p := filepath.Join(m.Root, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	line := stamp.Format(time.RFC3339) + " " + text + "\n"
	if err := os.WriteFile(p, []byte(strings.Repeat(line, n)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(p, now, now); err != nil {
		t.Fatal(err)
	}
}

func touch(t *testing.T, m *Machine, path string) { t.Helper(); log(t, m, path, 0, "", now) }

func TestHealthy(t *testing.T) {
	m := healthy(t)
	for _, f := range Examine(t.Context(), *m) {
		if f.Severity != OK || f.Step != 0 {
			t.Errorf("on a healthy machine: %+v", f)
		}
	}
}

// TestFinds breaks one thing at a time and wants it told, once.
func TestFinds(t *testing.T) {
	for _, c := range []struct {
		name     string
		broken   func(t *testing.T, m *Machine)
		severity Severity
		area     string
		found    string // a part of it
		command  string // a part of it
	}{
		{"a mistake in the rules", func(t *testing.T, m *Machine) {
			m.Problems, m.Set = []rules.Problem{{File: "rules.yaml", Line: 7, Msg: "unknown word"}}, nil
		}, Broken, "rules", "unknown word", "stoplog check /etc/stoplog/rules.yaml"},
		{"a warning", func(t *testing.T, m *Machine) {
			m.Set.Warnings = []rules.Problem{{Msg: "matches everything", Warning: true}}
		}, Warning, "rules", "everything", "stoplog check"},
		{"not root", func(t *testing.T, m *Machine) { m.EUID = 1000 }, Note, "rights", "as user 1000", "sudo"},
		{"nobody", func(t *testing.T, m *Machine) { m.User = "nobody" }, Warning, "rights", "no user stoplog", "adduser"},
		{"no such file", func(t *testing.T, m *Machine) {
			m.Set.Sources = append(m.Set.Sources, rules.Source{Kind: rules.File, Path: "/srv/x y.log"})
		}, Warning, "logs", "/srv/x y.log: no such file", "ls -l /srv"},
		{"no log at all", func(t *testing.T, m *Machine) { os.Remove(m.path("/var/log/app.log")); m.Set.Sources[0].Ready = "x" }, Broken, "logs", "no readable log was found", "stoplog parse"},
		{"a format that nobody knows", func(t *testing.T, m *Machine) { log(t, m, "/var/log/app-2.log", 30, "?", now) }, Warning, "logs", "/var/log/app-2.log: none of the last 30", "stoplog parse /var/log/app-2.log"},
		{"too few lines to judge", func(t *testing.T, m *Machine) { log(t, m, "/var/log/app-2.log", 3, "?", now) }, Note, "logs", "too few", ""},
		{"a pattern of the rules' own", func(t *testing.T, m *Machine) {
			log(t, m, "/var/log/app-2.log", 30, "?", now)
			m.Set.Rules[0].Pattern = &rules.Pattern{}
		}, Note, "logs", "own patterns", ""},
		{"an empty log", func(t *testing.T, m *Machine) { touch(t, m, "/var/log/app-2.log") }, Note, "logs", "is empty", ""},
		{"a log of another zone", func(t *testing.T, m *Machine) {
			log(t, m, "/var/log/app.log", 30, "known", now.Add(-2*time.Hour))
		}, Warning, "logs", "2h behind", "stoplog parse"},
		{"a log of the future", func(t *testing.T, m *Machine) {
			log(t, m, "/var/log/app.log", 30, "known", now.Add(7*time.Minute))
		}, Warning, "logs", "7m ahead", "stoplog parse"},
		{"a log that the daemon's user may not read", func(t *testing.T, m *Machine) {
			log(t, m, "/var/log/app-2.log", 1, "known", now)
			m.CanRead = func(p string, fi fs.FileInfo) bool { return fi.Name() != "app-2.log" }
		}, Broken, "logs", "app-2.log cannot be read by stoplog", "chgrp adm /var/log/app-2.log"},
		{"a format that is wrong", func(t *testing.T, m *Machine) {
			m.Reader = func(rules.Source) (Reader, error) { return nil, errors.New("bad format") }
		}, Broken, "logs", "bad format", "stoplog check"},
		{"no pipe", func(t *testing.T, m *Machine) {
			m.Set.Sources = append(m.Set.Sources, rules.Source{Kind: rules.Pipe, Path: "/run/it's"})
		}, Warning, "logs", "does not exist", `mkfifo '/run/it'\''s'`},
		{"no logins", func(t *testing.T, m *Machine) {
			m.Set.Sources = append(m.Set.Sources, rules.Source{Kind: rules.Auth})
		}, Warning, "logs", "neither a journal nor a log", "rsyslog"},
		{"a clock that nothing keeps", func(t *testing.T, m *Machine) { m.Synced = func() (bool, error) { return false, nil } }, Warning, "clock", "not synchronised", "apt install chrony"},
		{"a clock that nothing keeps, with systemd", func(t *testing.T, m *Machine) {
			m.Synced = func() (bool, error) { return false, nil }
			touch(t, m, "/run/systemd/system/x")
		}, Warning, "clock", "not synchronised", "timedatectl set-ntp true"},
		{"a clock of which nothing is known", func(t *testing.T, m *Machine) {
			m.Synced = func() (bool, error) { return false, errors.ErrUnsupported }
		}, Note, "clock", "cannot find out", ""},
		{"a clock long past", func(t *testing.T, m *Machine) { m.Now = time.Date(1970, 1, 1, 0, 0, 9, 0, time.UTC) }, Broken, "clock", "1970", "chrony"},
		{"no firewall", func(t *testing.T, m *Machine) {
			m.Firewall = func(context.Context) (string, error) { return "", errors.New("no usable firewall") }
		}, Broken, "firewall", "no usable firewall", "apt install nftables"},
		{"no right", func(t *testing.T, m *Machine) {
			m.Firewall = func(context.Context) (string, error) {
				return "", fmt.Errorf("no usable firewall: %w", &os.SyscallError{Syscall: "sendmsg", Err: syscall.EPERM})
			}
		}, Broken, "firewall", "not permitted", "docker run --cap-add NET_ADMIN"},
		{"containers", func(t *testing.T, m *Machine) { touch(t, m, "/run/docker.sock") }, Warning, "firewall", "docker", "reload"},
		{"a similar program", func(t *testing.T, m *Machine) { touch(t, m, "/run/fail2ban/fail2ban.sock") }, Note, "firewall", "fail2ban is running", "disable --now fail2ban"},
		{"no daemon", func(t *testing.T, m *Machine) { m.Daemon = fake{err: control.ErrNoDaemon} }, Warning, "daemon", "stoplog is not running", "stoplog run --dry-run"},
		{"no daemon, though installed", func(t *testing.T, m *Machine) {
			m.Daemon = fake{err: control.ErrNoDaemon}
			touch(t, m, "/run/systemd/system/x")
			touch(t, m, "/lib/systemd/system/stoplog.service")
		}, Warning, "daemon", "stoplog is not running", "systemctl enable --now stoplog"},
		{"a daemon that does not answer", func(t *testing.T, m *Machine) { m.Daemon = fake{err: errors.New("reset by peer")} }, Broken, "daemon", "reset", "stoplog status"},
		{"a daemon in trouble", func(t *testing.T, m *Machine) {
			m.change(func(f *fake) { f.status.Trouble = []string{"the wall fell"} })
		}, Broken, "daemon", "the wall fell", "stoplog status"},
		{"a dry run", func(t *testing.T, m *Machine) { m.change(func(f *fake) { f.status.DryRun = true }) }, Note, "daemon", "--dry-run", "stoplog run"},
		{"other rules", func(t *testing.T, m *Machine) { m.change(func(f *fake) { f.status.Rules = "built-in" }) }, Note, "daemon", "other rules: built-in", ""},
		{"nobody from elsewhere", func(t *testing.T, m *Machine) { m.SSH = "" }, Note, "lock-out", "no remote SSH session", "allow add"},
		{"a peer that is not allowed", func(t *testing.T, m *Machine) { m.SSH = "203.0.113.9 1 2 3" }, Note, "lock-out", "203.0.113.9 is protected while", "stoplog allow add 203.0.113.9 --ttl 7d"},
		{"a peer that nothing protects", func(t *testing.T, m *Machine) {
			m.SSH, m.Set.Protect.SSHPeers = "2001:db8::9%eth0 1 2 3", false
		}, Warning, "lock-out", "2001:db8::9 is not on the allowlist", "allow add 2001:db8::9"},
		{"a peer that is blocked", func(t *testing.T, m *Machine) {
			m.SSH = "::ffff:203.0.113.9 1 2 3"
			m.change(func(f *fake) { f.blocks = []control.Block{{Prefix: "203.0.113.0/28", Rule: "ssh-login"}} })
		}, Broken, "lock-out", "is in the blocked prefix 203.0.113.0/28", "stoplog unblock 203.0.113.0/28 && stoplog allow add 203.0.113.9"},
		{"another who is logged in", func(t *testing.T, m *Machine) { login(t, m, "203.0.113.7") }, Note, "lock-out", "203.0.113.7 is protected while", "allow add 203.0.113.7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := healthy(t)
			c.broken(t, m)
			n := 0
			found := Examine(t.Context(), *m)
			for _, f := range found {
				if f.Severity == c.severity && f.Area == c.area && strings.Contains(f.Found, c.found) {
					n++
					if !strings.Contains(f.Command, c.command) || (f.Step == 0) != (f.Do == "") || c.command != "" && f.Do == "" {
						t.Errorf("%+v: want the command %q and a step", f, c.command)
					}
				}
				if strings.Contains(f.Found+f.Command, m.Root) {
					t.Errorf("%+v shows where the test is", f)
				}
			}
			if n != 1 {
				t.Errorf("told %d times, want once: %+v", n, found)
			}
			if Sick(found) != (c.severity == Broken) {
				t.Errorf("sick %v, though it is a %s: %+v", Sick(found), c.severity, found)
			}
		})
	}
}

func (m *Machine) change(do func(*fake)) {
	f := m.Daemon.(fake)
	do(&f)
	m.Daemon = f
}

// login writes a utmp(5) record of a session.
func login(t *testing.T, m *Machine, addr string) {
	t.Helper()
	b := make([]byte, 384)
	binary.NativeEndian.PutUint16(b, 7)
	binary.NativeEndian.PutUint32(b[4:], 1)
	copy(b[348:], netip.MustParseAddr(addr).AsSlice())
	touch(t, m, "/run/utmp")
	if err := os.WriteFile(m.path("/run/utmp"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestAuthFile reads the log of logins as the daemon would.
func TestAuthFile(t *testing.T) {
	m := healthy(t)
	m.Set.Sources = []rules.Source{{Kind: rules.Auth}}
	m.Stamp = stampOf
	log(t, m, "/var/log/auth.log", 25, "known", now.Add(-time.Hour))
	var got []string
	for _, f := range Examine(t.Context(), *m) {
		if f.Area == "logs" {
			got = append(got, fmt.Sprint(f.Severity, " ", f.Found))
		}
	}
	if want := "ok /var/log/auth.log: 25 of the last 25 lines understood"; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOrder: what locks somebody out comes first, what is only good to know
// last.
func TestOrder(t *testing.T) {
	m := healthy(t)
	m.SSH = "203.0.113.9 1 2 3"
	m.change(func(f *fake) {
		f.blocks = []control.Block{{Prefix: "203.0.113.0/28"}}
		f.status.DryRun, f.status.Trouble = true, []string{"x"}
	})
	m.User = "nobody"
	m.Synced = func() (bool, error) { return false, nil }
	m.Problems = []rules.Problem{{Msg: "mistake"}}
	steps := map[int]string{}
	for _, f := range Examine(t.Context(), *m) {
		if f.Step > 0 {
			steps[f.Step] = f.Area
		}
	}
	want := []string{"lock-out", "rules", "daemon", "rights", "clock", "daemon"}
	for i, area := range want {
		if steps[i+1] != area {
			t.Errorf("step %d is %q, want %q", i+1, steps[i+1], area)
		}
	}
	if len(steps) != len(want) {
		t.Errorf("%d steps, want %d: %v", len(steps), len(want), steps)
	}
}

func TestBounds(t *testing.T) {
	m := healthy(t)
	for i := range 3 * maxTold {
		m.Problems = append(m.Problems, rules.Problem{Line: i, Msg: "mistake"})
		m.Set.Warnings = append(m.Set.Warnings, rules.Problem{Line: i, Msg: "warning"})
	}
	for i := range 2 * maxFiles {
		log(t, m, fmt.Sprintf("/var/log/app%d.log", i), 30, "?", now)
	}
	if n := len(Examine(t.Context(), *m)); n > 2*maxTold+maxFiles+15 {
		t.Errorf("%d findings", n)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		name, text  string
		lines       int
		first, last string
	}{
		{"empty", "", 0, "", ""},
		{"one", "a\n", 1, "a", "a"},
		{"half a line at the end", "a\nb", 2, "a", "b"},
		{"many", strings.Repeat("x\n", 5000) + "end\n", maxLines, "x", "end"},
		{"large", strings.Repeat("y", maxBytes) + "\nend\n", 1, "end", "end"},
		{"one endless line", strings.Repeat("y", 2*maxBytes), 0, "", ""},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := tail(path)
		if err != nil || len(got) != c.lines || c.lines > 0 && (string(got[0]) != c.first || string(got[len(got)-1]) != c.last) {
			t.Errorf("%s: %d lines %v, want %d from %q to %q", c.name, len(got), err, c.lines, c.first, c.last)
		}
	}
}

func TestSuspicious(t *testing.T) {
	for off, want := range map[time.Duration]bool{
		0: false, time.Minute: false, 2 * time.Minute: true, 5 * time.Hour: true, // ahead: never right
		-time.Minute: false, -7 * time.Minute: false, -3 * 24 * time.Hour: false, -47 * time.Minute: false, // touched later
		-time.Hour: true, -2*time.Hour - 3*time.Second: true, -5*time.Hour - 45*time.Minute: true, -14 * time.Hour: true,
	} {
		if got := suspicious(off); got != want {
			t.Errorf("suspicious(%s) = %v, want %v", off, got, want)
		}
	}
}

func TestRealMachine(t *testing.T) {
	if ok, err := ClockSynced(); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("ClockSynced = %v, %v", ok, err)
	}
	if HasACL("/") {
		t.Log("/ has an ACL")
	}
	if HasACL("/nonexistent") {
		t.Error("a file that is not there has an ACL")
	}
}
