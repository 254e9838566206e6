package cmd

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/control"
	"stoplog/internal/rules"
)

// listOptions choose and order what list shows.
type listOptions struct {
	sort string
	rule string
	in   string // only blocks that touch this prefix
	// watch shows the list again each second, until interrupted.
	watch bool
}

func listCmd(e *env) *cobra.Command {
	var o listOptions
	c := withJSON(e, &cobra.Command{
		Use:   "list",
		Short: "Show what is blocked now, by which rule, and until when",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runList(c.Context(), e, o) },
	})
	c.Flags().StringVar(&o.sort, "sort", "until", "order by: until, since, prefix, rule or count")
	c.Flags().StringVar(&o.rule, "rule", "", "only blocks of this rule")
	c.Flags().StringVar(&o.in, "in", "", "only blocks that touch this address or prefix")
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "show it again each second, until ^C")
	return c
}

func runList(ctx context.Context, e *env, o listOptions) error {
	less, err := blockOrder(o.sort)
	if err != nil {
		return err
	}
	var in netip.Prefix
	if o.in != "" {
		if in, err = parseTarget(o.in); err != nil {
			return err
		}
	}
	c := e.client()
	defer c.Close()
	show := func(w io.Writer) error {
		bs, err := c.List(ctx)
		if err != nil {
			return err
		}
		bs = slices.DeleteFunc(bs, func(b control.Block) bool {
			p, err := netip.ParsePrefix(b.Prefix)
			return o.rule != "" && b.Rule != o.rule || in.IsValid() && (err != nil || !p.Overlaps(in))
		})
		slices.SortStableFunc(bs, less)
		if e.json {
			return jsonLines(w, bs)
		}
		return printBlocks(w, bs, time.Now())
	}
	if o.watch {
		return watch(ctx, e, show)
	}
	return show(e.out)
}

func blockOrder(by string) (func(a, b control.Block) int, error) {
	switch by {
	case "until":
		return func(a, b control.Block) int { return a.Until.Compare(b.Until) }, nil
	case "since":
		return func(a, b control.Block) int { return b.Since.Compare(a.Since) }, nil
	case "prefix":
		return func(a, b control.Block) int { return comparePrefix(a.Prefix, b.Prefix) }, nil
	case "rule":
		return func(a, b control.Block) int { return strings.Compare(a.Rule, b.Rule) }, nil
	case "count":
		return func(a, b control.Block) int { return b.Count - a.Count }, nil
	}
	return nil, usage("--sort %s: one of until, since, prefix, rule, count is wanted", by)
}

func comparePrefix(a, b string) int {
	p, errP := netip.ParsePrefix(a)
	q, errQ := netip.ParsePrefix(b)
	if errP != nil || errQ != nil {
		return strings.Compare(a, b)
	}
	return p.Compare(q)
}

func printBlocks(w io.Writer, bs []control.Block, now time.Time) error {
	if len(bs) == 0 {
		_, err := fmt.Fprintln(w, "nothing is blocked")
		return err
	}
	rows := make([][]string, len(bs))
	for i, b := range bs {
		rows[i] = []string{b.Prefix, plain(b.Rule), fmt.Sprint(b.Count), stamp(b.Since), "in " + ago(b.Until.Sub(now)), plain(b.Backend), cell(b.Reason, 60)}
	}
	return table(w, "PREFIX\tRULE\tCOUNT\tSINCE\tENDS\tBACKEND\tREASON", rows)
}

func historyCmd(e *env) *cobra.Command {
	var since string
	var limit int
	c := withJSON(e, &cobra.Command{
		Use:   "history [ADDR|PREFIX]",
		Short: "Show what was blocked, unblocked and changed, newest first",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			q := control.HistoryQuery{Limit: limit}
			if len(args) == 1 {
				p, err := parseTarget(args[0])
				if err != nil {
					return err
				}
				q.Target = p.String()
			}
			if since != "" {
				d, err := rules.ParseDuration(since)
				if err != nil {
					return usage("--since %s: a time such as 24h or 7d is wanted", since)
				}
				q.Since = time.Now().Add(-d)
			}
			return runHistory(c.Context(), e, q)
		},
	})
	c.Flags().StringVar(&since, "since", "", "only the last, such as 24h or 7d")
	c.Flags().IntVar(&limit, "limit", 100, "at most so many")
	return c
}

func runHistory(ctx context.Context, e *env, q control.HistoryQuery) error {
	c := e.client()
	defer c.Close()
	as, err := c.History(ctx, q)
	if err != nil {
		return err
	}
	if e.json {
		return jsonLines(e.out, as)
	}
	return printHistory(e.out, as)
}

func printHistory(w io.Writer, as []control.AuditEntry) error {
	rows := make([][]string, len(as))
	for i, a := range as {
		rows[i] = []string{stamp(a.Time), plain(a.What), a.Prefix, plain(a.Rule), a.TTL, cell(a.By, 16), cell(a.Reason, 60)}
	}
	return table(w, "WHEN\tWHAT\tPREFIX\tRULE\tTTL\tBY\tREASON", rows)
}

func explainCmd(e *env) *cobra.Command {
	var o lineOptions
	c := withJSON(e, &cobra.Command{
		Use:   "explain ADDR | --line TEXT",
		Short: "Tell all that is known of an address, or what becomes of a log line",
		Long: `Tell all that is known of an address: blocked or not, why, and what would
change it. With --line, walk one log line through parsing, every rule's match
and its buckets, step by step: those of the running daemon, which stay as they
are, or empty ones where none runs or a rules file is named.`,
		Example: `  stoplog explain 192.0.2.7
  stoplog explain --line 'Failed password for root from 192.0.2.7 port 22 ssh2' --service sshd`,
		Args: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("line") {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("line") {
				return runExplainLine(c.Context(), e, o)
			}
			return runExplain(c.Context(), e, args[0])
		},
	})
	c.Flags().StringVar(&o.text, "line", "", "a log line to walk through; - reads it from standard input")
	c.Flags().StringVar(&o.config, "config", "", "with --line: the rules file, instead of asking the daemon")
	c.Flags().StringVar(&o.service, "service", "", "with --line: what wrote it (sshd, postfix…), to try first")
	c.Flags().StringVar(&o.source, "source", "", "with --line: the file it would stand in, for the settings of its source")
	return c
}

func runExplain(ctx context.Context, e *env, addr string) error {
	p, err := parseTarget(addr)
	if err != nil {
		return err
	}
	if !p.IsSingleIP() {
		return usage("explain wants one address, and %s is a prefix", p)
	}
	c := e.client()
	defer c.Close()
	x, err := c.Explain(ctx, p.Addr().String())
	if err != nil {
		return err
	}
	if e.json {
		return jsonLines(e.out, []control.Explanation{x})
	}
	return printExplanation(e.out, x, time.Now())
}

func printExplanation(w io.Writer, x control.Explanation, now time.Time) error {
	var b strings.Builder
	if len(x.Blocked) == 0 {
		fmt.Fprintf(&b, "%s is not blocked.\n", x.Addr)
	}
	for _, k := range x.Blocked {
		fmt.Fprintf(&b, "%s is blocked as part of %s %s since %s, until %s (in %s).\n", x.Addr, k.Prefix, byWhom(k), stamp(k.Since), stamp(k.Until), ago(k.Until.Sub(now)))
		if k.Reason != "" {
			fmt.Fprintf(&b, "  %s\n", plain(k.Reason))
		}
		for _, l := range k.Evidence {
			fmt.Fprintf(&b, "  | %s\n", cell(l, 400))
		}
		if k.Partial {
			b.WriteString("  | (and more lines, not kept)\n")
		}
	}
	for _, a := range x.Allowed {
		fmt.Fprintf(&b, "Allowed by %s (%s).\n", a.Prefix, plain(a.Origin))
	}
	for _, k := range x.KnownGood {
		fmt.Fprintf(&b, "Known-good: %s.\n", plain(k))
	}
	empty := 0
	for _, l := range x.Levels {
		if l.Level == 0 {
			empty++
			continue
		}
		fmt.Fprintf(&b, "Bucket %s of %s: %.1f of %d.\n", plain(l.Key), plain(l.Rule), l.Level, l.Capacity)
	}
	if empty > 0 {
		fmt.Fprintf(&b, "%s empty.\n", areEmpty(empty, len(x.Levels)))
	}
	for _, a := range x.Advice {
		fmt.Fprintln(&b, plain(a))
	}
	if _, err := io.WriteString(w, b.String()); err != nil || len(x.History) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return printHistory(w, x.History)
}

// byWhom says what blocked: a rule, or somebody by hand.
func byWhom(b control.Block) string {
	if b.By != "" {
		return "by " + plain(b.By)
	}
	return "by the rule " + plain(b.Rule)
}

func areEmpty(n, of int) string {
	switch {
	case n == of:
		return "All its buckets are"
	case n == 1:
		return "1 other bucket is"
	}
	return fmt.Sprintf("%d other buckets are", n)
}
