package migrate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/parse"
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

func TestOwnFilter(t *testing.T) {
	dir := config(t, map[string]string{
		"jail.local":           "[app]\nenabled = 1\nfilter = app[kind=login]\nlogpath = /srv/app/*.log tail\n /srv/it's.log\nmaxretry = 2\nbantime = -1\naction = iptables\n  sendmail-whois[name=x]\nignorecommand = /bin/x <ip>\n",
		"filter.d/common.conf": "[DEFAULT]\n_daemon = \\S*\n__prefix_line = \\s*(?:<_daemon>: )\n",
		"filter.d/app.conf": `[INCLUDES]
before = common.conf
[Definition]
_daemon = appd
re-login = ^%(__prefix_line)slogin of <F-USER>\S+</F-USER> from <HOST> failed
failregex = <re-<kind>>
            ^%(__prefix_line)stoken refused, client <ADDR>$
            ^%(__prefix_line)slogin (?!ok).* from <HOST>
            ^%(__prefix_line)swho is <DNS>
            ^%(__prefix_line)snobody here
            ^%(__prefix_line)sfirst<SKIPLINES>then <HOST>
ignoreregex =
`,
	})
	set, r := imported(t, dir)
	if len(set.Rules) != 3 {
		t.Fatalf("got %d rules, want one a pattern and one over both\n%s", len(set.Rules), r.Rules)
	}
	if got, want := set.Rules[0].Pattern.Text, `^login of (?P<user>\S+) from <ip> failed.*`; got != want {
		t.Errorf("got pattern %s, want %s", got, want)
	}
	if got := set.Rules[0].Pattern.Programs; !slices.Equal(got, []string{"appd"}) {
		t.Errorf("got programs %v, want appd", got)
	}
	if got := set.Rules[2].Match.Services; !slices.Equal(got, []string{"app-1", "app-2"}) {
		t.Errorf("the rule over both looks at %v", got)
	}
	var paths []string
	for _, s := range set.Sources {
		paths = append(paths, s.Path)
	}
	if want := []string{"/srv/app/*.log", "/srv/it's.log"}; !slices.Equal(paths, want) {
		t.Errorf("got files %q, want %q", paths, want)
	}
	n := notes(r)
	for _, want := range []string{"lookahead", "host names are not resolved", "contains no address", "several lines", "app.conf:6:",
		"ignorecommand", "sendmail-whois", "permanent ban"} {
		if !strings.Contains(n, want) {
			t.Errorf("nothing tells of %q:\n%s", want, n)
		}
	}
}

func TestIgnoreRegexOnlyObserves(t *testing.T) {
	dir := config(t, map[string]string{
		"jail.local":      "[x]\nenabled = true\nlogpath = /x.log\n",
		"filter.d/x.conf": "[Definition]\nfailregex = ^bad <HOST>$\nignoreregex = ^bad 192\n",
	})
	// No filter is named: fail2ban takes the jail's name by its defaults.
	os.WriteFile(filepath.Join(dir, "jail.conf"), []byte("[DEFAULT]\nfilter = %(__name__)s\n"), 0o644)
	set, r := imported(t, dir)
	if len(set.Rules) != 1 || !set.Rules[0].Observe {
		t.Errorf("a rule without its ignoreregex blocks:\n%s", r.Rules)
	}
}

func TestTranslate(t *testing.T) {
	for _, c := range []struct{ prefix, expr, want string }{
		{"", `^bad <HOST>$`, `^bad <ip>$`},
		{"", `^ \[error\] client <ADDR>`, `^\s*\[error\] client <ip>.*`},
		{"", `^<HOST> - - \[\] "x`, `^<ip> - - \[[^\]]*\] "x.*`},
		{"", `old (?P<host>\S+) style`, `old <ip> style.*`},
		{"", `a{,3} <HOST>`, `a{0,3} <ip>.*`},
		{`^pre <F-CONTENT>.+</F-CONTENT>$`, `^bad <HOST>$`, `^pre (?:bad <ip>)$`},
		{`^pre <F-CONTENT>.+</F-CONTENT>$`, `bad <HOST>`, `^pre (?:.*bad <ip>).*$`},
		{`^<F-MLFID>` + prefixMark + `</F-MLFID>x: <F-CONTENT>.+</F-CONTENT>$`, `^bad <HOST>`, `^x: (?:bad <ip>).*$`},
		{"", `^<F-USER>a|b</F-USER> <HOST> <F-USER>c</F-USER>`, `(?:^(?P<user>a|b) <ip> (?:c)).*`},
	} {
		got, err := translate(c.prefix, c.expr)
		if err != nil || got != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.expr, got, err, c.want)
		}
	}
	for expr, want := range map[string]error{
		`^x`: errNoAddress, `<HOST> <HOST>`: errTwo, `(?!x)<HOST>`: errLook, `(a)\1<HOST>`: errLook, `(?(a)b|c)<HOST>`: nil,
		`<F-NOFAIL>x</F-NOFAIL> <HOST>`: errNoFailure, `<DNS>`: errHostName, `a\nb <HOST>`: errMultiLine, `a<b>c <HOST>`: nil, `(<HOST>`: nil,
	} {
		_, err := translate("", expr)
		if err == nil || want != nil && err != want {
			t.Errorf("%s: got %v, want %v", expr, err, want)
		}
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

// TestStockServices: each service that a stock filter becomes is one that
// parsing gives.
func TestStockServices(t *testing.T) {
	known := parse.Services()
	for name, s := range stockFilters {
		if s.services == "" {
			continue
		}
		for _, one := range strings.Split(s.services, ",") {
			if !slices.Contains(known, strings.TrimSpace(one)) {
				t.Errorf("%s: no line is of the service %q", name, one)
			}
		}
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
	if len(set.Rules) < r.Jails {
		t.Errorf("%d jails became %d rules", r.Jails, len(set.Rules))
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

// TestJailsReadTheirOwnLogs: a pattern reads the files of its jail only, so that
// the clients of one program cannot trigger another's; a system log has no owner.
func TestJailsReadTheirOwnLogs(t *testing.T) {
	jail := "[%s]\nenabled = true\nfilter = x\nlogpath = %s\n"
	set, r := imported(t, config(t, map[string]string{
		"jail.local":      fmt.Sprintf(jail+jail+jail, "a", "/srv/a.log", "b", "/srv/b/*.log", "c", "/var/log/syslog"),
		"filter.d/x.conf": "[Definition]\nfailregex = ^refused <HOST>$\n",
	}))
	all, err := set.Custom()
	if err != nil || len(all) != 3 {
		t.Fatalf("%d patterns, %v\n%s", len(all), err, r.Rules)
	}
	for i, path := range []string{"/srv/a.log", "/srv/b/1.log", "/var/log/syslog"} {
		got := rules.Read(all, &source.Origin{Name: path}, &set.Sources[i], "")
		var names []string
		for _, p := range append(got.Bound, got.Free...) {
			names = append(names, p.Name())
		}
		want := []string{[]string{"a", "b", "c"}[i]}
		if i < 2 {
			want = append(want, "c")
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s is read by the patterns %v, want %v", path, names, want)
		}
	}
}
