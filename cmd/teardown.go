package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/registry"
	"stoplog/internal/rules"
)

type teardownOptions struct {
	config   string
	lastGood string
	name     string
	expired  bool
}

func teardownCmd(e *env) *cobra.Command {
	var o teardownOptions
	c := &cobra.Command{
		Use:   "teardown",
		Short: "Remove everything of stoplog from the firewall, and nothing else",
		Long: `Remove stoplog's table, chains, sets and lines from every firewall, and nothing
else. A running daemon restores them at once: stop it first. With --expired,
remove only blocks that have ended; the unit does that when it stops, because
lines in hosts.deny do not expire by themselves.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runTeardown(c.Context(), e, o) },
	}
	c.Flags().StringVar(&o.config, "config", "", "rules file, for the names and places of the firewall's objects")
	c.Flags().StringVar(&o.lastGood, "last-good", "", "rules to use when the rules file has mistakes: see run")
	c.Flags().StringVar(&o.name, "name", "", "name of the chains, tables and sets (default stoplog)")
	c.Flags().BoolVar(&o.expired, "expired", false, "remove only blocks that have ended")
	return c
}

func runTeardown(ctx context.Context, e *env, o teardownOptions) error {
	set, _, _ := e.loadOrLastGood(runOptions{config: o.config, lastGood: o.lastGood})
	if set == nil {
		fmt.Fprintln(e.errw, "stoplog: the rules are broken: looking in the default places (run: stoplog check)")
		var problems []rules.Problem
		if set, problems = rules.LoadBytes("built-in", e.example, ""); set == nil {
			return e.rulesError(problems)
		}
	}
	var errs []error
	for _, name := range []string{"nftables", "ipset", "iptables", "hosts.deny"} {
		bs, _, err := registry.Select(ctx, []string{name}, wallConfig(set, o.name))
		if err != nil {
			continue // it cannot work here, so nothing of ours is in it
		}
		for _, b := range bs {
			errs = append(errs, tear(ctx, e, b, o.expired))
		}
	}
	if !o.expired {
		warnOfRunning(ctx, e)
	}
	return errors.Join(errs...)
}

// warnOfRunning warns of a daemon that restores what was removed: whoever is
// locked out must not take the moment of peace for the end of it.
func warnOfRunning(ctx context.Context, e *env) {
	c := e.client()
	defer c.Close()
	st, err := c.Status(ctx)
	if err != nil || st.DryRun {
		return
	}
	fmt.Fprintf(e.errw, "stoplog: stoplog is running (pid %d) and restores its firewall rules at once: stop it, then run teardown again\n", st.PID)
}

func tear(ctx context.Context, e *env, b firewall.Backend, expired bool) error {
	if expired {
		if x, ok := b.(firewall.Expirer); ok {
			return x.Expire(ctx)
		}
		return nil
	}
	if err := b.Teardown(ctx); err != nil {
		return err
	}
	fmt.Fprintf(e.out, "%s: removed\n", b.Name())
	return nil
}
