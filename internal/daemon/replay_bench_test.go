package daemon

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

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
	w := bufio.NewWriterSize(f, 1<<20)
	defer w.Flush()
	rnd := rand.New(rand.NewPCG(1, 2))
	addr := func() string {
		return fmt.Sprintf("%d.%d.%d.%d", 1+rnd.IntN(223), rnd.IntN(256), rnd.IntN(256), 1+rnd.IntN(254))
	}
	hot := make([]string, 3000)
	for i := range hot {
		hot[i] = addr()
	}
	users := []string{"root", "admin", "test", "oracle", "ubuntu", "git", "postgres", "user", "guest", "ftp"}
	day := time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)
	for i := range n {
		from := addr()
		if rnd.IntN(100) < 57 {
			from = hot[rnd.IntN(len(hot))]
		}
		u, port := users[rnd.IntN(len(users))], 1024+rnd.IntN(60000)
		var msg string
		switch k := rnd.IntN(20); {
		case k < 9:
			msg = fmt.Sprintf("Failed password for %s from %s port %d ssh2", u, from, port)
		case k < 12:
			msg = fmt.Sprintf("Failed password for invalid user %s from %s port %d ssh2", u, from, port)
		case k < 15:
			msg = fmt.Sprintf("Invalid user %s from %s port %d", u, from, port)
		case k < 17:
			msg = fmt.Sprintf("Connection closed by authenticating user %s %s port %d [preauth]", u, from, port)
		case k < 19:
			msg = fmt.Sprintf("Disconnected from invalid user %s %s port %d [preauth]", u, from, port)
		default:
			msg = fmt.Sprintf("Received disconnect from %s port %d:11: Bye Bye [preauth]", from, port)
		}
		at := day.Add(time.Duration(i) * 24 * time.Hour / time.Duration(n))
		fmt.Fprintf(w, "%s server sshd[%d]: %s\n", at.Format(time.Stamp), 1000+i%60000, msg)
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
		sum, err := Replay(context.Background(), ReplayOptions{Set: set, Files: []string{path}, Zone: time.UTC}, func(ReplayBlock) error { return nil })
		if err != nil || sum.Lines != lines || sum.Blocks == 0 {
			b.Fatalf("%+v, %v", sum, err)
		}
	}
	b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
