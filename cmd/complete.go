package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/control"
	"stoplog/internal/export"
	"stoplog/internal/parse"
)

// askWithin bounds how long a completion waits for the daemon.
const askWithin = 2 * time.Second

// complete gives a flag's values to the shell.
func complete(c *cobra.Command, flag string, values ...string) {
	give(c, flag, func(*env) []string { return values }, nil)
}

// give makes a flag complete with what values gives at that time. A flag that
// does not exist is a programming error.
func give(c *cobra.Command, flag string, values func(*env) []string, e *env) {
	if err := c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return values(e), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err)
	}
}

// arguments makes a command's arguments complete with values, at most so many
// arguments (0: any number).
func arguments(e *env, c *cobra.Command, most int, values func(*env) []string) *cobra.Command {
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values(e), cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// asked asks the daemon; without an answer nothing is completed.
func asked[A any](e *env, ask func(*control.Client, context.Context) (A, error)) A {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	c := e.client()
	defer c.Close()
	a, err := ask(c, ctx)
	if err != nil {
		var none A
		return none
	}
	return a
}

// blockedPrefixes are the newest thousand.
func blockedPrefixes(e *env) (names []string) {
	p := asked(e, func(c *control.Client, ctx context.Context) (control.BlockPage, error) {
		return c.Find(ctx, control.BlockQuery{Limit: 1000})
	})
	for _, b := range p.Blocks {
		names = append(names, b.Prefix+"\t"+plain(b.Rule))
	}
	return names
}

// allowedByHand are the prefixes that allow remove takes.
func allowedByHand(e *env) (names []string) {
	for _, a := range asked(e, (*control.Client).Allowed) {
		if a.Origin == "by hand" {
			names = append(names, a.Prefix+"\t"+cell(a.Reason, 60))
		}
	}
	return names
}

func liveRules(e *env) (names []string) {
	for _, r := range asked(e, (*control.Client).Status).RuleStats {
		names = append(names, r.Name)
	}
	return names
}

func raisedFlags(e *env) (names []string) {
	for _, f := range asked(e, (*control.Client).Flags) {
		names = append(names, f.Name)
	}
	return names
}

func fleetNodes(e *env) (names []string) {
	if f := asked(e, (*control.Client).Status).Fleet; f != nil {
		for _, n := range f.Nodes {
			names = append(names, plain(n.Name))
		}
	}
	return names
}

func exportFormats(*env) (names []string) {
	for _, f := range export.Formats() {
		names = append(names, f.Name)
	}
	return names
}

func services(*env) []string { return parse.Services() }
