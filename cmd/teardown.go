package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stoplog/internal/firewall"
)

type teardownOptions struct {
	config  string
	name    string
	expired bool
}

func teardownCmd(e *env) *cobra.Command {
	var o teardownOptions
	c := &cobra.Command{
		Use:   "teardown",
		Short: "Remove all that is ours from every firewall, and nothing else",
		Long: `Remove our table, chains, sets and lines from every firewall, and nothing else.
A running daemon sets its walls up again at once: stop it first.
With --expired only what has ended goes; the unit runs that when it stops, since
lines in hosts.deny do not end by themselves.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runTeardown(c.Context(), e, o) },
	}
	c.Flags().StringVar(&o.config, "config", "", "the rules file, for the walls' names and places")
	c.Flags().StringVar(&o.name, "name", "", "name of the chains, tables and sets (default stoplog)")
	c.Flags().BoolVar(&o.expired, "expired", false, "remove only blocks that have ended")
	return c
}

func runTeardown(ctx context.Context, e *env, o teardownOptions) error {
	set, problems, _ := e.loadRules(o.config)
	if set == nil {
		return e.rulesError(problems)
	}
	var errs []error
	for _, name := range []string{"nftables", "ipset", "iptables", "hosts.deny"} {
		bs, _, err := firewall.Select(ctx, []string{name}, wallConfig(set, o.name))
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

// warnOfRunning tells of a daemon that restores what was removed: whoever is
// locked out must not take the moment of peace for the end of it.
func warnOfRunning(ctx context.Context, e *env) {
	c := e.client()
	defer c.Close()
	st, err := c.Status(ctx)
	if err != nil || st.DryRun {
		return
	}
	fmt.Fprintf(e.errw, "stoplog: a stoplog is running (pid %d) and sets its walls up again at once: stop it, then tear down again\n", st.PID)
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
	fmt.Fprintf(e.out, "%s: nothing of ours is left\n", b.Name())
	return nil
}
