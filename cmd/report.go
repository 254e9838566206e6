package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/api"
	"stoplog/internal/control"
	"stoplog/internal/rules"
)

type reportOptions struct {
	since string
	state string
	top   int
}

const (
	maxAsked = 10_000  // entries that the daemon gives at once
	maxRead  = 200_000 // entries read from a state folder
)

func reportCmd(e *env) *cobra.Command {
	var o reportOptions
	c := withJSON(e, &cobra.Command{
		Use:   "report",
		Short: "Show statistics of past blocks",
		Long: `Show statistics of past blocks by day, hour, rule, prefix and network, from the
audit trail. The daemon is asked; without one, or with --state, the state
directory is read.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runReport(c.Context(), e, o) },
	})
	c.Flags().StringVar(&o.since, "since", "7d", "period, such as 24h or 30d")
	c.Flags().StringVar(&o.state, "state", "", "read this state directory instead of asking the daemon")
	c.Flags().IntVar(&o.top, "top", 10, "maximum rows in each table")
	return c
}

func runReport(ctx context.Context, e *env, o reportOptions) error {
	span, err := rules.ParseDuration(o.since)
	if err != nil || span <= 0 || span > 10*365*24*time.Hour {
		return usage("--since %s: expected a duration such as 24h or 7d", o.since)
	}
	if o.top < 1 {
		return usage("--top %d: expected at least 1", o.top)
	}
	now := time.Now()
	as, partial, err := auditSince(ctx, e, o.state, now.Add(-span))
	if err != nil {
		return err
	}
	t := countAudit(as, now.Add(-span), now, time.Local, o.top)
	t.Partial = partial
	if e.json {
		return jsonLines(e.out, []tally{t})
	}
	return e.long(ctx, func(w io.Writer) error { return printReport(w, t, width(e.out)) })
}

// auditSince gets the audit trail from the daemon or from a folder; partial
// tells that there was more than is given.
func auditSince(ctx context.Context, e *env, state string, since time.Time) (as []control.AuditEntry, partial bool, err error) {
	if state == "" {
		c := e.client()
		defer c.Close()
		as, err = c.History(ctx, control.HistoryQuery{Since: since, Limit: maxAsked})
		if !errors.Is(err, control.ErrNoDaemon) {
			return as, len(as) == maxAsked, err
		}
		down := err
		if as, err = api.History(defaultState, since, maxRead); err != nil {
			return nil, false, fmt.Errorf("%w; %w", down, err)
		}
		return as, len(as) == maxRead, nil
	}
	as, err = api.History(state, since, maxRead)
	return as, len(as) == maxRead, err
}

// printReport prints tables of so many columns of characters (0: any number).
func printReport(w io.Writer, t tally, columns int) error {
	fmt.Fprintf(w, "%s to %s: %s, %d of them by hand\n", stamp(t.Since), stamp(t.Until), plural(t.Blocks, "block"), t.ByHand)
	if t.Partial {
		fmt.Fprintln(w, "Older entries were left out; --state DIR reads all of them.")
	}
	fmt.Fprintln(w)
	most := 0
	for _, d := range t.Days {
		most = max(most, d.Blocks)
	}
	rows := make([][]string, len(t.Days))
	for i, d := range t.Days {
		rows[i] = []string{d.Day, fmt.Sprint(d.Blocks), fmt.Sprint(d.Unblocks), fmt.Sprint(d.Told), bars(d.Blocks, most, room(columns, 40, 10, 6, 8, 4))}
	}
	if err := table(w, "DAY\tBLOCKS\tUNBLOCKS\tTOLD\t", rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nBY HOUR OF THE DAY\n%s\n0     6     12    18\n", spark(t.Hours[:]))
	for _, x := range []struct {
		head string
		cs   []count
	}{{"RULE", t.Rules}, {"PREFIX", t.Prefixes}, {"NETWORK", t.Networks}} {
		if len(x.cs) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := table(w, x.head+"\tBLOCKS\tPREFIXES\tEVENTS\tLAST\t", countRows(x.cs, columns)); err != nil {
			return err
		}
	}
	return nil
}

func countRows(cs []count, columns int) [][]string {
	name := 6
	for _, c := range cs {
		name = max(name, len([]rune(cell(c.Name, 48))))
	}
	rows := make([][]string, len(cs))
	for i, c := range cs {
		rows[i] = []string{cell(c.Name, 48), fmt.Sprint(c.Blocks), fmt.Sprint(c.Prefixes), fmt.Sprint(c.Events), stamp(c.Last), bars(c.Blocks, cs[0].Blocks, room(columns, 20, name, 6, 8, 6, len(stamp(c.Last))))}
	}
	return rows
}

// room is what columns of these widths, two apart, leave of the screen for a
// bar, at most so much and at least one.
func room(columns, most int, widths ...int) int {
	if columns == 0 {
		return most
	}
	for _, n := range widths {
		columns -= n + 2
	}
	return max(1, min(most, columns))
}

// bars draws n of most in eighths of a character, at least one when n is any.
func bars(n, most, width int) string {
	if n <= 0 || most <= 0 {
		return ""
	}
	eighths := max(1, n*width*8/most)
	s := strings.Repeat("█", eighths/8)
	if r := eighths % 8; r > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[r-1])
	}
	return s
}

// spark draws one column a number; a dot is none.
func spark(ns []int) string {
	most := 0
	for _, n := range ns {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range ns {
		if n == 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[(n*8-1)/most])
	}
	return b.String()
}
