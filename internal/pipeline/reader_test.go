package pipeline

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/source"
)

const readerRules = `
use: []
protect: {own: false, ssh_peers: false}
sources:
  - {pipe: /run/app, service: app, zone: Asia/Tokyo}
  - {file: /srv/a.log, format: combined, client: {header: x-forwarded-for, trusted: [10.0.0.0/8]}}
  - journal: {units: [web]}
    service: nginx
  - journal: {matches: [_UID=1000]}
    service: nginx
  - journal: {containers: [shop]}
    service: nginx
  - journal: {identifiers: [sshd]}
  - {file: /srv/export.json, service: sshd}
  - auth
  - {file: /srv/any.json}
  - journal: {units: [web], containers: [shop]}
    service: nginx
  - journal: {units: [web], identifiers: [nginx]}
    service: nginx
rules:
  - {name: own, pattern: 'bad login from <ip>', match: {service: app}, bucket: {capacity: 5, leak: 1m}}
`

// TestSourceOptions: what a source says about zone, proxies and writers decides
// how its lines are read, and only its.
func TestSourceOptions(t *testing.T) {
	compiled := compiledOf(t, readerRules)
	read := func(spec int, lines ...source.Line) (out []string) {
		t.Helper()
		o := &source.Origin{Name: "x", Spec: spec}
		r, err := compiled.Reader(o)
		if err != nil {
			t.Fatal(err)
		}
		r.Read(&source.Batch{Origin: o, Arrival: noon, Backlog: true, Lines: lines})
		r.Each(func(ev *parse.Event) {
			out = append(out, fmt.Sprintf("%s %s %s", time.Unix(0, ev.Time).UTC().Format(time.TimeOnly), ev.Service, ev.Addr))
		})
		return out
	}
	text := func(s string) source.Line { return source.Line{Text: []byte(s)} }
	want(t, "the first source's zone", read(0, text("2026-11-20 20:00:00 bad login from 192.0.2.7")), "11:00:00 own 192.0.2.7")
	want(t, "of a source that is no more", read(99, text("2026-11-20 20:00:00 bad login from 192.0.2.7")))
	nginx := fmt.Sprintf(basicUser, "x")
	by := func(unit, container string, uid int64) source.Line {
		l := entryOf(unit, "", "nginx", uid, nginx)
		l.Entry.Container = []byte(container)
		return l
	}
	exported := text(`{"__REALTIME_TIMESTAMP":"1795166590123456","_PID":"12","_TRANSPORT":"stdout","_UID":"0","_SYSTEMD_UNIT":"my-ssh.service","SYSLOG_IDENTIFIER":"sshd","MESSAGE":"` + fmt.Sprintf(sshFailure, "x") + `"}`)
	for _, c := range []struct {
		what string
		spec int
		line source.Line
		told bool
	}{
		{"by the unit that a source names", 2, by("web.service", "", 33), true},
		{"by the account that a source names", 3, by("user@1000.service", "", 1000), true},
		{"by an account, exported from no such source", 6, by("user@1000.service", "", 1000), false},
		{"by some unit, in a file that is named as sshd's", 6, exported, true},
		{"by some unit, in a file of anybody", 8, exported, false},
		{"by another unit that says it is the container", 9, by("evil.service", "shop", 33), false},
		{"by another unit that chose the tag", 10, by("evil.service", "", 33), false},
		{"by an account, of the login logs", 7, by("user@1000.service", "", 1000), false},
		{"by a container that a source names", 4, by("docker.service", "shop", 0), true},
		{"by another container", 4, by("docker.service", "evil", 0), false},
		{"by who says that it is that container", 4, by("session-3.scope", "shop", 1000), false},
		{"by who chose the tag that a source names", 5, entryOf("session-3.scope", "", "sshd", 1000, fmt.Sprintf(sshFailure, "x")), false},
	} {
		if got := read(c.spec, c.line); (len(got) == 1) != c.told {
			t.Errorf("%s: got %q", c.what, got)
		}
	}
}

// TestTrustedProxyNamesTheClient: of the peers that a source trusts the header
// counts, of others the address.
func TestTrustedProxyNamesTheClient(t *testing.T) {
	compiled := compiledOf(t, strings.Replace(readerRules, "format: combined,", `format: '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_x_forwarded_for"',`, 1))
	const request = `%s - - [20/Nov/2026:11:00:00 +0000] "GET / HTTP/1.1" 401 12 "198.51.100.9"`
	for peer, client := range map[string]string{"10.1.2.3": "198.51.100.9", "192.0.2.7": "192.0.2.7"} {
		want(t, peer, said(t, compiled, "/srv/a.log", fmt.Sprintf(request, peer)), "20T11:00:00 http other "+client+" ")
	}
}

// TestForeignIsReported: entries that nobody had the right to write are counted
// over all batches, and the last is described until another comes.
func TestForeignIsReported(t *testing.T) {
	m := guardMachine(t)
	evil := entryOf("evil.service", "/bin/x", "sshd", 1000, fmt.Sprintf(sshFailure, "x"))
	for _, lines := range [][]source.Line{{evil, evil}, {sshEntry("a")}, {evil}} {
		believed(t, m, lines...)
	}
	if s := m.Stats("journal"); s.Foreign != 3 || !strings.Contains(s.Foreigner, "evil.service") || s.Lines != 4 || s.Events != 1 {
		t.Errorf("got %+v", s)
	}
	believed(t, m, sshEntry("a"))
	if s := m.Stats("journal"); s.Foreign != 3 || !strings.Contains(s.Foreigner, "evil.service") {
		t.Errorf("after a batch without any: %+v", s)
	}
}

// TestCutLinesAreCounted: lines over the limit are counted, understood or not.
func TestCutLinesAreCounted(t *testing.T) {
	m := machine(t)
	b := batch(&source.Origin{Name: "auth.log", Spec: -1}, false, "x", "y", failures(1, "192.0.2.1", noon)[0])
	b.Lines[0].Cut, b.Lines[2].Cut = true, true
	take(t, m, b)
	take(t, m, b)
	if s := m.Stats("auth.log"); s.Cut != 4 || s.Lines != 6 {
		t.Errorf("got %+v, want 4 of 6 cut", s)
	}
}

// TestSkewEnds: a clock that was set right is no longer reported.
func TestSkewEnds(t *testing.T) {
	o := &source.Origin{Name: "auth.log", Spec: -1}
	m := machine(t)
	for _, off := range []time.Duration{-time.Hour, time.Hour, 0} {
		take(t, m, batch(o, false, failures(1, "192.0.2.1", noon.Add(off))...))
		if s := m.Stats("auth.log").Skew; s != off {
			t.Errorf("skew = %s, want %s", s, off)
		}
	}
}

// TestProxyIsSuspected: a peer that brings nearly all web requests is reported,
// and logins of other services say nothing about proxies.
func TestProxyIsSuspected(t *testing.T) {
	m := machine(t)
	web, auth := &source.Origin{Name: "/srv/app/log/app.log", Spec: -1}, &source.Origin{Name: "auth.log", Spec: -1}
	take(t, m, batch(auth, true, failures(2000, "192.0.2.1", noon.Add(-time.Hour))...))
	if who, ok := m.Suspect(); ok {
		t.Errorf("%s by logins alone", who)
	}
	take(t, m, batch(web, true, slices.Repeat([]string{`200|192.0.2.7|20/Nov/2026:11:00:00 +0000|"GET / HTTP/1.1"|`}, 2000)...))
	if who, ok := m.Suspect(); !ok || !strings.HasPrefix(who, "192.0.2.7 sends 100 %") {
		t.Errorf("got %q, %v", who, ok)
	}
}

// TestReplayLetsBlocksEnd: in a replay a block ends when its time is over by the
// lines that follow, so that the next breach is a block again, and a longer one.
func TestReplayLetsBlocksEnd(t *testing.T) {
	m := machine(t)
	o := &source.Origin{Name: "auth.log", Spec: -1}
	r, err := m.reader(o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, at := range []time.Duration{-3 * time.Hour, -2 * time.Hour} {
		r.Read(batch(o, true, failures(6, "192.0.2.1", noon.Add(at))...))
		m.Join(r, noon)
		m.ApplyAt(r, Past{Emit: func(_ *detect.Breach, out ledger.Outcome) {
			for _, c := range out.Changes {
				got = append(got, fmt.Sprint(c.Block.Prefix, " ", c.Block.Since.UTC().Format(time.TimeOnly), " ", c.New))
			}
		}})
	}
	want(t, "blocks", got, "192.0.2.0/28 09:00:05 true", "192.0.2.0/28 10:00:05 true")
	if v := m.Ledger.Verdict(netip.MustParseAddr("192.0.2.1"), "sshd", nil, noon.UnixNano()); v == detect.Blocked {
		t.Error("still blocked hours later")
	}
}
