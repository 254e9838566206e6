package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"stoplog/internal/firewall"
	"stoplog/internal/lean"
)

// wallOptions travel as one argument from `run` to the wall process.
type wallOptions struct {
	Walls   []string
	Options firewall.Options
	Limits  firewall.Limits
}

func wallCmd(e *env) *cobra.Command {
	return &cobra.Command{
		Use:    "wall OPTIONS",
		Short:  "The process that holds the firewall's rights; run starts it",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(c *cobra.Command, args []string) error { return runWall(c.Context(), args[0]) },
	}
}

// runWall serves orders on the descriptors it inherited until the other side
// closes them. Signals from the terminal or the service manager are for the
// other side, whose end is ours.
func runWall(_ context.Context, arg string) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx := context.Background()
	var o wallOptions
	if err := json.Unmarshal([]byte(arg), &o); err != nil {
		return usage("wall: reading the options: %w", err)
	}
	cmds, changes, err := firewall.Inherited()
	if err != nil {
		return err
	}
	defer cmds.Close()
	defer changes.Close()
	bs, _, err := firewall.Select(ctx, o.Walls, o.Options)
	if err != nil {
		return fmt.Errorf("wall: %w", err)
	}
	var b firewall.Backend = firewall.Multi(bs)
	if len(bs) == 1 {
		b = bs[0]
	}
	lean.GiveBack()
	return firewall.Serve(ctx, cmds, changes, b, o.Limits)
}
