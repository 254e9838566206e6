package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFleet: an attacker with a few tries at each of four hosts passes each alone,
// and is stopped by them together; who logs in on a host is not refused there.
func TestFleet(t *testing.T) {
	dir := t.TempDir()
	begin := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	line := func(b *strings.Builder, after time.Duration, text string) {
		fmt.Fprintf(b, "%s h sshd[%d]: %s\n", begin.Add(after).Format(time.RFC3339), 1000+b.Len(), text)
	}
	for i := range 4 {
		var b strings.Builder
		line(&b, 0, "Accepted password for joe from 192.0.2.20 port 4711 ssh2")
		for n := range 3 {
			line(&b, time.Duration(60+10*i+n)*time.Second, fmt.Sprintf("Failed password for user%d from 203.0.113.%d port 4711 ssh2", n, i))
			if i < 3 {
				line(&b, time.Duration(60+10*i+n)*time.Second, fmt.Sprintf("Failed password for joe from 192.0.2.20 port %d ssh2", 5000+n))
			}
		}
		line(&b, 120*time.Second, "Accepted password for joe from 192.0.2.20 port 4712 ssh2")
		path := filepath.Join(dir, fmt.Sprintf("web%d", i))
		if i%2 == 0 { // a folder of logs, or one file
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
			path = filepath.Join(path, "auth")
		}
		if err := os.WriteFile(path+".log", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set := setOf(t, "use: []\nrules:\n  - name: r\n    match: {service: sshd, outcome: failure}\n    bucket: {capacity: 5, leak: 10m}\n")
	blocked := map[string]bool{}
	r, err := Fleet(t.Context(), FleetOptions{Options: Options{Set: set, Service: "sshd", Zone: time.UTC}, Dir: dir}, func(b FleetBlock) error {
		if !b.Together {
			t.Errorf("%s alone blocks %v", b.Host, b.Answer.Prefix)
		}
		blocked[b.Host+" "+b.Answer.Prefix.String()] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The sixth try, the last of web1, is the last that passes.
	if r.Hosts != 4 || r.Attempts != 12 || r.Alone.Through != 12 || r.Together.Through != 6 || r.Together.Refused != 0 || r.Logins != 8 {
		t.Errorf("got %+v", r)
	}
	for i := range 4 {
		if !blocked[fmt.Sprintf("web%d 203.0.113.0/28", i)] {
			t.Errorf("web%d does not block the attacker: %v", i, blocked)
		}
	}
	if _, err := Fleet(t.Context(), FleetOptions{Options: Options{Set: set}, Dir: t.TempDir()}, nil); err == nil {
		t.Error("an empty directory is no error")
	}
}
