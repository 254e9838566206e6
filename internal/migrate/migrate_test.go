package migrate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// config writes files of a fail2ban configuration and returns its folder.
func config(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// imported is the rules of a configuration, which must be without a mistake.
func imported(t *testing.T, dir string) (*rules.Set, Result) {
	t.Helper()
	r, err := Fail2ban(dir)
	if err != nil {
		t.Fatal(err)
	}
	set, problems := rules.LoadBytes("imported", []byte(r.Rules), "")
	if set == nil {
		t.Fatalf("the rules have mistakes: %v\n%s", problems, r.Rules)
	}
	return set, r
}

func notes(r Result) string {
	var b strings.Builder
	for _, n := range r.Notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}

func TestJailBecomesRule(t *testing.T) {
	dir := config(t, map[string]string{
		"jail.conf": `# defaults
[INCLUDES]
before = paths.conf
[DEFAULT]
bantime  = 10m
findtime = 600
maxretry = 5
filter = %(__name__)s[mode=%(mode)s]
mode = normal
ignoreip = 127.0.0.1/8 ::1
[sshd]
port = ssh
logpath = %(sshd_log)s
[vsftpd]
enabled = false
logpath = /var/log/vsftpd.log
`,
		"paths.conf":      "[DEFAULT]\nsshd_log = /var/log/auth.log\n",
		"jail.d/a.conf":   "[sshd]\nenabled = true\nmaxretry = 7\n",
		"jail.local":      "[DEFAULT]\nignoreip = %(known/ignoreip)s 192.0.2.0/24 2001:db8::1 office.example\n[sshd]\nbantime = 1d 12h\nbantime.increment = true\nbantime.maxtime = 5w\n",
		"jail.d/z.local":  "[sshd]\nfindtime = 1h ; an hour\n",
		"filter.d/x.conf": "",
	})
	set, r := imported(t, dir)
	if r.Jails != 1 || len(set.Rules) != 1 {
		t.Fatalf("got %d jails and %d rules, want 1 and 1\n%s", r.Jails, len(set.Rules), r.Rules)
	}
	rule := set.Rules[0]
	l := rule.Levels[0]
	if rule.Name != "sshd" || l.Kind != rules.Window || l.Over != 6 || l.Within != time.Hour {
		t.Errorf("got rule %s, level %+v; want seven within an hour", rule.Name, l)
	}
	if ttl := l.TTL; ttl != 36*time.Hour || l.Multiply != 2 || l.Max != 5*7*24*time.Hour {
		t.Errorf("got ttl %s × %g up to %s, want 36h × 2 up to 5w", ttl, l.Multiply, l.Max)
	}
	if len(rule.Ports) != 1 || rule.Ports[0].From != 22 {
		t.Errorf("got ports %v, want 22", rule.Ports)
	}
	if len(set.Sources) != 1 || set.Sources[0].Kind != rules.Auth {
		t.Errorf("got sources %+v, want auth", set.Sources)
	}
	var allow []string
	for _, p := range set.Allow.Prefixes {
		allow = append(allow, p.String())
	}
	if want := []string{"192.0.2.0/24", "2001:db8::1/128"}; !slices.Equal(allow, want) {
		t.Errorf("got allow %v, want %v", allow, want)
	}
	if n := notes(r); !strings.Contains(n, "jail.local:2: ignoreip \"office.example\"") {
		t.Errorf("the name in ignoreip is not told of with its place:\n%s", n)
	}
}

func TestTimes(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"600": 10 * time.Minute, "10m": 10 * time.Minute, "1d12h": 36 * time.Hour, "1 week": 168 * time.Hour, "1w 1d": 192 * time.Hour,
		"-1": maxTTL, "1.5h": 90 * time.Minute, "999y": maxTTL,
	} {
		if got, ok := parseTime(in); !ok || got != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "soon", "5 parsecs", "0", "..", "1..2h"} {
		if got, ok := parseTime(in); ok {
			t.Errorf("%q: got %s, want none", in, got)
		}
	}
}

func TestNoConfiguration(t *testing.T) {
	if _, err := Fail2ban(t.TempDir()); err == nil {
		t.Error("an empty folder was imported")
	}
}

func TestLoops(t *testing.T) {
	dir := config(t, map[string]string{
		"jail.conf":       "[INCLUDES]\nbefore = jail.conf\n[x]\nenabled = true\nfilter = x\nlogpath = %(a)s\na = %(b)s\nb = %(a)s%(a)s\n",
		"filter.d/x.conf": "[INCLUDES]\nafter = x.conf\n[Definition]\nfailregex = <a> <HOST>\na = <b><b>\nb = <a><a>\n",
	})
	r, err := Fail2ban(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := notes(r); !strings.Contains(n, "includes this one") || !strings.Contains(n, "too deeply") {
		t.Errorf("loops are not told of:\n%s", n)
	}
}

// TestDebian imports the configuration of Debian's package whole: as it is,
// and with every jail on.
func TestDebian(t *testing.T) {
	const etc = "/etc/fail2ban"
	if _, err := os.Stat(etc + "/jail.conf"); err != nil {
		if os.Getenv("STOPLOG_REQUIRE_KERNEL_TESTS") != "" {
			t.Fatal("needs Debian's package fail2ban")
		}
		t.Skip("needs Debian's package fail2ban")
	}
	set, r := imported(t, etc)
	if r.Jails == 0 || set.Find("sshd") == nil {
		t.Errorf("sshd, on by Debian's default, is no rule:\n%s", r.Rules)
	}
	all := t.TempDir()
	names, _ := filepath.Glob(etc + "/*")
	for _, n := range names {
		if err := os.Symlink(n, filepath.Join(all, filepath.Base(n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(all, "jail.local"), []byte("[DEFAULT]\nenabled = true\n"), 0o644); err != nil {
		t.Skip("there is a jail.local here")
	}
	set, r = imported(t, all)
	told := notes(r)
	for _, name := range readJails(all).Order {
		if name == "DEFAULT" || set.Find(name) != nil || strings.Contains(told, " "+name) {
			continue
		}
		t.Errorf("the jail %s is neither a rule nor told of", name)
	}
	t.Logf("%d jails: %d rules, %d notes", r.Jails, len(set.Rules), len(r.Notes))
	if len(set.Rules)+len(r.Notes) < r.Jails || len(set.Rules) < r.Jails-3 {
		t.Errorf("%d jails became %d rules: %s", r.Jails, len(set.Rules), told)
	}
}

// FuzzFilter: whatever a filter says, the rules that come out are without a
// mistake.
func FuzzFilter(f *testing.F) {
	f.Add("^%(__prefix_line)sbad <F-USER>.*</F-USER> from <HOST>$\n ^x <ADDR>", "^pre<F-CONTENT>.+</F-CONTENT>$", "/var/log/x'\"\\.log", "1h")
	f.Add("<a><b", "%(x", "{", "-1")
	f.Fuzz(func(t *testing.T, expr, prefix, log, ban string) {
		dir := config(t, map[string]string{
			"jail.conf":       "[it's]\nenabled = true\nfilter = x\nbantime = " + ban + "\nlogpath = " + log + "\n",
			"filter.d/x.conf": "[Definition]\nprefregex = " + prefix + "\nfailregex = " + expr + "\n",
		})
		imported(t, dir)
	})
}

// TestPortsOfActions: a ban closes the jail's ports, or the whole host when the
// ban action knows no ports; only the first needs a word about lists.
func TestPortsOfActions(t *testing.T) {
	for action, ports := range map[string]int{"": 1, "iptables-multiport": 1, "nftables[type=multiport]": 1, "iptables-allports": 0, "hostsdeny": 0, "ufw": 0, "route": 0, "nftables[type=allports]": 0} {
		dir := t.TempDir()
		conf := "[DEFAULT]\nbackend = systemd\nbantime = 1h\nfindtime = 10m\nmaxretry = 5\n"
		if action != "" {
			conf += "banaction = " + action + "\n"
		}
		conf += "[sshd]\nenabled = true\nfilter = sshd\nport = ssh\n"
		if err := os.WriteFile(filepath.Join(dir, "jail.conf"), []byte(conf), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Fail2ban(dir)
		if err != nil {
			t.Fatal(err)
		}
		set, problems := rules.LoadBytes("x", []byte(r.Rules), "")
		if set == nil || len(set.Rules) != 1 {
			t.Fatalf("%s: %v\n%s", action, problems, r.Rules)
		}
		if got := len(set.Rules[0].Ports); got != ports || strings.Contains(r.Rules, "ports: any") != (ports > 0) {
			t.Errorf("%q: %d ranges of ports, want %d\n%s", action, got, ports, r.Rules)
		}
	}
}

// TestFilterRunsAsItIs: a filter that stoplog does not read itself, or that was
// edited, becomes a pattern that runs it, on the jail's own logs only.
func TestFilterRunsAsItIs(t *testing.T) {
	dir := config(t, map[string]string{
		"jail.local": `[DEFAULT]
filter = %(__name__)s
ignoreip = 192.0.2.128/25
[app]
enabled = 1
filter = app[mode=login, kind="x, y"]
logpath = /srv/app/*.log tail
  /srv/it's.log
logtimezone = UTC+0200
maxretry = 2
bantime = -1
ignoreip = 198.51.100.1
[sshd]
enabled = true
logpath = /var/log/auth.log
[own]
enabled = true
logpath = /srv/own.log
usedns = no
failregex = %(known/failregex)s
            ^more <HOST>$
[journal]
enabled = true
filter = app
backend = systemd
journalmatch = _SYSTEMD_UNIT=app.service + SYSLOG_IDENTIFIER=app
[gone]
enabled = true
logpath = /srv/gone.log
[broken]
enabled = true
logpath = /srv/broken.log
`,
		"filter.d/app.conf":    "[Definition]\nfailregex = ^(?!ok)bad \\[<kind>\\] by <HOST>\nkind = z\nmode = normal\nignoreregex = 192\n",
		"filter.d/sshd.conf":   "[Definition]\nfailregex = ^mine <HOST>$\n",
		"filter.d/own.conf":    "[Definition]\nfailregex = ^first <HOST>$\n",
		"filter.d/broken.conf": "[Definition]\n\nfailregex = ^(first <HOST>$\n",
	})
	set, r := imported(t, dir)
	if len(set.Rules) != 4 {
		t.Fatalf("got %d rules, want 4\n%s\n%s", len(set.Rules), r.Rules, notes(r))
	}
	for _, rule := range set.Rules {
		if rule.Pattern == nil || rule.Pattern.Filter == nil {
			t.Errorf("%s does not run its filter\n%s", rule.Name, r.Rules)
		}
		if rule.Prefix.V4 != 32 || rule.Prefix.V6 != 128 {
			t.Errorf("%s blocks /%d and /%d, want single addresses", rule.Name, rule.Prefix.V4, rule.Prefix.V6)
		}
	}
	app := set.Find("app")
	if got := app.Pattern.Of; got.Mode != "login" || got.With["kind"] != "x, y" {
		t.Errorf("got the filter %+v, want its mode and parameters", got)
	}
	if got := set.Find("journal").Pattern.Of.With["logtype"]; got != "journal" {
		t.Errorf("got logtype %q of a jail that reads the journal", got)
	}
	if got := set.Find("own").Pattern.Of.With; got["failregex"] != "^first <HOST>$\n^more <HOST>$" || got["usedns"] != "no" {
		t.Errorf("got %q, want the jail's own expressions", got)
	}
	for path, want := range map[string][]string{"/srv/app/1.log": {"app"}, "/srv/it's.log": {"app"}, "/var/log/auth.log": {"sshd"}, "/srv/own.log": {"own"}, "/srv/x.log": nil, "journal": {"journal"}} {
		var got []string
		for _, f := range set.Filters(&source.Origin{Name: path}) {
			got = append(got, f.Rule)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is read by %v, want %v", path, got, want)
		}
	}
	f := set.Filters(&source.Origin{Name: "journal"})[0]
	for unit, want := range map[string]bool{"app.service": true, "other.service": false} {
		if got := f.Admits(&source.Entry{Unit: []byte(unit), Ident: []byte("x")}); got != want {
			t.Errorf("an entry of %s: got %v, want %v", unit, got, want)
		}
	}
	if z := set.Sources[0].Zone; z == nil || z.String() != "Etc/GMT-2" {
		t.Errorf("got zone %v, want that of UTC+0200", z)
	}
	if !strings.Contains(r.Rules, "ip: {not: ['198.51.100.1/32']}") || len(set.Allow.Prefixes) != 0 {
		t.Errorf("what one jail ignores is not a condition of its rule alone:\n%s", r.Rules)
	}
	n := notes(r)
	for _, want := range []string{"jail gone is skipped", "broken.conf:3: jail broken is skipped: failregex", "permanent ban"} {
		if !strings.Contains(n, want) {
			t.Errorf("no note says %q:\n%s", want, n)
		}
	}
}

// TestStockSSHD: sshd's filter as fail2ban brings it is read by stoplog itself.
func TestStockSSHD(t *testing.T) {
	text, err := os.ReadFile("/etc/fail2ban/filter.d/sshd.conf")
	if err != nil {
		t.Skip("fail2ban is not installed")
	}
	common, _ := os.ReadFile("/etc/fail2ban/filter.d/common.conf")
	for local, native := range map[string]bool{"": true, "[Definition]\nmaxlines = 1\n": false} {
		files := map[string]string{
			"jail.local":           "[sshd]\nenabled = true\nfilter = sshd[mode=aggressive]\nlogpath = /var/log/auth.log\n",
			"filter.d/sshd.conf":   string(text),
			"filter.d/common.conf": string(common),
			"filter.d/.none":       "",
		}
		if local != "" {
			files["filter.d/sshd.local"] = local
		}
		set, r := imported(t, config(t, files))
		if got := set.Rules[0].Pattern == nil; got != native {
			t.Errorf("with the override %q: read by stoplog itself: %v, want %v\n%s%s", local, got, native, r.Rules, notes(r))
		}
	}
}

// TestEveryKey: each key of jail.conf(5) becomes part of a rule, or a note says
// what became of it.
func TestEveryKey(t *testing.T) {
	for key, value := range map[string]string{
		"logencoding": "latin1", "logtimezone": "Mars", "banaction": "iptables-allports", "banaction_allports": "x", "action": "sendmail-whois[name=x]",
		"ignoreself": "false", "ignoreip": "192.0.2.1", "ignorecommand": "/bin/true", "ignorecache": "key=x", "bantime": "7h", "findtime": "7m", "maxretry": "7",
		"usedns": "yes", "prefregex": "^<F-CONTENT>.*</F-CONTENT>$", "failregex": "^b <HOST>$", "ignoreregex": "^x", "maxmatches": "9", "datepattern": "{^LN-BEG}EPOCH",
		"maxlines": "4", "journalmatch": "_UID=0", "port": "7", "protocol": "udp", "chain": "MINE", "bantime.increment": "false", "bantime.factor": "3", "bantime.formula": "x",
		"bantime.multipliers": "1 2", "bantime.maxtime": "9h", "bantime.rndtime": "5m", "bantime.overalljails": "true", "mode": "loud", "destemail": "a@b.example",
		"sender": "c@d.example", "mta": "mail", "fail2ban_agent": "x", "knocking_url": "/k", "skip_if_nologs": "true", "surprise": "yes", "backend": "systemd", "filter": "y[mode=loud]",
	} {
		dir := config(t, map[string]string{
			"jail.conf":       "[DEFAULT]\nmode = normal\nbantime.increment = true\n[x]\nenabled = true\nfilter = y[mode=%(mode)s]\nlogpath = /srv/x.log\n",
			"filter.d/y.conf": "[Definition]\nfailregex = ^a <HOST>$\njournalmatch = _UID=7\n",
		})
		_, before := imported(t, dir)
		if err := os.WriteFile(filepath.Join(dir, "jail.local"), []byte("[x]\n"+key+" = "+value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		after, err := Fail2ban(dir)
		if err != nil {
			t.Fatal(err)
		}
		silent := map[string]bool{ // what they say is what the rule does without them
			"banaction": true, "banaction_allports": true, "protocol": true, // without ports
		}
		if after.Rules == before.Rules && !strings.Contains(notes(after), key) && !silent[key] {
			t.Errorf("%s = %s changes nothing and is not reported\n%s", key, value, notes(after))
		}
	}
}
