package cmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
)

func ruleSet(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, problems := rules.LoadBytes("test", []byte(text), "/etc/stoplog")
	if set == nil {
		t.Fatal(problems)
	}
	return set
}

func TestPlacesOfRules(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"logs/sub", "real/pods/a", "out"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "real/pods/a/0.log"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "real/pods/a/0.log"), filepath.Join(dir, "logs/a.log")); err != nil {
		t.Fatal(err)
	}
	set := ruleSet(t, "use: []\nsources:\n  - {file: "+dir+"/logs/*.log}\n  - {file: "+dir+"/none/yet/x.log}\n"+
		"  - {file: /not-there-at-all/x.log}\nexports: [{format: plain, file: "+dir+"/out/list}]\n")
	read, write := readPlaces(set), writePlaces(set)
	// Where a link leads counts, with what will stand beside it.
	for _, want := range []string{dir + "/logs", dir + "/real/pods", dir} {
		if !slices.Contains(read, want) {
			t.Errorf("got read %q, want %s among them", read, want)
		}
	}
	if slices.Contains(read, "/") {
		t.Error("a log that is nowhere opens everything")
	}
	if !slices.Contains(write, dir+"/out") {
		t.Errorf("got write %q, want the export's folder", write)
	}
}

func TestProgramsKeepItOpen(t *testing.T) {
	for text, want := range map[string]bool{
		"use: auto\n": false,
		"use: []\nrules: [{name: x, match: {service: sshd, outcome: failure}, bucket: {capacity: 5, leak: 1m}, then: [{exec: [/bin/true]}]}]\n": true,
		"use: []\nnotify: {ops: {exec: [/bin/true]}}\n":                       true,
		"use: []\nnotify: {ops: {webhook: \"https://hooks.example.net/\"}}\n": false,
	} {
		if got := startsPrograms(ruleSet(t, text)); got != want {
			t.Errorf("%s: starts programs: got %v, want %v", text, got, want)
		}
	}
}

func TestReloadTellsWhatIsShut(t *testing.T) {
	set := ruleSet(t, "use: []\nsources: [{file: /usr/share/new/x.log}, {file: /var/log/x.log}]\n")
	got := confinement{on: true, read: []string{"/var/log", "/run", "/etc"}, write: []string{"/run"}}.lacks(set)
	if len(got) != 1 || !strings.HasPrefix(got[0], "/usr/share/new was not") && !strings.HasPrefix(got[0], "/usr/share was not") {
		t.Errorf("got %q, want one warning, of /usr/share", got)
	}
	if got := (confinement{}).lacks(set); len(got) > 0 {
		t.Errorf("not confined, but told %q", got)
	}
	// The whole of /etc may be read, and nothing of it written.
	set = ruleSet(t, "use: []\nexports: [{format: haproxy-map, file: /etc/haproxy/x.map}, {format: plain, file: /srv/out/sub/x}]\n")
	got = confinement{on: true, read: []string{"/etc", "/run", "/srv/out"}, write: []string{"/run", "/srv/out"}}.lacks(set)
	if len(got) != 1 || !strings.HasPrefix(got[0], "/etc/haproxy was not to be written to") {
		t.Errorf("got %q, want one warning, of /etc/haproxy", got)
	}
	if covers([]string{"/var/log"}, "/var/logs/x") {
		t.Error("/var/log covers /var/logs")
	}
}

func TestWatchdogEvery(t *testing.T) {
	for usec, want := range map[string]time.Duration{"60000000": 30 * time.Second, "": 0, "x": 0, "-5": 0} {
		t.Setenv("WATCHDOG_USEC", usec)
		t.Setenv("NOTIFY_SOCKET", "/run/notify")
		if got := watchdogEvery(); got != want {
			t.Errorf("%q: got %s, want %s", usec, got, want)
		}
		t.Setenv("NOTIFY_SOCKET", "")
		if got := watchdogEvery(); got != 0 {
			t.Errorf("%q without a manager: got %s, want 0", usec, got)
		}
	}
}
