package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

func compiledOf(t *testing.T, text string) *Compiled {
	t.Helper()
	set, problems := rules.LoadBytes("test", []byte(text), "")
	if set == nil {
		t.Fatal(problems)
	}
	compiled, err := Compile(set, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// said are the events that lines of an origin of that name give, in one batch.
func said(t *testing.T, compiled *Compiled, name string, lines ...string) (out []string) {
	t.Helper()
	o := &source.Origin{Name: name, Spec: -1}
	r, err := compiled.Reader(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Read(batch(o, true, lines...))
	r.Each(func(ev *parse.Event) {
		out = append(out, fmt.Sprintf("%s %s %s %s %s", time.Unix(0, ev.Time).UTC().Format("02T15:04:05"), ev.Service, ev.Outcome, ev.Addr, ev.User))
	})
	return out
}

// TestForgedLinesInOthersLogs puts lines of other services where a raw newline
// in a client's name would put them.
func TestForgedLinesInOthersLogs(t *testing.T) {
	compiled := compiledOf(t, "use: auto")
	forged := []string{
		"Non-existent login as x from 198.51.100.66",
		"Successful login as root from 198.51.100.66",
		"Nov 20 11:00:00 h sshd[5]: Failed password for root from 198.51.100.66 port 5 ssh2",
		"Nov 20 11:00:00 h dovecot: imap-login: Aborted login (auth failed, 1 attempts in 2 secs): user=<x>, method=PLAIN, rip=198.51.100.66, lip=192.0.2.1",
		"Nov 20 11:00:00 h proftpd[5]: h (198.51.100.66[198.51.100.66]) - USER x: no such user found from 198.51.100.66 [198.51.100.66] to 192.0.2.1:21",
		"2026-11-20 11:00:00 dovecot_login authenticator failed for (x) [198.51.100.66]: 535 Incorrect authentication data (set_id=x)",
		"\tNon-existent login as x from 198.51.100.66",
		"    Non-existent login as x from 198.51.100.66",
		`ip=198.51.100.66 msg="login failed" user=root`,
		`{"log":"Non-existent login as x from 198.51.100.66\n","stream":"stdout","time":"2026-11-20T11:00:00Z"}`,
		`{"message":"198.51.100.66 - x [20/Nov/2026:11:00:00 +0000] \"GET / HTTP/1.1\" 401 5","level":"info"}`,
		"1795172400.123     12 198.51.100.66 TCP_DENIED/407 3921 GET http://x/ - HIER_NONE/- text/html",
		`198.51.100.66 - x [1795172400.123] "GET / HTTP/1.1" 401 5 "-" "-"`,
	}
	for name, record := range map[string][2]string{
		"/var/log/nginx/error.log":                   {`2026/11/20 11:00:00 [error] 7#7: *9 user "x`, `" was not found in "/etc/nginx/htpasswd", client: 192.0.2.9, server: _, request: "GET / HTTP/1.1", host: "h"`},
		"/var/log/mysql/error.log":                   {"2026-11-20 11:00:00 9 [Warning] Access denied for user 'x", "'@'192.0.2.9' (using password: YES)"},
		"/var/log/postgresql/postgresql-15-main.log": {`2026-11-20 11:00:00.123 UTC [77] x`, `@db FATAL:  password authentication failed for user "x"`},
		"/var/log/exim4/mainlog":                     {"2026-11-20 11:00:00 login authenticator failed for (x", ") [192.0.2.9]: 535 Incorrect authentication data"},
		"/var/log/grafana/grafana.log":               {`t=2026-11-20T11:00:00+0000 lvl=eror msg="Invalid username or password`, `" logger=context error="User not found" remote_addr=192.0.2.9`},
		"/var/webmin/../log/unlisted.log":            {"2026-11-20 11:00:00 an application says x", " of 192.0.2.9"},
		"/var/log/proftpd/proftpd.log":               {"2026-11-20 11:00:00,123 h proftpd[5] h (192.0.2.9[192.0.2.9]): USER x", ": no such user found"},
	} {
		for _, f := range forged {
			if strings.Contains(name, "proftpd") && strings.Contains(f, "proftpd") || strings.Contains(name, "exim") && strings.Contains(f, "dovecot_login") ||
				strings.Contains(name, "unlisted") && strings.HasPrefix(f, "Nov") {
				continue // its own, or what a text file cannot tell
			}
			for _, ev := range said(t, compiled, name, record[0], f, record[1]) {
				if strings.Contains(ev, "198.51.100.66") || strings.Contains(ev, "success") {
					t.Errorf("in %s, %q is read as %s", name, f, ev)
				}
			}
		}
	}
}

const sourcedRules = `
use: [ssh, nginx]
sources:
  - auth
  - {file: /srv/app/app.log}
  - {file: /srv/web/access.log, format: combined}
  - {file: /srv/shop/shop.log, service: shop}
rules:
  - {name: free, pattern: 'bad login of (?P<user>\S+) from <ip>', bucket: {capacity: 5, leak: 1m}}
  - {name: by-source, match: {source: /srv/shop/*}, pattern: 'bad login of (?P<user>\S+) from <ip>', bucket: {capacity: 5, leak: 1m}}
  - {name: by-service, match: {service: sshd}, pattern: 'bad login of (?P<user>\S+) from <ip>', bucket: {capacity: 5, leak: 1m}}
  - {name: of-nginx, match: {service: nginx}, pattern: 'bad login of (?P<user>\S+) from <ip>', bucket: {capacity: 5, leak: 1m}}
`

// TestPatternsReadTheirSources: a pattern reads what its match names, else what
// the user listed without a service.
func TestPatternsReadTheirSources(t *testing.T) {
	compiled := compiledOf(t, sourcedRules)
	const text = "bad login of ann from 192.0.2.9"
	for _, c := range []struct{ name, line, want string }{
		{"/srv/app/app.log", "2026-11-20 11:00:00 " + text, "free"},
		{"/srv/app/app.log", text + " by web", "free"},
		{"/srv/app/app.log.2.gz", "2026-11-20 11:00:00 " + text, "free"},
		{"/srv/app/app.log", "  " + text, ""},
		{"/srv/app/app.log", "\t2026-11-20 11:00:00 " + text, ""},
		{"/srv/app/app.log", "2026-11-20 11:00:00 " + text + " and bad login of bob from 192.0.2.8", ""},
		{"/srv/app/app.log", "2026-11-20 11:00:00 bad login of ann from 198.51.100.66 bad login of from 192.0.2.8", ""},
		{"/srv/app/app.log", "Nov 20 11:00:00 h sshd[5]: Invalid user " + text + " from 192.0.2.8 port 5", "sshd"},
		{"/srv/app/app.log", "Nov 20 11:00:00 h stoplog[5]: " + text, ""},
		{"/srv/shop/shop.log", "2026-11-20 11:00:00 " + text, "by-source"},
		{"/var/log/auth.log", "Nov 20 11:00:00 h sshd[5]: Invalid user " + text + " from 192.0.2.9 port 5", "sshd by-service"},
		{"/var/log/auth.log", "Nov 20 11:00:00 h app[5]: " + text, "free"},
		{"/var/log/nginx/error.log", `2026/11/20 11:00:00 [error] 7#7: *9 ` + text, "nginx of-nginx"},
		{"/var/log/nginx/access.log", `192.0.2.7 - - [20/Nov/2026:11:00:00 +0000] "GET /` + text + ` HTTP/1.1" 200 5 "-" "-"`, "http"},
		{"/srv/web/access.log", `192.0.2.9 - - [20/Nov/2026:11:00:00 +0000] "GET /` + text + ` HTTP/1.1" 200 5 "-" "-"`, "http free"},
	} {
		var got []string
		for _, ev := range said(t, compiled, c.name, c.line) {
			f := strings.Fields(ev)
			got = append(got, f[1])
			if f[0] != "20T11:00:00" && !strings.HasPrefix(c.line, text) {
				t.Errorf("%s: %s: at %s", c.name, c.line, f[0])
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s: got %q, want %q", c.name, c.line, s, c.want)
		}
	}
}

// TestPatternsHaveTheLinesTime: six hits on six days are six days apart in every
// format, so that they never add up.
func TestPatternsHaveTheLinesTime(t *testing.T) {
	for _, format := range []string{
		`192.0.2.7 - - [%[1]d/Nov/2026:11:00:00 +0000] "GET /hit HTTP/1.1" 200 5 "-" "-"`,
		`192.0.2.7 - a"b [%[1]d/Nov/2026:11:00:00 +0000] "GET /hit HTTP/1.1" 200 5 "-" "-"`,
		`192.0.2.7 - a\"b" [%[1]d/Nov/2026:11:00:00 +0000] "GET /hit HTTP/1.1" 200 5 "-" "-"`,
		`192.0.2.7 - "ann [x] y" [%[1]d/Nov/2026:11:00:00 +0000] "GET /hit"x HTTP/1.1" 200 5 "-" "-"`,
		`192.0.2.7 - - [%[1]d/Nov/2026:11:00:00 +0000] "GET /hit"[01/Nov/2025:11:00:00 +0000] "x HTTP/1.1" 200 5 "-" "-"`,
		`www.example.org 192.0.2.7 - ann [%[1]d/Nov/2026:11:00:00 +0000] "GET /hit HTTP/1.1" 200 5`,
		`app %[1]d says hit [%[1]d/Nov/2026:11:00:00 +0000] for 192.0.2.7`,
		`{"level":"info","time":"2026-11-%[1]dT11:00:00Z","ip":"192.0.2.7","msg":"/hit"}`,
		`{"ts":%[2]d,"ip":"192.0.2.7","msg":"/hit"}`,
		`{"log":"hit 192.0.2.7\n","stream":"stdout","time":"2026-11-%[1]dT11:00:00Z"}`,
		`time=2026-11-%[1]dT11:00:00Z ip=192.0.2.7 msg=/hit`,
		`2026-11-%[1]dT11:00:00Z hit 192.0.2.7`,
		`Nov %[1]d 11:00:00 h app[5]: hit 192.0.2.7`,
		`<38>Nov %[1]d 11:00:00 h app[5]: hit 192.0.2.7`,
		`<38>1 2026-11-%[1]dT11:00:00Z h app 5 - - hit 192.0.2.7`,
		`[%[1]d/Nov/2026 11:00:00] hit 192.0.2.7`,
	} {
		for _, source := range []string{"{file: /srv/app.log}", "{file: /srv/app.log, format: combined}", "{file: /srv/app.log, format: json}"} {
			compiled := compiledOf(t, "use: []\nsources: ["+source+"]\nrules: [{name: hit, pattern: '192\\.0\\.2\\.7', key: all, outcome: failure, then: {notify: x}, bucket: {capacity: 5, leak: 1h}}]\nnotify: {x: {exec: [/bin/true]}}\n")
			for day := 10; day < 16; day++ {
				line := fmt.Sprintf(format, day, time.Date(2026, 11, day, 11, 0, 0, 0, time.UTC).Unix())
				if strings.HasSuffix(strings.SplitN(format, "%[2]d", 2)[0], `"ts":`) {
					line = fmt.Sprintf(strings.Replace(format, "%[2]d", "%d", 1), time.Date(2026, 11, day, 11, 0, 0, 0, time.UTC).Unix())
				}
				line, _, _ = strings.Cut(line, "%!(EXTRA")
				hits := 0
				for _, ev := range said(t, compiled, "/srv/app.log", line) {
					if f := strings.Fields(ev); f[1] == "hit" {
						if hits++; f[0] != fmt.Sprintf("%dT11:00:00", day) {
							t.Errorf("%s: %s: at %s", source, line, f[0])
						}
					}
				}
				if hits != 1 {
					t.Errorf("%s: %s: %d hits", source, line, hits)
				}
			}
		}
	}
}

// TestUsersOfOneBatch: 60 users from one address are 60 users, whether their
// lines arrive together or one by one.
func TestUsersOfOneBatch(t *testing.T) {
	const text = `
use: []
protect: {own: false, ssh_peers: false}
sources: [{file: /srv/app.log}]
rules:
  - {name: app, pattern: 'login failed user=(?P<user>\S+) ip=<ip>', key: [user, prefix], bucket: {capacity: 3, leak: 1m}}
  - {name: spread, match: {service: [app]}, window: {distinct: user, over: 50, within: 10m}}
`
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("2026-11-20T11:59:%02dZ login failed user=u%d%s ip=192.0.2.7", i, i, strings.Repeat("x", i%5)))
	}
	run := func(size int) (out []string) {
		compiled := compiledOf(t, text)
		l, _, err := ledger.Open("", noon, ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := New(compiled, detect.New(compiled.set, detect.Options{Seed: 1}), l)
		o := &source.Origin{Name: "/srv/app.log", Spec: 0}
		for from := 0; from < len(lines); from += size {
			out = append(out, take(t, m, batch(o, false, lines[from:min(from+size, len(lines))]...))...)
		}
		return out
	}
	want(t, "one batch", run(60), "192.0.2.0/28 spread 11:59:50")
	for _, size := range []int{1, 7} {
		if got := run(size); fmt.Sprint(got) != fmt.Sprint(run(60)) {
			t.Errorf("batches of %d: %v", size, got)
		}
	}
}
