package cmd

import (
	"cmp"
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
		Short: "List live blocks with their rule and end",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runList(c.Context(), e, o) },
	})
	c.Flags().StringVar(&o.sort, "sort", "until", "sort by until, since, prefix, rule or count")
	c.Flags().StringVar(&o.rule, "rule", "", "only blocks by this rule")
	complete(c, "sort", "until", "since", "prefix", "rule", "count")
	give(c, "rule", liveRules, e)
	c.Flags().StringVar(&o.in, "in", "", "only blocks that overlap this address or prefix")
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "refresh every second until ^C")
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
		if err := knownRule(ctx, c, o.rule, bs); err != nil {
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
		columns := width(e.out)
		if o.watch {
			return printBlocks(w, bs, time.Now(), columns)
		}
		return e.long(ctx, func(w io.Writer) error { return printBlocks(w, bs, time.Now(), columns) })
	}
	if o.watch {
		return watch(ctx, e, show)
	}
	return show(e.out)
}

// knownRule reports a rule that neither the daemon nor a block knows: a typo
// must not look like an empty list.
func knownRule(ctx context.Context, c *control.Client, rule string, bs []control.Block) error {
	// Not rules of the file: blocks by hand, of the deny list, of whole
	// networks, and those found in the firewall.
	names := []string{"by hand", "deny", "widen", "found"}
	if rule == "" || slices.Contains(names, rule) || slices.ContainsFunc(bs, func(b control.Block) bool { return b.Rule == rule }) {
		return nil
	}
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	names = nil
	for _, r := range s.RuleStats {
		if r.Name == rule {
			return nil
		}
		names = append(names, r.Name)
	}
	return usage("--rule %s: no such rule; the rules are %s", rule, strings.Join(names, ", "))
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
	return nil, usage("--sort %s: expected until, since, prefix, rule or count", by)
}

func comparePrefix(a, b string) int {
	p, errP := netip.ParsePrefix(a)
	q, errQ := netip.ParsePrefix(b)
	if errP != nil || errQ != nil {
		return strings.Compare(a, b)
	}
	return p.Compare(q)
}

// printBlocks prints a table; columns is the width of the terminal, 0 for any.
func printBlocks(w io.Writer, bs []control.Block, now time.Time, columns int) error {
	if len(bs) == 0 {
		_, err := fmt.Fprintln(w, "no blocks")
		return err
	}
	// Columns that only repeat another are left out.
	points := slices.ContainsFunc(bs, func(b control.Block) bool { return b.Points != b.Count })
	backends := slices.ContainsFunc(bs, func(b control.Block) bool { return b.Backend != bs[0].Backend })
	reasons := slices.ContainsFunc(bs, saysMore)
	header := []string{"PREFIX", "RULE", "COUNT", "SINCE", "ENDS"}
	if points {
		header = slices.Insert(header, 3, "POINTS")
	}
	if backends {
		header = append(header, "BACKEND")
	}
	if reasons {
		header = append(header, "REASON")
	}
	rows := make([][]string, len(bs))
	for i, b := range bs {
		r := []string{b.Prefix, cell(b.Rule, 24), fmt.Sprint(b.Count), shortStamp(b.Since, now), "in " + ago(b.Until.Sub(now))}
		if points {
			r = slices.Insert(r, 3, fmt.Sprint(b.Points))
		}
		if backends {
			r = append(r, plain(b.Backend))
		}
		if reasons {
			reason := ""
			if saysMore(b) {
				reason = cell(b.Reason, 200)
			}
			r = append(r, reason)
		}
		rows[i] = r
	}
	return fitted(w, header, rows, columns)
}

// saysMore reports whether a reason says what the other columns do not.
func saysMore(b control.Block) bool {
	return b.Reason != "" && b.Reason != fmt.Sprintf("%d failures by %s", b.Count, b.Prefix) && b.Reason != fmt.Sprintf("%d failure by %s", b.Count, b.Prefix)
}

func historyCmd(e *env) *cobra.Command {
	var since string
	var limit int
	c := withJSON(e, &cobra.Command{
		Use:   "history [ADDR|PREFIX]",
		Short: "List past blocks, unblocks and orders, newest first",
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
					return usage("--since %s: expected a duration such as 24h or 7d", since)
				}
				q.Since = time.Now().Add(-d)
			}
			return runHistory(c.Context(), e, q)
		},
	})
	c.Flags().StringVar(&since, "since", "", "only entries of the last 24h, 7d, …")
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of entries")
	return arguments(e, c, 1, blockedPrefixes)
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
	return e.long(ctx, func(w io.Writer) error { return printHistory(w, as, time.Now(), width(e.out)) })
}

func printHistory(w io.Writer, as []control.AuditEntry, now time.Time, columns int) error {
	rows := make([][]string, len(as))
	for i, a := range as {
		rows[i] = []string{shortStamp(a.Time, now), plain(a.What), a.Prefix, cell(a.Rule, 24), a.TTL, cell(a.By, 16), cell(a.Reason, 200)}
	}
	return fitted(w, []string{"WHEN", "WHAT", "PREFIX", "RULE", "TTL", "BY", "REASON"}, rows, columns)
}

func explainCmd(e *env) *cobra.Command {
	var o lineOptions
	c := withJSON(e, &cobra.Command{
		Use:   "explain ADDR|PREFIX | --line TEXT",
		Short: "Explain why an address is blocked or not, or follow one log line",
		Long: `Explain whether an address is blocked, why, and what would change that.
With --line, follow one log line through the parser, every rule and its buckets,
step by step. The buckets are those of the running daemon, which are not
changed; without a daemon, or with --config, they are empty.`,
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
	c.Flags().StringVar(&o.text, "line", "", "the log line to follow; - reads it from standard input")
	c.Flags().StringVar(&o.config, "config", "", "with --line: use this rules file instead of asking the daemon")
	c.Flags().StringVar(&o.service, "service", "", "with --line: the service that wrote it (sshd, postfix…)")
	give(c, "service", services, e)
	c.Flags().StringVar(&o.source, "source", "", "with --line: the file it would be in, to use the settings of that source")
	return arguments(e, c, 1, blockedPrefixes)
}

func runExplain(ctx context.Context, e *env, addr string) error {
	p, err := parseTarget(addr)
	if err != nil {
		return err
	}
	c := e.client()
	defer c.Close()
	x, err := c.Explain(ctx, p.String())
	if err != nil {
		return err
	}
	if e.json {
		return jsonLines(e.out, []control.Explanation{x})
	}
	return e.long(ctx, func(w io.Writer) error { return printExplanation(w, x, time.Now(), width(e.out)) })
}

func printExplanation(w io.Writer, x control.Explanation, now time.Time, columns int) error {
	var b strings.Builder
	what := cmp.Or(x.Prefix, x.Addr)
	switch {
	case len(x.Blocked) > 0:
	case x.InsideTotal > 0:
		fmt.Fprintf(&b, "%s is not blocked as a whole.\n", what)
	default:
		fmt.Fprintf(&b, "%s is not blocked.\n", what)
	}
	for _, k := range x.Blocked {
		fmt.Fprintf(&b, "%s is blocked%s %s since %s, until %s (in %s).\n", what, asPart(what, k.Prefix), byWhom(k), stamp(k.Since), stamp(k.Until), ago(k.Until.Sub(now)))
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
	if x.InsideTotal > 0 {
		fmt.Fprintf(&b, "Blocked inside it: %s\n", prefixesOf(x.Inside, x.InsideTotal))
	}
	if x.NearTotal > 0 {
		fmt.Fprintf(&b, "Blocked nearby, in %s: %s\n", x.NearNet, prefixesOf(x.Near, x.NearTotal))
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
	for _, l := range x.Fleet {
		fmt.Fprintf(&b, "Fleet: %s.\n", plain(l))
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
	return printHistory(w, x.History, now, columns)
}

// byWhom says what blocked: a rule, or somebody by hand.
func byWhom(b control.Block) string {
	if b.By != "" {
		return "by " + plain(b.By)
	}
	return "by the rule " + plain(b.Rule)
}

// asPart names the block's prefix unless it is what was asked about: the same
// prefix, or the one address.
func asPart(what, prefix string) string {
	if p, err := netip.ParsePrefix(prefix); what == prefix || err == nil && p.IsSingleIP() && p.Addr().String() == what {
		return ""
	}
	return " as part of " + prefix
}

// prefixesOf lists the first few blocks.
func prefixesOf(bs []control.Block, total int) string {
	var ps []string
	for _, b := range bs[:min(len(bs), 10)] {
		ps = append(ps, b.Prefix)
	}
	if n := total - len(ps); n > 0 {
		ps = append(ps, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(ps, ", ")
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
