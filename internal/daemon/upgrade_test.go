package daemon

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/pipeline"
	"stoplog/internal/rules"
)

// TestStateOfVersion1 reads the state that commit b6534cb wrote: blocks by a
// rule and by hand, an allowance, buckets, windows and positions.
func TestStateOfVersion1(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/state-1")); err != nil {
		t.Fatal(err)
	}
	info, err := os.ReadFile(filepath.Join(dir, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	set, problems := rules.LoadBytes("rules.yaml", info, "")
	if set == nil {
		t.Fatal(problems)
	}
	now := time.Date(2026, 11, 22, 7, 37, 30, 0, time.UTC)
	l, rec, err := ledger.Open(dir, now, ledger.Options{})
	if err != nil || len(rec.Notes) > 0 {
		t.Fatalf("%v, %q", err, rec.Notes)
	}
	defer l.Close()
	got := map[string][2]int{}
	for _, b := range l.List(now) {
		got[b.Prefix.String()] = [2]int{b.Count, b.Points}
	}
	want := map[string][2]int{"192.0.2.0/28": {6, 6}, "198.51.100.0/28": {6, 6}, "2001:db8:5::/64": {0, 0}}
	if len(got) != len(want) {
		t.Errorf("got blocks %v, want %v", got, want)
	}
	for p, n := range want {
		if got[p] != n {
			t.Errorf("%s: got count and points %v, want %v", p, got[p], n)
		}
	}
	if as := l.Allowances(now); len(as) != 1 || as[0].Prefix.String() != "192.0.2.200/32" {
		t.Errorf("got allowances %v", as)
	}
	e := detect.New(set, detect.Options{Seed: 1})
	if err := e.Restore(rec.Parts[partEngine]); err != nil {
		t.Fatal(err)
	}
	levels := 0
	for _, v := range e.Levels(netip.MustParseAddr("203.0.113.7"), now.UnixNano()) {
		if v.Level == 3 {
			levels++
		}
	}
	if levels != 3 {
		t.Errorf("got %d levels of 3, want three: %+v", levels, e.Levels(netip.MustParseAddr("203.0.113.7"), now.UnixNano()))
	}
	compiled, err := pipeline.Compile(set, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if err := pipeline.New(compiled, e, l).Sessions.UnmarshalBinary(rec.Parts[partSessions]); err != nil {
		t.Errorf("sessions: %v", err)
	}
}
