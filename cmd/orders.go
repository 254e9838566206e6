package cmd

import (
	"context"
	"fmt"
	"net/netip"
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
	c.Flags().StringVar(&f.reason, "reason", "", "why, for the audit trail")
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
			return o, usage("--ttl %s: a time such as 90s, 10m, 7d or 2w is wanted", f.ttl)
		}
		o.TTL = d
	}
	return o, nil
}

// parseTarget reads an address or a prefix; names are never looked up.
func parseTarget(s string) (netip.Prefix, error) {
	p, ok := rules.ParsePrefix(s)
	if !ok {
		return p, usage("%q is no address and no prefix (such as 192.0.2.7 or 2001:db8::/64)", s)
	}
	return p, nil
}

// answer prints what an order did.
func answer(e *env, a control.Answer, err error) error {
	if err != nil {
		return err
	}
	for _, l := range a.Lines {
		fmt.Fprintln(e.out, plain(l))
	}
	return nil
}

func blockCmd(e *env) *cobra.Command {
	var f orderFlags
	c := &cobra.Command{
		Use:   "block ADDR|PREFIX",
		Short: "Block an address or prefix for a while",
		Example: `  stoplog block 192.0.2.7 --ttl 1h --reason "asked by abuse desk"
  stoplog block 2001:db8::/64`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runOrder(c.Context(), e, &f, args[0], (*control.Client).Block)
		},
	}
	f.add(c, "how long (default: the rules' block.ttl)")
	return c
}

func unblockCmd(e *env) *cobra.Command {
	var f orderFlags
	c := &cobra.Command{
		Use:   "unblock ADDR|PREFIX",
		Short: "Lift every block that covers an address and empty its buckets",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runOrder(c.Context(), e, &f, args[0], (*control.Client).Unblock)
		},
	}
	c.Flags().StringVar(&f.reason, "reason", "", "why, for the audit trail")
	return c
}

func runOrder(ctx context.Context, e *env, f *orderFlags, target string, do func(*control.Client, context.Context, control.Order) (control.Answer, error)) error {
	o, err := f.order(target)
	if err != nil {
		return err
	}
	c := e.client()
	defer c.Close()
	a, err := do(c, ctx, o)
	return answer(e, a, err)
}

func allowCmd(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "allow",
		Short: "Exempt addresses from counting and blocking, for good or for a while",
	}
	var f orderFlags
	add := &cobra.Command{
		Use:     "add ADDR|PREFIX",
		Short:   "Exempt an address or prefix; what blocks it now no longer does",
		Example: "  stoplog allow add 192.0.2.7 --ttl 7d --reason \"new office\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runOrder(c.Context(), e, &f, args[0], (*control.Client).Allow)
		},
	}
	f.add(add, "how long (default: for good)")
	var r orderFlags
	remove := &cobra.Command{
		Use:   "remove ADDR|PREFIX",
		Short: "Take back an exemption made by hand",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runOrder(c.Context(), e, &r, args[0], (*control.Client).Disallow)
		},
	}
	list := withJSON(e, &cobra.Command{
		Use:   "list",
		Short: "Show all that is exempt, and by what",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runAllowList(c.Context(), e) },
	})
	c.AddCommand(add, remove, list)
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
	c := &cobra.Command{Use: "flag", Short: "Named conditions that are on until they expire, such as captcha"}
	list := withJSON(e, &cobra.Command{
		Use: "list", Short: "Show the flags that are raised", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runFlagList(c.Context(), e) },
	})
	span := "2h"
	set := &cobra.Command{
		Use: "set NAME", Short: "Raise a flag for a time", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			d, err := rules.ParseDuration(span)
			if err != nil || d <= 0 {
				return usage("--for %s: a time such as 90s, 10m or 7d is wanted", span)
			}
			return runFlag(c.Context(), e, control.FlagOrder{Name: args[0], For: d}, (*control.Client).SetFlag)
		},
	}
	set.Flags().StringVar(&span, "for", span, "how long")
	clearc := &cobra.Command{
		Use: "clear NAME", Short: "Lower a flag", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runFlag(c.Context(), e, control.FlagOrder{Name: args[0]}, (*control.Client).ClearFlag)
		},
	}
	c.AddCommand(list, set, clearc)
	return c
}

func runFlag(ctx context.Context, e *env, o control.FlagOrder, do func(*control.Client, context.Context, control.FlagOrder) (control.Answer, error)) error {
	c := e.client()
	defer c.Close()
	a, err := do(c, ctx, o)
	return answer(e, a, err)
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
		Short: "Read the rules again; a broken file changes nothing",
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
		return coded{exitRules, fmt.Errorf("the rules have %s; the old ones go on", plural(len(a.Problems), "mistake"))}
	}
	return answer(e, a, nil)
}
