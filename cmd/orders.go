package cmd

import (
	"bufio"
	"context"
	"errors"
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

// orderFlags are the options of every change by hand.
type orderFlags struct {
	ttl    string
	reason string
}

func (f *orderFlags) add(c *cobra.Command, ttlHelp string) {
	c.Flags().StringVar(&f.ttl, "ttl", "", ttlHelp)
	c.Flags().StringVar(&f.reason, "reason", "", "reason, for the audit trail")
}

// order checks the target here, so that a typo is told without a daemon.
func (f *orderFlags) order(target string) (control.Order, error) {
	o := control.Order{Target: target, Reason: f.reason}
	if _, err := parseTarget(target); err != nil {
		return o, err
	}
	if f.ttl != "" {
		d, err := rules.ParseDuration(f.ttl)
		if err != nil || d <= 0 {
			return o, usage("--ttl %s: expected a duration such as 90s, 10m, 7d or 2w", f.ttl)
		}
		o.TTL = d
	}
	return o, nil
}

// parseTarget reads an address or a prefix; names are never looked up.
func parseTarget(s string) (netip.Prefix, error) {
	p, ok := rules.ParsePrefix(s)
	if !ok {
		return p, usage("%q is not an IP address or prefix (such as 192.0.2.7 or 2001:db8::/64)", s)
	}
	return p, nil
}

// result is what one order did: the shape of --json on orders.
type result struct {
	Target string   `json:"target,omitempty"`
	Lines  []string `json:"lines,omitempty"`
	Error  string   `json:"error,omitempty"`
}

// answer prints what an order did.
func answer(e *env, target string, a control.Answer, err error) error {
	if e.json {
		r := result{Target: target, Lines: a.Lines}
		if err != nil {
			r.Error = err.Error()
		}
		return errors.Join(err, jsonLines(e.out, []result{r}))
	}
	if err != nil {
		return err
	}
	for _, l := range a.Lines {
		fmt.Fprintln(e.out, plain(l))
	}
	return nil
}

// targetsHelp is for every command that takes several.
const targetsHelp = `Several addresses and prefixes may be given; - reads them from standard input,
one per line or separated by blanks, with comments after #. If one of them is
malformed, nothing is done.`

func blockCmd(e *env) *cobra.Command {
	var f orderFlags
	c := withJSON(e, &cobra.Command{
		Use:     "block ADDR|PREFIX…",
		Aliases: []string{"ban"},
		Short:   "Block addresses or prefixes for a while",
		Long:    "Block addresses or prefixes for a while.\n\n" + targetsHelp,
		Example: `  stoplog block 192.0.2.7 --ttl 1h --reason "asked by abuse desk"
  stoplog block 2001:db8::/64 198.51.100.0/24
  stoplog block - --ttl 1d < addresses.txt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runOrders(c.Context(), e, &f, args, (*control.Client).Block)
		},
	})
	f.add(c, "how long (default: the rules' block.ttl)")
	return c
}

func unblockCmd(e *env) *cobra.Command {
	var f orderFlags
	var yes, all bool
	c := withJSON(e, &cobra.Command{
		Use:     "unblock ADDR|PREFIX…",
		Aliases: []string{"unban"},
		Short:   "Lift every block that covers an address or lies within a prefix, and empty the buckets",
		Long: `Lift every block that covers an address or lies within a prefix, and empty the
buckets. If that is more than one block, unblock asks on a terminal; elsewhere
it needs --yes.

` + targetsHelp,
		Args: func(c *cobra.Command, args []string) error {
			if all {
				return cobra.NoArgs(c, args)
			}
			return cobra.MinimumNArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if all {
				return runUnblockAll(c.Context(), e, &f, yes)
			}
			return runUnblock(c.Context(), e, &f, args, yes)
		},
	})
	c.Flags().BoolVar(&all, "all", false, "lift every block")
	c.Flags().StringVar(&f.reason, "reason", "", "reason, for the audit trail")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask, however many blocks are lifted")
	return arguments(e, c, 0, blockedPrefixes)
}

// Bounds of the targets of one command.
const (
	maxTargets    = 10000
	maxTargetText = 1 << 20
)

// readTargets gives the orders of all targets, or the first mistake. "-" is
// standard input.
func readTargets(e *env, f *orderFlags, args []string) ([]control.Order, error) {
	var words []string
	for _, a := range args {
		if a != "-" {
			words = append(words, a)
			continue
		}
		text, err := io.ReadAll(io.LimitReader(e.in, maxTargetText+1))
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		if len(text) > maxTargetText {
			return nil, usage("standard input is longer than %d bytes", maxTargetText)
		}
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			words = append(words, strings.Fields(line)...)
		}
	}
	if len(words) > maxTargets {
		return nil, usage("%d addresses are too many for one command; the limit is %d", len(words), maxTargets)
	}
	orders := make([]control.Order, len(words))
	for i, w := range words {
		var err error
		if orders[i], err = f.order(w); err != nil {
			return nil, err
		}
	}
	if len(orders) == 0 {
		return nil, usage("standard input names no address")
	}
	return orders, nil
}

type giveOrder func(*control.Client, context.Context, control.Order) (control.Answer, error)

func runOrders(ctx context.Context, e *env, f *orderFlags, args []string, do giveOrder) error {
	orders, err := readTargets(e, f, args)
	if err != nil {
		return err
	}
	c := e.client()
	defer c.Close()
	return giveAll(ctx, e, c, orders, do)
}

// giveAll gives every order, also after one failed; the errors are joined.
// Without a daemon, or once ctx has ended, it gives up.
func giveAll(ctx context.Context, e *env, c *control.Client, orders []control.Order, do giveOrder) error {
	var errs []error
	for _, o := range orders {
		a, err := do(c, ctx, o)
		err = answer(e, o.Target, a, err)
		if err != nil && len(orders) > 1 && !errors.Is(err, control.ErrNoDaemon) {
			err = fmt.Errorf("%s: %w", o.Target, err)
		}
		errs = append(errs, err)
		if errors.Is(err, control.ErrNoDaemon) || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func runUnblock(ctx context.Context, e *env, f *orderFlags, args []string, yes bool) error {
	orders, err := readTargets(e, f, args)
	if err != nil {
		return err
	}
	c := e.client()
	defer c.Close()
	if !yes {
		if err := confirmUnblock(ctx, e, c, orders, slices.Contains(args, "-")); err != nil {
			return err
		}
	}
	return giveAll(ctx, e, c, orders, (*control.Client).Unblock)
}

// runUnblockAll lifts every block, of the address families that have any.
func runUnblockAll(ctx context.Context, e *env, f *orderFlags, yes bool) error {
	c := e.client()
	defer c.Close()
	blocks, err := c.List(ctx)
	if err != nil {
		return err
	}
	var orders []control.Order
	for _, target := range []string{"0.0.0.0/0", "::/0"} {
		v6 := target == "::/0"
		if slices.ContainsFunc(blocks, func(b control.Block) bool { return strings.Contains(b.Prefix, ":") == v6 }) {
			orders = append(orders, control.Order{Target: target, Reason: f.reason})
		}
	}
	if len(orders) == 0 {
		return answer(e, "", control.Answer{Lines: []string{"nothing is blocked"}}, nil)
	}
	if !yes {
		if err := confirmUnblock(ctx, e, c, orders, false); err != nil {
			return err
		}
	}
	return giveAll(ctx, e, c, orders, (*control.Client).Unblock)
}

// confirmUnblock asks when more than one block would be lifted. It returns nil
// to go on. piped: standard input held the targets, so that no answer can come.
func confirmUnblock(ctx context.Context, e *env, c *control.Client, orders []control.Order, piped bool) error {
	var prefixes []string
	more := 0
	for _, o := range orders {
		x, err := c.Explain(ctx, o.Target)
		if err != nil {
			return err
		}
		for _, b := range slices.Concat(x.Blocked, x.Inside) {
			if !slices.Contains(prefixes, b.Prefix) && len(prefixes) < maxTargets {
				prefixes = append(prefixes, b.Prefix)
			}
		}
		more += x.InsideTotal - len(x.Inside)
	}
	n := len(prefixes) + more
	if n <= 1 {
		return nil
	}
	const shown = 10
	list := strings.Join(prefixes[:min(len(prefixes), shown)], ", ")
	if n > shown {
		list += ", …"
	}
	if piped || !isTerminal(e.in) || !isTerminal(e.errw) {
		return usage("this lifts %s (%s); add --yes to do it", plural(n, "block"), list)
	}
	fmt.Fprintf(e.errw, "This lifts %s: %s\nGo on? [y/N] ", plural(n, "block"), list)
	line, _ := bufio.NewReader(io.LimitReader(e.in, 100)).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(line)); a == "y" || a == "yes" {
		return nil
	}
	return coded{exitRuntime, errors.New("nothing was changed")}
}

func allowCmd(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "allow",
		Short: "Manage addresses that are never counted or blocked",
	}
	var f orderFlags
	add := withJSON(e, &cobra.Command{
		Use:     "add ADDR|PREFIX…",
		Short:   "Never block addresses or prefixes; lifts their blocks",
		Long:    "Never block addresses or prefixes; lifts their blocks.\n\n" + targetsHelp,
		Example: "  stoplog allow add 192.0.2.7 --ttl 7d --reason \"new office\"",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runOrders(c.Context(), e, &f, args, (*control.Client).Allow)
		},
	})
	f.add(add, "how long (default: for good)")
	var r orderFlags
	remove := withJSON(e, &cobra.Command{
		Use:   "remove ADDR|PREFIX…",
		Short: "Remove an entry that was added with allow add",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runOrders(c.Context(), e, &r, args, (*control.Client).Disallow)
		},
	})
	list := withJSON(e, &cobra.Command{
		Use:   "list",
		Short: "List allowed prefixes and where they come from",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runAllowList(c.Context(), e) },
	})
	c.AddCommand(add, arguments(e, remove, 0, allowedByHand), list)
	return c
}

func runAllowList(ctx context.Context, e *env) error {
	c := e.client()
	defer c.Close()
	as, err := c.Allowed(ctx)
	if err != nil {
		return err
	}
	if e.json {
		return jsonLines(e.out, as)
	}
	rows := make([][]string, len(as))
	for i, a := range as {
		until := "for good"
		if a.Until != nil {
			until = stamp(*a.Until)
		}
		rows[i] = []string{a.Prefix, until, plain(a.Origin), cell(a.Reason, 40), cell(a.By, 20)}
	}
	return table(e.out, "PREFIX\tUNTIL\tFROM\tREASON\tBY", rows)
}

func flagCmd(e *env) *cobra.Command {
	c := &cobra.Command{Use: "flag", Short: "Manage flags: named conditions that expire"}
	list := withJSON(e, &cobra.Command{
		Use: "list", Short: "List raised flags", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runFlagList(c.Context(), e) },
	})
	span := "2h"
	set := withJSON(e, &cobra.Command{
		Use: "set NAME", Short: "Raise a flag for a time", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			d, err := rules.ParseDuration(span)
			if err != nil || d <= 0 {
				return usage("--ttl %s: expected a duration such as 90s, 10m or 7d", span)
			}
			return runFlag(c.Context(), e, control.FlagOrder{Name: args[0], For: d}, (*control.Client).SetFlag)
		},
	})
	set.Flags().StringVar(&span, "ttl", span, "how long")
	set.Flags().StringVar(&span, "for", span, "the same as --ttl")
	clearc := withJSON(e, &cobra.Command{
		Use: "clear NAME", Short: "Lower a flag", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runFlag(c.Context(), e, control.FlagOrder{Name: args[0]}, (*control.Client).ClearFlag)
		},
	})
	c.AddCommand(list, set, arguments(e, clearc, 1, raisedFlags))
	return c
}

func runFlag(ctx context.Context, e *env, o control.FlagOrder, do func(*control.Client, context.Context, control.FlagOrder) (control.Answer, error)) error {
	c := e.client()
	defer c.Close()
	a, err := do(c, ctx, o)
	return answer(e, o.Name, a, err)
}

func runFlagList(ctx context.Context, e *env) error {
	c := e.client()
	defer c.Close()
	fs, err := c.Flags(ctx)
	if err != nil {
		return err
	}
	if e.json {
		return jsonLines(e.out, fs)
	}
	rows := make([][]string, len(fs))
	for i, f := range fs {
		rows[i] = []string{f.Name, stamp(f.Until), "in " + ago(time.Until(f.Until)), cell(f.By, 20)}
	}
	return table(e.out, "FLAG\tUNTIL\tENDS\tBY", rows)
}

func reloadCmd(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Reload the rules; a file with mistakes changes nothing",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runReload(c.Context(), e) },
	}
}

func runReload(ctx context.Context, e *env) error {
	c := e.client()
	defer c.Close()
	a, err := c.Reload(ctx)
	if err != nil {
		return err
	}
	if len(a.Problems) > 0 {
		for _, p := range a.Problems {
			fmt.Fprintln(e.errw, plain(p))
		}
		return coded{exitRules, fmt.Errorf("the rules have %s; the old rules stay in use", plural(len(a.Problems), "mistake"))}
	}
	return answer(e, "", a, nil)
}
