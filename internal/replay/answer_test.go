package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
)

// failures writes n failed logins from addr, a second apart from second on.
func failures(b *strings.Builder, from string, second, n int) {
	for i := range n {
		at := monday.Add(time.Duration(second+i) * time.Second)
		fmt.Fprintf(b, "%s h sshd[%d]: Failed password for bob from %s port 4000 ssh2\n", at.Format(time.RFC3339), second+i, from)
	}
}

func login(b *strings.Builder, from string, second int) {
	at := monday.Add(time.Duration(second) * time.Second)
	fmt.Fprintf(b, "%s h sshd[%d]: Accepted password for bob from %s port 4000 ssh2\n", at.Format(time.RFC3339), second, from)
}

func setOf(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, problems := rules.LoadBytes("test.yaml", []byte(text), t.TempDir())
	if set == nil {
		t.Fatal(problems)
	}
	return set
}

// answersTo replays text by rules and describes each answer in a line.
func answersTo(t *testing.T, o Options, text string) (out []string, sum Summary) {
	t.Helper()
	o.Files, o.Stdin, o.Zone = []string{"-"}, strings.NewReader(text), time.UTC
	sum, err := Run(context.Background(), o, func(a Answer) error {
		s := fmt.Sprintf("%s %s %s", a.Kind, a.Rule, a.Key)
		if a.Prefix.IsValid() && a.Prefix.String() != a.Key {
			s += " " + a.Prefix.String()
		}
		for _, x := range []string{a.Action, a.Flag, a.Target, strings.Join(a.Argv, " ")} {
			if x != "" {
				s += " " + x
			}
		}
		if a.Would != nil {
			s += fmt.Sprint(" would ", a.Would)
		}
		if a.Source != "stdin" || a.Line == 0 || a.At.IsZero() {
			t.Errorf("%+v does not say where and when", a)
		}
		out = append(out, fmt.Sprintf("%s line %d for %s", s, a.Line, rules.FormatDuration(a.TTL)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, sum
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestEachAnswerIsReported: a replay reports each way to answer a breach.
func TestEachAnswerIsReported(t *testing.T) {
	set := setOf(t, `use: []
notify: {admins: {exec: [/bin/true]}}
rules:
  - {name: blocks, match: {service: sshd, outcome: failure}, bucket: {capacity: 2, leak: 1m}}
  - {name: watches, match: {service: sshd, outcome: failure}, bucket: {capacity: 1, leak: 1m}, mode: observe}
  - name: many
    match: {service: sshd, outcome: failure}
    key: all
    window: {count: 2, within: 1m}
    then: [{flag: targeted, for: 1h}, {lockdown: {ports: [22], for: 5m}}, {notify: admins}, {exec: [/bin/echo, hi]}]
  - name: locks
    mode: observe
    match: {service: sshd, outcome: failure}
    key: all
    window: {count: 2, within: 1m}
    then: [{lockdown: {ports: [22], for: 5m}}, {notify: admins}]
`)
	var log strings.Builder
	failures(&log, "192.0.2.1", 0, 4)
	got, sum := answersTo(t, Options{Set: set}, log.String())
	slices.Sort(got)
	wantLines(t, got,
		"block blocks 192.0.2.0/28 line 3 for 10m",
		"exec many all /bin/echo hi line 2 for 0s",
		"flag many all targeted line 2 for 1h",
		"lockdown many all line 2 for 5m",
		"notify locks all admins line 2 for 0s",
		"notify many all admins line 2 for 0s",
		"observe locks all would [lockdown] line 2 for 10m",
		"observe watches 192.0.2.0/28 would [block] line 2 for 10m",
	)
	if sum.Blocks != 1 || sum.Prevented != 1 {
		t.Errorf("got %d blocks and %d prevented, want 1 and 1", sum.Blocks, sum.Prevented)
	}
	var names []string
	for _, r := range sum.Rules {
		names = append(names, fmt.Sprintf("%s %v %d breaches %d blocks %d prefixes %d stopped", r.Rule, r.Observe, r.Breaches, r.Blocks, r.Prefixes, r.Stopped))
	}
	wantLines(t, names,
		"blocks false 1 breaches 1 blocks 1 prefixes 1 stopped",
		"locks true 1 breaches 0 blocks 0 prefixes 0 stopped",
		"many false 1 breaches 0 blocks 0 prefixes 0 stopped",
		"watches true 1 breaches 0 blocks 1 prefixes 1 stopped",
	)
}

// TestSlowIsReported: a block that only slows down says so.
func TestSlowIsReported(t *testing.T) {
	set := setOf(t, "use: []\nrules:\n  - {name: r, match: {service: sshd, outcome: failure}, bucket: {capacity: 1, leak: 1m}, then: [{block: slow}]}\n")
	var log strings.Builder
	failures(&log, "192.0.2.1", 0, 2)
	got, _ := answersTo(t, Options{Set: set}, log.String())
	wantLines(t, got, "block r 192.0.2.0/28 slow line 2 for 10m")
}

const plainRule = "use: []\nrules:\n  - {name: r, match: {service: sshd, outcome: failure}, bucket: {capacity: 2, leak: 1m}}\n"

// TestGoodSourcesHit: the summary names the honest source that a block hit, with
// its lines, and no attacker; and the first lines of the worst case.
func TestGoodSourcesHit(t *testing.T) {
	for _, mode := range []string{"", "    mode: observe\n"} {
		set := setOf(t, "use: []\nprotect: {known_good: 0s}\nrules:\n  - name: r\n    match: {service: sshd, outcome: failure}\n    bucket: {capacity: 2, leak: 1m}\n"+mode)
		var log strings.Builder
		login(&log, "198.51.100.7", 0)
		failures(&log, "198.51.100.7", 10, 4) // lines 2 to 5
		login(&log, "198.51.100.7", 20)       // line 6
		failures(&log, "192.0.2.1", 100, 50)  // lines 7 to 56
		login(&log, "203.0.113.9", 200)
		_, sum := answersTo(t, Options{Set: set}, log.String())
		if len(sum.Rules) != 1 {
			t.Fatalf("%q: got %+v, want one rule", mode, sum.Rules)
		}
		r := sum.Rules[0]
		if r.GoodHit != 1 || len(r.Good) != 1 || r.Prefixes != 2 || r.Stopped != 48 {
			t.Fatalf("%q: got %+v, want one good source hit, 2 prefixes, 48 stopped", mode, r)
		}
		g := r.Good[0]
		if g.Addr.String() != "198.51.100.7" || g.Hits != 3 || g.Successes != 2 || g.Failures != 4 {
			t.Errorf("%q: got %+v, want 198.51.100.7 hit with 3 lines, 2 successes, 4 failures", mode, g)
		}
		var lines []string
		for _, l := range g.Lines {
			lines = append(lines, fmt.Sprint(l.Line, strings.Contains(l.Text, "from 198.51.100.7")))
		}
		wantLines(t, lines, "4 true", "5 true", "6 true")
		if w := r.Worst; w.Prefix.String() != "192.0.2.0/28" || w.Stopped != 47 || len(w.Lines) != 3 || !strings.Contains(w.Lines[0], "sshd[100]") {
			t.Errorf("%q: got the worst case %+v, want 192.0.2.0/28 and its first three lines", mode, w)
		}
		if want := map[string]int{"": 1}[mode]; sum.GoodHit != want {
			t.Errorf("%q: got %d good sources blocked, want %d", mode, sum.GoodHit, want)
		}
	}
}

// TestNoLinesAreKept: with privacy.lines off the summary has places, no text.
func TestNoLinesAreKept(t *testing.T) {
	set := setOf(t, "privacy: {lines: false}\nprotect: {known_good: 0s}\n"+plainRule)
	var log strings.Builder
	login(&log, "198.51.100.7", 0)
	failures(&log, "198.51.100.7", 10, 4)
	_, sum := answersTo(t, Options{Set: set}, log.String())
	r := sum.Rules[0]
	if len(r.Worst.Lines) != 0 || len(r.Good) != 1 || r.Good[0].Lines[0].Text != "" || r.Good[0].Lines[0].Line != 4 {
		t.Errorf("got %+v, want the place and no text", r)
	}
}

// TestSinceAndUntil: lines outside the time asked for count nowhere.
func TestSinceAndUntil(t *testing.T) {
	var log strings.Builder
	failures(&log, "192.0.2.1", 0, 4)
	failures(&log, "192.0.2.17", 3600, 4)
	failures(&log, "192.0.2.33", 7200, 4)
	at := func(second int) time.Time { return monday.Add(time.Duration(second) * time.Second) }
	for _, c := range []struct {
		since, until time.Time
		events       uint64
		want         []string
	}{
		{time.Time{}, time.Time{}, 12, []string{"block r 192.0.2.0/28 line 3 for 10m", "block r 192.0.2.16/28 line 7 for 10m", "block r 192.0.2.32/28 line 11 for 10m"}},
		{at(3600), at(7200), 4, []string{"block r 192.0.2.16/28 line 7 for 10m"}},
		{at(3601), time.Time{}, 7, []string{"block r 192.0.2.16/28 line 8 for 10m", "block r 192.0.2.32/28 line 11 for 10m"}},
		{time.Time{}, at(2), 2, nil},
	} {
		got, sum := answersTo(t, Options{Set: setOf(t, plainRule), Since: c.since, Until: c.until}, log.String())
		wantLines(t, got, c.want...)
		if sum.Lines != 12 || sum.Events != c.events || sum.Skipped != 12-c.events {
			t.Errorf("got %d lines, %d events, %d skipped, want 12, %d, %d", sum.Lines, sum.Events, sum.Skipped, c.events, 12-c.events)
		}
	}
}

// TestAsSource: a copy is read with the format, service and zone of the source
// that it is of, and the rules know it by that source's name.
func TestAsSource(t *testing.T) {
	set := setOf(t, `use: []
sources:
  - {file: /srv/app/*.log, service: shop, zone: America/New_York}
  - {file: /srv/web/access.log, format: '$remote_addr [$time_local] $status "$request"'}
rules:
  - name: app
    match: {source: /srv/app/app.log}
    pattern: 'denied to (?P<ip>\S+)'
    bucket: {capacity: 1, leak: 1h}
  - {name: web, match: {status: 403}, bucket: {capacity: 1, leak: 1h}}
`)
	app := "2026-11-20 09:00:00 denied to 192.0.2.1\n2026-11-20 09:00:01 denied to 192.0.2.1\n"
	got, _ := answersTo(t, Options{Set: set, As: "/srv/app/app.log"}, app)
	wantLines(t, got, "block app 192.0.2.0/28 line 2 for 10m")
	web := strings.Repeat("192.0.2.40 [20/Nov/2026:09:00:00 +0000] 403 \"GET / HTTP/1.1\"\n", 2)
	got, _ = answersTo(t, Options{Set: set, As: "/srv/web/access.log"}, web)
	wantLines(t, got, "block web 192.0.2.32/28 line 2 for 10m")
	got, _ = answersTo(t, Options{Set: set}, app+web)
	wantLines(t, got)
	_, err := Run(context.Background(), Options{Set: set, As: "/srv/none.log", Files: []string{"-"}, Stdin: strings.NewReader(app)}, func(Answer) error { return nil })
	if !errors.Is(err, ErrNoSource) {
		t.Errorf("got %v, want that no source has that name", err)
	}
}

// TestAsSourceUsesItsZone: a stamp without a zone is read in the source's.
func TestAsSourceUsesItsZone(t *testing.T) {
	set := setOf(t, "use: []\nsources:\n  - {file: /srv/far.log, service: sshd, zone: America/New_York}\nrules:\n  - {name: r, match: {service: sshd, outcome: failure}, bucket: {capacity: 1, leak: 1m}}\n")
	file := filepath.Join(t.TempDir(), "copy")
	line := "Nov 16 09:00:00 h sshd[1]: Failed password for bob from 192.0.2.1 port 4000 ssh2\n"
	if err := os.WriteFile(file, []byte(line+line), 0o600); err != nil {
		t.Fatal(err)
	}
	var at []time.Time
	p := new(Progress)
	_, err := Run(context.Background(), Options{Set: set, As: "/srv/far.log", Files: []string{file}, Zone: time.UTC, Progress: p}, func(a Answer) error { at = append(at, a.At); return nil })
	if err != nil || len(at) != 1 || at[0].UTC().Hour() != 14 {
		t.Errorf("got %v, %v, want one block at 14:00 UTC", at, err)
	}
	if p.Bytes.Load() != int64(2*len(line)) || p.Lines.Load() != 2 {
		t.Errorf("got a progress of %d bytes and %d lines, want %d and 2", p.Bytes.Load(), p.Lines.Load(), 2*len(line))
	}
}

// TestCompare: what two rule files disagree on, block by block.
func TestCompare(t *testing.T) {
	var log strings.Builder
	failures(&log, "192.0.2.1", 0, 6)     // both, the second later
	failures(&log, "192.0.2.17", 3600, 3) // only the first
	blocks := func(rules string) (out []Answer) {
		_, err := Run(context.Background(), Options{Set: setOf(t, rules), Files: []string{"-"}, Stdin: strings.NewReader(log.String()), Zone: time.UTC}, func(a Answer) error { out = append(out, a); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	strict, lax := blocks(plainRule), blocks(strings.Replace(plainRule, "capacity: 2", "capacity: 4", 1))
	describe := func(cs []Change) (out []string) {
		for _, c := range cs {
			s := ""
			for _, a := range []*Answer{c.Before, c.After} {
				if a == nil {
					s += "none "
				} else {
					s += fmt.Sprintf("%s:%d ", a.Prefix, a.Line)
				}
			}
			out = append(out, s)
		}
		return out
	}
	wantLines(t, describe(Compare(strict, lax)), "192.0.2.0/28:3 192.0.2.0/28:5 ", "192.0.2.16/28:9 none ")
	wantLines(t, describe(Compare(lax, strict)), "192.0.2.0/28:5 192.0.2.0/28:3 ", "none 192.0.2.16/28:9 ")
	wantLines(t, describe(Compare(strict, strict)))
}
