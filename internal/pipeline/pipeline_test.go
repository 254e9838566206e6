package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

const testRules = `
use: []
protect: {own: false, ssh_peers: false}
sources:
  - {file: /srv/app/log/app*.log, format: '$status|$remote_addr|$time_local|"$request"|'}
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    bucket: {capacity: 5, leak: 1m}
  - name: my-app
    pattern: 'login failed user=(?P<user>\S+) ip=(?P<ip>\S+)$'
    bucket: {capacity: 2, leak: 1m}
  - name: watch
    pattern: 'disk is full'
    key: all
    then: [{notify: ops}]
`

func machine(t *testing.T) *Machine {
	t.Helper()
	set, problems := rules.LoadBytes("test", []byte(testRules), "")
	if set == nil {
		t.Fatal(problems)
	}
	compiled, err := Compile(set, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := ledger.Open("", noon, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return New(compiled, detect.New(set, detect.Options{Seed: 1}), l)
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func batch(o *source.Origin, backlog bool, lines ...string) *source.Batch {
	b := &source.Batch{Origin: o, Arrival: noon, Backlog: backlog}
	for i, l := range lines {
		b.Lines = append(b.Lines, source.Line{Text: []byte(l), Number: int64(i + 1)})
	}
	return b
}

// failures are n failed logins from addr, every second from at on.
func failures(n int, addr string, at time.Time) []string {
	var ls []string
	for i := range n {
		ls = append(ls, fmt.Sprintf("%s h sshd[%d]: Failed password for bob from %s port 22 ssh2", at.Add(time.Duration(i)*time.Second).Format(time.RFC3339), i+1, addr))
	}
	return ls
}

// take runs a batch and lists the blocks it led to.
func take(t *testing.T, m *Machine, b *source.Batch) (blocks []string) {
	t.Helper()
	err := m.Take(b, noon, func(br *detect.Breach, o ledger.Outcome) {
		for _, c := range o.Changes {
			blocks = append(blocks, fmt.Sprintf("%s %s %s", c.Block.Prefix, br.Rule, c.Block.Since.UTC().Format(time.TimeOnly)))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// TestClock: a wrong clock or zone must not disarm us, and old lines are
// judged by when they happened.
func TestClock(t *testing.T) {
	o := &source.Origin{Name: "auth.log", Spec: -1}
	m := machine(t)
	want(t, "live, right stamps", take(t, m, batch(o, false, failures(6, "192.0.2.1", noon.Add(-10*time.Second))...)), "192.0.2.0/28 ssh-login 11:59:55")
	if s := m.Stats("auth.log").Skew; s != 0 {
		t.Errorf("skew = %s of right stamps", s)
	}
	// Two hours behind, an hour apart: by their stamps they would never breach.
	var slow []string
	for i := range 6 {
		slow = append(slow, failures(1, "192.0.2.99", noon.Add(-time.Duration(8-i)*time.Hour))...)
	}
	for i := range slow {
		slow[i] = strings.Replace(slow[i], "sshd[1]", fmt.Sprintf("sshd[%d]", 100+i), 1)
	}
	want(t, "live, a clock far off", take(t, m, batch(o, false, slow...)), "192.0.2.96/28 ssh-login 12:00:00")
	if s := m.Stats("auth.log").Skew; s != -3*time.Hour {
		t.Errorf("skew = %s, want -3h of the last line", s)
	}
	m = machine(t)
	want(t, "backlog, an hour apart", take(t, m, batch(o, true, slow...)))
	late := take(t, m, batch(o, true, failures(6, "198.51.100.1", noon.Add(-5*time.Minute))...))
	want(t, "backlog, a burst five minutes ago", late, "198.51.100.0/28 ssh-login 11:55:05")
	if bs := m.Ledger.List(noon); len(bs) != 1 || bs[0].Until.Sub(noon) != 5*time.Minute+5*time.Second {
		t.Errorf("a breach found late has %+v, want what remains of ten minutes", bs)
	}
}

// TestOwnPatterns: a rule's pattern reads what no family knows, also without
// an address.
func TestOwnPatterns(t *testing.T) {
	m := machine(t)
	o := &source.Origin{Name: "app.log", Spec: -1}
	var ls []string
	for i := range 3 {
		ls = append(ls, fmt.Sprintf("2026-11-20T11:59:5%dZ h app[1]: login failed user=joe ip=203.0.113.%d", i, i))
	}
	want(t, "three failures", take(t, m, batch(o, false, ls...)), "203.0.113.0/28 my-app 11:59:52")
	told := 0
	err := m.Take(batch(o, false, "2026-11-20T11:59:58Z h kernel: disk is full"), noon, func(br *detect.Breach, out ledger.Outcome) {
		if br.Rule == "watch" && len(out.Answers) == 1 && len(out.Changes) == 0 {
			told++
		}
	})
	if err != nil || told != 1 {
		t.Errorf("a line watched for told %d times, %v", told, err)
	}
}

// TestReplayedFileHasItsSource: a rotated file is read as the source that
// followed it would have.
func TestReplayedFileHasItsSource(t *testing.T) {
	m := machine(t)
	line := `401|192.0.2.7|20/Nov/2026:11:00:00 +0000|"GET / HTTP/1.1"|`
	for name, known := range map[string]bool{"/srv/app/log/app.log": true, "/srv/app/log/app.log.2.gz": true, "/srv/app/log/app.log-20261119.gz": true, "/srv/app/log/other": false} {
		r, err := m.compiled.Reader(&source.Origin{Name: name, Spec: -1})
		if err != nil {
			t.Fatal(err)
		}
		r.Read(batch(&source.Origin{Name: name}, true, line, "# not of that format"))
		if (r.Known() == 1) != known {
			t.Errorf("%s: %d lines known", name, r.Known())
		}
	}
}

// TestStampsOfEveryFormat: a stamp may stand within the line, and `run --since`
// and the order of rotated files must find it there.
func TestStampsOfEveryFormat(t *testing.T) {
	m := machine(t)
	for line, o := range map[string]*source.Origin{
		`192.0.2.7 - - [20/Nov/2026:11:00:00 +0000] "GET / HTTP/1.1" 401 12 "-" "x"`:                                                                                    {Name: "access.log", Spec: -1},
		`401|192.0.2.7|20/Nov/2026:11:00:00 +0000|"GET / HTTP/1.1"|`:                                                                                                    {Name: "/srv/app/log/app.log.1", Spec: -1},
		`{"level":"info","ts":1795172400,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.7","method":"GET","uri":"/"},"status":401}`: {Name: "caddy.log", Spec: -1},
		`{"time":"2026-11-20T11:00:00Z","remote_addr":"192.0.2.7","request_method":"GET","request_uri":"/","status":"401"}`:                                             {Name: "json.log", Spec: -1},
		`Nov 20 11:00:00 h sshd[1]: Failed password for bob from 192.0.2.1 port 22 ssh2`:                                                                                {Name: "auth.log", Spec: -1},
		`2026-11-20T11:00:00Z a line that nobody understands`:                                                                                                           {Name: "other.log", Spec: -1},
	} {
		stamp := m.compiled.Stamps(noon)(o)
		for range 2 { // nothing is left over from the line before
			ns, ok := stamp([]byte(line))
			if want := noon.Add(-time.Hour).UnixNano(); !ok || ns != want {
				t.Errorf("%s: got %s, %v, want %s", line, time.Unix(0, ns).UTC(), ok, time.Unix(0, want).UTC())
			}
			if ns, ok := stamp([]byte("no stamp")); ok {
				t.Errorf("%d is no stamp", ns)
			}
		}
	}
}

// TestWhoIsKnown: a login gives its source room wherever it was read; only one
// that no local user can have written lets the source pass a lockdown, and only
// one of its service. It clears nothing that others failed.
func TestWhoIsKnown(t *testing.T) {
	const login = "Accepted publickey for ann from %s port 40312 ssh2: ED25519 SHA256:abc"
	m := machine(t)
	file := &source.Origin{Name: "auth.log", Spec: -1}
	take(t, m, batch(file, false, noon.Format(time.RFC3339)+" h sshd[7]: "+fmt.Sprintf(login, "192.0.2.1")))
	journal := batch(&source.Origin{Name: "journal", Spec: -1}, false, fmt.Sprintf(login, "192.0.2.2"))
	journal.Lines[0].Entry = &source.Entry{Time: noon.UnixNano(), Ident: []byte("sshd"), PID: 8, UID: 0,
		Exe: []byte("/usr/sbin/sshd"), Unit: []byte("ssh.service")}
	take(t, m, journal)
	for _, from := range []string{"192.0.2.1", "192.0.2.2"} {
		if v := m.Ledger.Verdict(netip.MustParseAddr(from), "sshd", []byte("ann"), noon.UnixNano()); v != detect.KnownGood {
			t.Errorf("%s: got %v, want known-good", from, v)
		}
		if v := m.Ledger.Verdict(netip.MustParseAddr(from), "dovecot", []byte("ann"), noon.UnixNano()); v != detect.Stranger {
			t.Errorf("%s, of another service: got %v, want a stranger", from, v)
		}
	}
	if got := fmt.Sprint(m.Ledger.KnownAddrs(noon, "sshd")); got != "[192.0.2.2]" {
		t.Errorf("those who pass a lockdown of sshd: got %s, want the journal's", got)
	}
	if got := fmt.Sprint(m.Ledger.KnownAddrs(noon, "dovecot")); got != "[]" {
		t.Errorf("those who pass a lockdown of dovecot: got %s, want none", got)
	}
}
