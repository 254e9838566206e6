package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/control"
)

func statusCmd(e *env) *cobra.Command {
	c := withJSON(e, &cobra.Command{
		Use:   "status [RULE]",
		Short: "Show the daemon's state, or that of one rule: sources, rules, firewall, problems",
		Long: `Show the daemon's state: its sources, rules, firewall and problems. With the
name of a rule (an imported jail's is the same), show what it matched and blocks.`,
		Example: "  stoplog status\n  stoplog status sshd",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return runStatusOf(c.Context(), e, args[0])
			}
			return runStatus(c.Context(), e)
		},
	})
	return arguments(e, c, 1, liveRules)
}

func runStatus(ctx context.Context, e *env) error {
	c := e.client()
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if e.json {
		return jsonLines(e.out, []control.Status{s})
	}
	return e.long(ctx, func(w io.Writer) error { return printStatus(w, s, time.Now()) })
}

func printStatus(w io.Writer, s control.Status, now time.Time) error {
	dry := ""
	if s.DryRun {
		dry = ", dry run: nothing is really blocked"
	}
	fmt.Fprintf(w, "stoplog %s is %s%s (pid %d, up %s)\n", plain(s.Version), plain(s.State), dry, s.PID, ago(now.Sub(s.Started)))
	for _, t := range s.Trouble {
		fmt.Fprintln(w, "  !", plain(oneLine(t)))
	}
	for _, n := range s.Notes {
		fmt.Fprintln(w, "  -", plain(n))
	}
	fmt.Fprintf(w, "\nrules      %s\nrights     %s\nblocks     %d\nlines      %d, %d understood%s\nbuckets    %d of %d%s\nknown-good %d\nmemory     %.1f MB\n",
		plain(s.Rules), plain(s.Rights), s.Blocks, s.Lines, s.Events, share(s.Unknown, s.Lines), s.Buckets, s.BucketCap, evicted(s.Evicted), s.KnownGood, float64(s.MemoryKiB)/1024)
	for _, f := range s.Flags {
		fmt.Fprintf(w, "flag       %s for another %s\n", f.Name, ago(f.Until.Sub(now)))
	}
	if s.Fleet != nil {
		for _, l := range fleetLines(s.Fleet) {
			fmt.Fprintln(w, l)
		}
	}
	for _, d := range s.Doors {
		fmt.Fprintln(w, plain(d))
	}
	fmt.Fprintln(w)
	if err := table(w, "SOURCE\tSTATE\tLINES\tEVENTS\tLAG\tREMARK", sourceRows(s.Sources)); err != nil {
		return err
	}
	if n := len(s.Sources) - len(slices.DeleteFunc(slices.Clone(s.Sources), absent)); n > 0 {
		fmt.Fprintf(w, "(%d more places of the built-in rules have no log yet; --json lists them)\n", n)
	}
	fmt.Fprintln(w)
	walls := make([][]string, len(s.Backends))
	for i, b := range s.Backends {
		walls[i] = []string{plain(b.Name), plain(wallState(b.State)), fmt.Sprint(b.Entries), plain(b.Why)}
	}
	if err := table(w, "WALL\tSTATE\tENTRIES\tREMARK", walls); err != nil {
		return err
	}
	fmt.Fprintln(w)
	rows := make([][]string, len(s.RuleStats))
	for i, r := range s.RuleStats {
		rows[i] = []string{plain(r.Name), fmt.Sprint(r.Matched), fmt.Sprint(r.Breaches), r.Mode}
	}
	return table(w, "RULE\tMATCHED\tBREACHES\tMODE", rows)
}

func share(n, of uint64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.1f %% not recognised)", 100*float64(n)/float64(of))
}

func evicted(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d pushed out)", n)
}

// absent reports whether s is only a place that a log might appear in.
func absent(s control.SourceStatus) bool {
	return s.Ready != "" && s.State == "waiting" && (s.Why == "missing" || s.Why == "no file matches")
}

// oneLine joins what a program said on several lines.
func oneLine(s string) string {
	return strings.Join(slices.Collect(strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\n' })), "; ")
}

// wallState leaves what is long to the troubles at the top.
func wallState(s string) string {
	if len(s) > 40 {
		return "failing, see above"
	}
	return s
}

func sourceRows(ss []control.SourceStatus) [][]string {
	rows := make([][]string, 0, len(ss))
	for _, s := range ss {
		if absent(s) {
			continue
		}
		remark := s.Why
		if s.SkewMs != 0 {
			remark += fmt.Sprintf(" stamps are %s off", time.Duration(s.SkewMs)*time.Millisecond)
		}
		if s.Cut > 0 {
			remark += fmt.Sprintf(" %d lines too long, cut", s.Cut)
		}
		if s.OverLimit > 0 {
			remark += fmt.Sprintf(" %d lines were too long for the filter of %s, or took it too many steps: not counted", s.OverLimit, s.OverLimitOf)
		}
		if s.Foreign > 0 {
			remark += fmt.Sprintf(" %d entries by other units than the service's: ignored (%s)", s.Foreign, s.Foreigner)
		}
		rows = append(rows, []string{plain(s.Name), plain(s.State), fmt.Sprint(s.Lines), fmt.Sprint(s.Events), fmt.Sprint(s.LagByte), plain(remark)})
	}
	return rows
}
