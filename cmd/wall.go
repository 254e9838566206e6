package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/registry"
	"stoplog/internal/firewall/wallproc"
	"stoplog/internal/priv"
)

// wallOptions travel as one argument from `run` to the wall process.
type wallOptions struct {
	Walls   []string
	Options firewall.Options
	Limits  wallproc.Limits
}

func wallCmd(e *env) *cobra.Command {
	var try bool
	c := &cobra.Command{
		Use:    "wall OPTIONS",
		Short:  "The process that holds the firewall's rights; run starts it",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if try {
				return tryWall(c.Context(), e, args[0])
			}
			return runWall(c.Context(), args[0])
		},
	}
	c.Flags().BoolVar(&try, "try", false, "only prove that the walls would work, and leave nothing")
	return c
}

// tryWall says which wall would be used with the rights that it has.
func tryWall(ctx context.Context, e *env, arg string) error {
	var o wallOptions
	if err := json.Unmarshal([]byte(arg), &o); err != nil {
		return usage("wall: reading the options: %w", err)
	}
	_, why, err := registry.Select(ctx, o.Walls, o.Options)
	if err == nil {
		_, err = fmt.Fprintln(e.out, why)
	}
	return err
}

// runWall serves orders on the descriptors it inherited until the other side
// closes them. Signals from the terminal or the service manager are for the
// other side, whose end is ours.
func runWall(_ context.Context, arg string) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	nameUs()
	thrift()
	ctx := context.Background()
	var o wallOptions
	if err := json.Unmarshal([]byte(arg), &o); err != nil {
		return usage("wall: reading the options: %w", err)
	}
	if err := priv.ShutInherited(3); err != nil {
		return fmt.Errorf("wall: %w", err)
	}
	cmds, changes, err := wallproc.Inherited()
	if err != nil {
		return err
	}
	defer cmds.Close()
	defer changes.Close()
	bs, _, err := registry.Select(ctx, o.Walls, o.Options)
	if err != nil {
		return fmt.Errorf("wall: %w", err)
	}
	var b firewall.Backend = firewall.Multi(bs)
	if len(bs) == 1 {
		b = bs[0]
	}
	debug.FreeOSMemory()
	return wallproc.Serve(ctx, cmds, changes, b, o.Limits)
}
