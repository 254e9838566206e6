package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/parse"
)

const observed = "use: []\nsources:\n  - {file: /srv/app.log, service: sshd}\nrules:\n  - {name: look, match: {service: sshd, outcome: failure}, bucket: {capacity: 5, leak: 1m}, mode: observe}\n"

// replayFiles writes rules and a log of nine failures; it returns their paths.
func replayFiles(t *testing.T, rules string) (config, log string) {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	for i := range 9 {
		fmt.Fprintf(&b, "2026-11-20T09:00:0%dZ host sshd[%d]: Failed password for bob from 192.0.2.7 port 4000 ssh2\n", i, i+1)
	}
	config, log = filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "a.log")
	for path, text := range map[string]string{config: rules, log: b.String()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config, log
}

// TestReplayShowsObservingRules holds the shapes of what does not block.
func TestReplayShowsObservingRules(t *testing.T) {
	config, log := replayFiles(t, observed)
	code, out, errs := run(t, "", "replay", "--json", "--config", config, log)
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) != 4 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	want := `{"type":"observe","at":"2026-11-20T09:00:05Z","rule":"look","prefix":"192.0.2.0/28","ttl":"10m","count":6,"points":6,"source":"` + log + `","line":6,"key":"192.0.2.0/28","would":["block"]}`
	if lines[0] != want {
		t.Errorf("got\n%s\nwant\n%s", lines[0], want)
	}
	var rule replayRule
	if err := json.Unmarshal([]byte(lines[1]), &rule); err != nil || rule.Mode != "observe" || rule.Breaches != 1 || rule.Prefixes != 1 || rule.Stopped != 3 || rule.Blocks != 0 {
		t.Errorf("got %s, %v; want one observed breach that would have stopped 3", lines[1], err)
	}
	if lines[2] != `{"type":"summary","lines":9,"events":9,"blocks":0,"prevented":0}` {
		t.Errorf("got the summary %s", lines[2])
	}
	code, out, _ = run(t, "", "replay", "--config", config, log)
	for _, want := range []string{"observe 192.0.2.0/28 (would block) by look: 6 failures", "look (observe)  1", "worst case 192.0.2.0/28, 3 attempts stopped", "9 lines, 9 understood; 0 blocks; 0 attempts would have been stopped\n"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d: %q is missing in\n%s", code, want, out)
		}
	}
}

func TestReplayAgainst(t *testing.T) {
	config, log := replayFiles(t, strings.Replace(observed, ", mode: observe", "", 1))
	other, _ := replayFiles(t, strings.NewReplacer(", mode: observe", "", "capacity: 5", "capacity: 7").Replace(observed))
	code, out, errs := run(t, "", "replay", "--json", "--config", config, "--against", other, log)
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) != 3 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	var d replayDifference
	if err := json.Unmarshal([]byte(lines[0]), &d); err != nil || d.Change != "changed" || d.Before.Line != 6 || d.After.Line != 8 || d.After.Type != "block" {
		t.Errorf("got %s, %v; want a block at line 6 changed to one at line 8", lines[0], err)
	}
	var a replayAgainst
	if err := json.Unmarshal([]byte(lines[1]), &a); err != nil || a.Before.Prevented != 3 || a.After.Prevented != 1 || a.After.Rules != other {
		t.Errorf("got %s, %v; want 3 prevented before and 1 after", lines[1], err)
	}
	code, out, _ = run(t, "", "replay", "--config", config, "--against", other, log)
	if code != 0 || !strings.Contains(out, "- 2026-") || !strings.Contains(out, "+ 2026-") || !strings.Contains(out, "ATTEMPTS STOPPED") {
		t.Errorf("exit %d: %s", code, out)
	}
	code, out, _ = run(t, "", "replay", "--config", config, "--against", config, log)
	if code != 0 || !strings.Contains(out, "Both block the same.") {
		t.Errorf("exit %d: %s", code, out)
	}
	bad, _ := replayFiles(t, "rules: 7\n")
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitRules, []string{"--against", bad, log}},
		{exitUsage, []string{"--against", other, "-"}},
		{exitUsage, []string{"--as", "/srv/none.log", log}},
		{exitUsage, []string{"--as", "/srv/app.log", "--service", "sshd", log}},
		{exitUsage, []string{"--since", "soon", log}},
		{exitUsage, []string{"--since", "2026-11-21", "--until", "2026-11-20", log}},
	} {
		if code, _, errs := run(t, "", append([]string{"replay", "--config", config}, c.args...)...); code != c.code {
			t.Errorf("%v: exit %d, want %d: %s", c.args, code, c.code, errs)
		}
	}
}

// TestReplayAsReadsStdin: what comes by standard input is read as a source's.
func TestReplayAsReadsStdin(t *testing.T) {
	config, log := replayFiles(t, observed)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, string(text), "replay", "--config", config, "--as", "/srv/app.log", "--zone", "UTC", "--since", "2026-11-20 09:00", "--until", "2026-11-20T09:00:06Z", "-")
	if code != 0 || !strings.Contains(out, "by look: 6 failures, stdin:6") || !strings.Contains(out, "9 lines, 6 understood") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, _, errs = run(t, string(text), "replay", "--config", config, "--since", "2027-01-01", "-")
	if code != 0 || !strings.Contains(errs, "all of them outside --since and --until") {
		t.Errorf("exit %d: %q does not say why nothing counted", code, errs)
	}
	if errs != strings.ReplaceAll(errs, "\r", "") {
		t.Errorf("progress in a pipe: %q", errs)
	}
}

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		bytes, total, lines int64
		want                string
	}{
		{25_000_000, 100_000_000, 300_000, "25.0 MB of 100.0 MB (25 %), 3000 lines/s, 5m left"},
		{25_000_000, 0, 300_000, "25.0 MB, 3000 lines/s"},
		{0, 100, 0, "0.0 MB of 0.0 MB (0 %), 0 lines/s"},
	} {
		if got := progressText(c.bytes, c.total, c.lines, 100*time.Second); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := ago(100 * time.Second); got != "1m40s" {
		t.Errorf("got %s, want 1m40s", got)
	}
}

// TestParseFields: every captured field is shown, under names that the log
// chose, and the JSON stays valid.
func TestParseFields(t *testing.T) {
	line := "Nov 20 09:00:00 h sshd[1]: Failed password for bob from 192.0.2.1 port 4000 ssh2\n"
	code, out, errs := run(t, line, "parse", "--fields", "--json", "-")
	var got struct {
		Message string
		IP      string
	}
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.Message != "Failed password for bob from 192.0.2.1 port 4000 ssh2" || got.IP != "192.0.2.1" {
		t.Errorf("exit %d, %v: %s%s", code, err, out, errs)
	}
	ev := parse.Event{Message: []byte("m\"\x1b"), Fields: []parse.Field{{Name: "a\"b", Value: []byte("1\n")}, {Name: "none"}, {Name: "c", Value: []byte("2")}}}
	var fields struct {
		Message string
		Fields  map[string]string
	}
	text := appendMore([]byte(`{"line":1`), &ev)
	if err := json.Unmarshal(text, &fields); err != nil || len(fields.Fields) != 2 || fields.Fields["a\"b"] != "1\n" || fields.Fields["c"] != "2" || fields.Message != "m\"\x1b" {
		t.Errorf("%v: %s", err, text)
	}
	if more := moreText(&ev); strings.Contains(more, "\x1b") || !strings.Contains(more, "fields.c=2") {
		t.Errorf("got %q", more)
	}
}
