package replay

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stoplog/internal/source"
)

// TestJournal: a journal is replayed as the source of the rules that reads it; what
// another unit wrote about sshd blames nobody.
func TestJournal(t *testing.T) {
	writer := "/lib/systemd/systemd-journal-remote"
	for _, p := range []string{writer, "journalctl"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	var in strings.Builder
	entry := func(n int, unit, from string) {
		at := monday.UnixMicro() + int64(n)*1_000_000
		fmt.Fprintf(&in, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=0123456789abcdef0123456789abcdef\n_MACHINE_ID=0123456789abcdef0123456789abcdef\n"+
			"SYSLOG_FACILITY=4\nSYSLOG_IDENTIFIER=sshd\n_PID=%d\n_UID=0\n_EXE=/usr/sbin/sshd\n_COMM=sshd\n_SYSTEMD_UNIT=%s\n_TRANSPORT=syslog\n_HOSTNAME=h\n"+
			"MESSAGE=Failed password for bob from %s port 4000 ssh2\n\n", at, at, 1000+n, unit, from)
	}
	for i := range 4 {
		entry(2*i, "ssh.service", "192.0.2.1")
		entry(2*i+1, "evil.service", "198.51.100.1")
	}
	cmd := exec.Command(writer, "--output="+filepath.Join(dir, "test.journal"), "--split-mode=none", "-")
	cmd.Stdin = strings.NewReader(in.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("writing a journal: %v: %s", err, out)
	}
	set := setOf(t, "use: []\nsources: [auth, {journal: {units: [ssh]}, service: sshd}]\nrules:\n  - {name: r, match: {service: sshd, outcome: failure}, bucket: {capacity: 2, leak: 1m}}\n")
	for name, j := range map[string][]source.JournalRead{"sources": JournalOf(set, nil), "unit": JournalOf(set, []string{"ssh.service"})} {
		if want := map[string]int{"sources": 2, "unit": 1}[name]; len(j) != want {
			t.Fatalf("%s: got %+v, want %d reads", name, j, want)
		}
		one := j[len(j)-1]
		if one.Spec != 1 || one.Service != "sshd" {
			t.Errorf("%s: got %+v, want the second source", name, one)
		}
		one.Match.Directory = dir
		var got []string
		sum, err := Run(t.Context(), Options{Set: set, Journal: []source.JournalRead{one}}, func(a Answer) error {
			got = append(got, fmt.Sprint(a.Kind, " ", a.Prefix, " ", a.Count))
			return nil
		})
		if err != nil || sum.Lines != 4 {
			t.Errorf("%s: got %d lines, %v; want 4", name, sum.Lines, err)
		}
		wantLines(t, got, "block 192.0.2.0/28 3")
	}
}
