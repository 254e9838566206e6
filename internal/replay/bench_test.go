package replay

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"stoplog/hack/sshday/day"
	"stoplog/internal/rules"
)

// sshDay writes a day of n sshd lines, 43 % of whose sources are seen once,
// and returns its path.
func sshDay(tb testing.TB, n int) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "auth.log")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if err := day.Write(f, n); err != nil {
		tb.Fatal(err)
	}
	return path
}

// exampleRules are the built-in rules.
func exampleRules(tb testing.TB) *rules.Set {
	tb.Helper()
	b, err := os.ReadFile("../../rules.example.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	set, problems := rules.LoadBytes("rules.example.yaml", b, "")
	if set == nil {
		tb.Fatal(problems)
	}
	return set
}

// BenchmarkReplay is the whole pipeline over a million sshd lines with all
// default rules on; its time is that of one replay.
func BenchmarkReplay(b *testing.B) {
	const lines = 1_000_000
	path, set := sshDay(b, lines), exampleRules(b)
	for b.Loop() {
		sum, err := Run(context.Background(), Options{Set: set, Files: []string{path}, Zone: time.UTC}, func(Answer) error { return nil })
		if err != nil || sum.Lines != lines || sum.Blocks == 0 {
			b.Fatalf("%+v, %v", sum, err)
		}
	}
	b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
