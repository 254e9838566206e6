package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
)

func TestCountAudit(t *testing.T) {
	until := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(hoursAgo int) time.Time { return until.Add(-time.Duration(hoursAgo) * time.Hour) }
	as := []control.AuditEntry{
		{Time: at(1), What: "block", Prefix: "192.0.2.0/28", Rule: "ssh-login", Count: 6},
		{Time: at(2), What: "block", Prefix: "192.0.2.16/28", Rule: "ssh-login", Count: 7},
		{Time: at(25), What: "block", Prefix: "192.0.2.0/28", Rule: "web", Count: 9},
		{Time: at(26), What: "block", Prefix: "2001:db8:1::/64", By: "anna"},
		{Time: at(3), What: "unblock", Prefix: "192.0.2.0/28", By: "anna"},
		{Time: at(3), What: "tell", Rule: "all"},
		{Time: at(3), What: "flag"},
		{Time: at(60), What: "block", Prefix: "198.51.100.0/28", Rule: "too-old"},
		{Time: until.Add(time.Hour), What: "block", Prefix: "198.51.100.0/28", Rule: "of-the-future"},
	}
	c := countAudit(as, at(48), until, time.UTC, 2)
	if c.Blocks != 4 || c.ByHand != 1 || c.Entries != 7 {
		t.Errorf("blocks %d, by hand %d, entries %d; want 4, 1, 7", c.Blocks, c.ByHand, c.Entries)
	}
	want := []dayCount{{"2026-11-18", 0, 0, 0}, {"2026-11-19", 2, 0, 0}, {"2026-11-20", 2, 1, 1}}
	if fmt.Sprint(c.Days) != fmt.Sprint(want) {
		t.Errorf("days %v, want %v", c.Days, want)
	}
	if c.Hours[11] != 2 || c.Hours[10] != 2 {
		t.Errorf("hours %v", c.Hours)
	}
	for _, x := range []struct {
		what string
		got  []count
		want string
	}{
		{"rules", c.Rules, "ssh-login 2 2 13, web 1 1 9"},
		{"prefixes", c.Prefixes, "192.0.2.0/28 2 1 15, 192.0.2.16/28 1 1 7"},
		{"networks", c.Networks, "192.0.0.0/16 3 2 22, 2001:db8::/32 1 1 0"},
	} {
		var got []string
		for _, n := range x.got {
			got = append(got, fmt.Sprint(n.Name, " ", n.Blocks, " ", n.Prefixes, " ", n.Events))
		}
		if s := strings.Join(got, ", "); s != x.want {
			t.Errorf("%s: %s, want %s", x.what, s, x.want)
		}
	}
	if !c.Prefixes[0].Last.Equal(at(1)) {
		t.Errorf("last %s", c.Prefixes[0].Last)
	}
}

// TestCountAuditDays: days are the zone's, of whatever length.
func TestCountAuditDays(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Skip(err)
	}
	until := time.Date(2026, 10, 26, 12, 0, 0, 0, zone) // the day before has 25 hours
	c := countAudit(nil, until.AddDate(0, 0, -3), until, zone, 5)
	if len(c.Days) != 4 || c.Days[1].Day != "2026-10-24" || c.Days[3].Day != "2026-10-26" {
		t.Errorf("%v", c.Days)
	}
}

func TestPlots(t *testing.T) {
	for _, c := range []struct {
		n, most int
		want    string
	}{{0, 10, ""}, {10, 10, "████"}, {5, 10, "██"}, {1, 1000, "▏"}, {9, 10, "███▌"}, {3, 0, ""}} {
		if got := bars(c.n, c.most, 4); got != c.want {
			t.Errorf("bars(%d, %d) = %q, want %q", c.n, c.most, got, c.want)
		}
	}
	if got := spark([]int{0, 1, 4, 8}); got != "·▁▄█" {
		t.Errorf("spark = %q", got)
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := run(t, "", "report", "--state", dir)
	if code != exitRuntime || !strings.Contains(errs, "audit") {
		t.Errorf("an empty folder: exit %d: %s", code, errs)
	}
	text := fmt.Sprintf(`{"time":%q,"seq":1,"event":"block","prefix":"192.0.2.0/28","rule":"ev\u001bil","count":6}`+"\nnonsense\n", time.Now().Add(-time.Hour).Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(dir, "audit.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "", "report", "--state", dir)
	if code != exitOK || !strings.Contains(out, "1 block, 0 of them by hand") || !strings.Contains(out, `ev\x1bil`) || !strings.Contains(out, "192.0.0.0/16") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, _ = run(t, "", "report", "--state", dir, "--json", "--since", "2d")
	var got tally
	if err := json.Unmarshal([]byte(out), &got); code != exitOK || err != nil || got.Blocks != 1 || len(got.Days) < 2 || len(got.Rules) != 1 {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
	for _, args := range [][]string{{"--since", "soon"}, {"--since", "-1d"}, {"--top", "0"}, {"x"}} {
		if code, _, _ := run(t, "", append([]string{"report", "--state", dir}, args...)...); code != exitUsage {
			t.Errorf("%v: exit %d, want %d", args, code, exitUsage)
		}
	}
}
