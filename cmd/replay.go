package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/daemon"
)

type replayOptions struct {
	config string
	zone   string
	stats  bool
}

func replayCmd(e *env) *cobra.Command {
	var o replayOptions
	c := withJSON(e, &cobra.Command{
		Use:   "replay FILE…|-",
		Short: "Tell what the rules would have done with logs of the past, touching nothing",
		Long: `Tell what the rules would have done with logs of the past, touching nothing.
Rotated and compressed files are put in order by their content's time.`,
		Example: "  stoplog replay /var/log/auth.log*",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return runReplay(c.Context(), e, o, args) },
	})
	c.Flags().StringVar(&o.config, "config", "", "the rules file (default "+DefaultRules+", or the built-in rules)")
	c.Flags().StringVar(&o.zone, "zone", "", "the time zone of stamps that name none (default: the machine's)")
	c.Flags().BoolVar(&o.stats, "stats", false, "say on standard error how fast it was and where the time went")
	return c
}

// replayBlock is the stable shape of a block in `replay --json`.
type replayBlock struct {
	Type   string `json:"type"`
	At     string `json:"at"`
	Rule   string `json:"rule"`
	Prefix string `json:"prefix"`
	TTL    string `json:"ttl"`
	Count  int    `json:"count"`
	Source string `json:"source"`
	Line   int64  `json:"line"`
}

type replaySummary struct {
	Type      string `json:"type"`
	Lines     uint64 `json:"lines"`
	Events    uint64 `json:"events"`
	Blocks    uint64 `json:"blocks"`
	Prevented uint64 `json:"prevented"`
}

func runReplay(ctx context.Context, e *env, o replayOptions, files []string) error {
	set, problems, _ := e.loadRules(o.config)
	if set == nil {
		return e.rulesError(problems)
	}
	zone, err := location(o.zone)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(e.out, 64<<10)
	defer w.Flush()
	show := replayText
	if e.json {
		show = replayJSON
	}
	sum, err := daemon.Replay(ctx, daemon.ReplayOptions{Set: set, Files: files, Zone: zone, Stdin: e.in}, func(b daemon.ReplayBlock) error { return show(w, b) })
	if err != nil {
		return err
	}
	for _, n := range sum.Notes {
		fmt.Fprintln(e.errw, "stoplog:", plain(n))
	}
	if e.json {
		s := replaySummary{"summary", sum.Lines, sum.Events, sum.Blocks, sum.Prevented}
		if err := json.NewEncoder(w).Encode(s); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(w, "%s, %d understood; %s; %d events would not have happened\n", plural(int(sum.Lines), "line"), sum.Events, plural(int(sum.Blocks), "block"), sum.Prevented)
	}
	if o.stats {
		printReplayStats(e.errw, sum)
	}
	return w.Flush()
}

func replayJSON(w io.Writer, b daemon.ReplayBlock) error {
	return json.NewEncoder(w).Encode(replayBlock{
		"block", b.At.UTC().Format(time.RFC3339Nano), b.Rule, b.Prefix.String(), b.TTL.String(), b.Count, b.Source, b.Line,
	})
}

func replayText(w io.Writer, b daemon.ReplayBlock) error {
	_, err := fmt.Fprintf(w, "%s  block %-20s for %-8s by %s: %d events, %s:%d\n", stamp(b.At), b.Prefix, b.TTL, plain(b.Rule), b.Count, plain(b.Source), b.Line)
	return err
}

func printReplayStats(w io.Writer, s daemon.ReplaySummary) {
	per := func(d time.Duration) string {
		if s.Lines == 0 {
			return "-"
		}
		return fmt.Sprintf("%d ns a line", d.Nanoseconds()/int64(s.Lines))
	}
	fmt.Fprintf(w, "%.0f lines/s: %s wall, parse %s (on %d goroutines), detect and ledger %s\n",
		float64(s.Lines)/s.Wall.Seconds(), per(s.Wall), per(s.Parse), s.Workers, per(s.Detect))
}
