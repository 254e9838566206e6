package api

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/rules"
)

// walkSet loads rules for a test.
func walkSet(t *testing.T, text string) *rules.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, problems := rules.Load(path)
	if set == nil {
		t.Fatal(problems)
	}
	return set
}

const walkRules = `
use: []
allow: [198.51.100.0/24]
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    weight: {user: {root: 2}}
    buckets: [{capacity: 1, leak: 1m}, {capacity: 6, leak: 12h, ttl: 7d}]
  - name: web
    match: {path: /wp-login.php}
    bucket: {capacity: 3, leak: 1m}
    mode: observe
`

func TestWalk(t *testing.T) {
	set := walkSet(t, walkRules)
	now := time.Date(2026, 11, 20, 9, 0, 30, 0, time.UTC)
	failed := func(addr string) string {
		return "2026-11-20T09:00:00Z host sshd[7]: Failed password for root from " + addr + " port 4000 ssh2"
	}
	for _, c := range []struct {
		name, line, service   string
		understood            bool
		addr, verdict, late   string
		sshWhy, webWhy, field string
	}{
		{"a failure", failed("192.0.2.1"), "", true, "192.0.2.1", "stranger", "", "", "the line has no path", "root"},
		{"of an allowed address", failed("198.51.100.9"), "", true, "198.51.100.9", "allowed", "", "the address is allowed", "the line has no path", "root"},
		{"an old one", strings.Replace(failed("192.0.2.1"), "T09:00:00Z", "T07:00:00Z", 1), "", true, "192.0.2.1", "stranger", "2h30s off", "", "the line has no path", "root"},
		{"a success", "2026-11-20T09:00:00Z host sshd[7]: Accepted password for bob from 192.0.2.1 port 4000 ssh2", "", true, "192.0.2.1", "stranger", "", "the outcome is success, not failure", "the line has no path", "bob"},
		{"a request", `192.0.2.9 - - [20/Nov/2026:09:00:01 +0000] "POST /wp-login.php HTTP/1.1" 200 12 "-" "x"`, "", true, "192.0.2.9", "stranger", "", "the service is http, not sshd", "", ""},
		{"without an envelope", "Failed password for root from 192.0.2.1 port 4000 ssh2", "sshd", true, "192.0.2.1", "stranger", "no timestamp", "", "the line has no path", "root"},
		{"nonsense", "\x1b[31mnonsense\xff", "", false, "", "", "", "", "", ""},
	} {
		w, err := Walk(set, "rules.yaml", control.LineQuery{Text: c.line, Service: c.service}, now)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if w.Understood != c.understood || w.Live || w.Rules != "rules.yaml" {
			t.Errorf("%s: %+v", c.name, w)
		}
		if !c.understood {
			continue
		}
		e := w.Events[0]
		if e.Addr != c.addr || e.Verdict != c.verdict || !strings.Contains(e.Late, c.late) || c.late == "" && e.Late != "" || e.Fields["user"] != c.field {
			t.Errorf("%s: %+v", c.name, e)
		}
		if len(e.Rules) != 2 || e.Rules[0].Why != c.sshWhy || e.Rules[1].Why != c.webWhy || e.Rules[1].Mode != "observe" {
			t.Errorf("%s: rules %+v", c.name, e.Rules)
		}
		if (w.Stamp == nil) != (c.name == "without an envelope") {
			t.Errorf("%s: stamp %v", c.name, w.Stamp)
		}
	}
}

func TestWalkLevels(t *testing.T) {
	w, err := Walk(walkSet(t, walkRules), "x", control.LineQuery{Text: "Failed password for root from 192.0.2.1 port 4000 ssh2", Service: "sshd"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	got := w.Events[0].Rules[0]
	if got.Key != "192.0.2.0/28" || len(got.Levels) != 2 {
		t.Fatalf("%+v", got)
	}
	want := []control.WalkLevel{
		{Kind: "bucket", Weight: 2, Capacity: 1, Breaches: true},
		{Kind: "bucket", Weight: 2, Capacity: 6, TTL: "7d"},
	}
	for i := range want {
		if got.Levels[i] != want[i] {
			t.Errorf("level %d: %+v, want %+v", i, got.Levels[i], want[i])
		}
	}
}

func TestWalkBounds(t *testing.T) {
	_, err := Walk(walkSet(t, walkRules), "x", control.LineQuery{Text: strings.Repeat("x", 10<<20)}, time.Now())
	if !errors.Is(err, control.ErrBadOrder) {
		t.Errorf("a line of 10 MiB: %v", err)
	}
}
