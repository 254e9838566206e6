package runner

import (
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
)

// A program hears how long the block holds, whoever decided that.
func TestProgramsHearTheTTL(t *testing.T) {
	e := New(slog.New(slog.DiscardHandler))
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	br := &detect.Breach{At: since.UnixNano(), Rule: "r", Prefix: netip.MustParsePrefix("192.0.2.0/28")}
	set := ledger.Change{Op: ledger.Set, Block: ledger.Block{Prefix: br.Prefix, Since: since, Until: since.Add(40 * time.Minute)}}
	for want, changes := range map[string][]ledger.Change{"STOPLOG_TTL=40m": {set}, "STOPLOG_TTL=0s": nil} {
		e.Answer(br, ledger.Outcome{Answers: []detect.Answer{{Kind: detect.Exec, Argv: []string{"/bin/true"}}}, Changes: changes})
		if x := <-e.queue; !slices.Contains(x.env, want) {
			t.Errorf("got the environment %q, want %s", x.env, want)
		}
	}
}
