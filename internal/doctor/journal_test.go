package doctor

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
	"stoplog/internal/source"
)

const boot = "0123456789abcdef0123456789abcdef"

// journal writes real journal files below the machine's root, in the export
// format (systemd.io/JOURNAL_EXPORT_FORMATS).
func journal(t *testing.T, m *Machine, messages ...string) {
	t.Helper()
	tool := "/lib/systemd/systemd-journal-remote"
	for _, p := range []string{tool, "/usr/bin/journalctl"} {
		if _, err := os.Stat(p); err != nil {
			t.Skip(p + " is not installed")
		}
	}
	var in strings.Builder
	for i, text := range messages {
		at := now.Add(-time.Hour).UnixMicro() + int64(i)
		fmt.Fprintf(&in, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n_MACHINE_ID=%s\nSYSLOG_IDENTIFIER=sshd\n_PID=%d\n_UID=0\n_COMM=sshd\n_TRANSPORT=syslog\nMESSAGE=%s\n\n", at, 1000+i, boot, boot, 100+i, text)
	}
	file := m.path("/var/log/journal/" + boot + "/system.journal")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(tool, "--output="+file, "--split-mode=none", "-")
	c.Stdin = strings.NewReader(in.String())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	touch(t, m, "/run/systemd/journal/socket")
}

// TestJournal reads a real journal as the daemon would.
func TestJournal(t *testing.T) {
	many := func(text string, n int) (ms []string) {
		for i := range n {
			ms = append(ms, fmt.Sprint(text, " ", i))
		}
		return ms
	}
	for _, c := range []struct {
		name     string
		messages []string
		want     string
	}{
		{"understood", many("known", 30), "ok journal /var/log/journal: 30 of the last 30 lines understood"},
		{"too few", many("?", 3), "note journal /var/log/journal: 3 lines, none understood, but too few to judge"},
		{"not understood", many("?", 25), "warning journal /var/log/journal: none of the last 25 lines is understood"},
	} {
		m := healthy(t)
		m.Reader = func(rules.Source) (Reader, error) {
			return func(l *source.Line, _ time.Time) (int64, bool) { return 0, bytes.Contains(l.Text, []byte("known")) }, nil
		}
		journal(t, m, c.messages...)
		m.Set.Sources = []rules.Source{{Kind: rules.Journal}}
		var got []string
		for _, f := range Examine(t.Context(), *m) {
			if f.Area == "logs" {
				got = append(got, fmt.Sprint(f.Severity, " ", f.Found))
			}
		}
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
