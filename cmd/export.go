package cmd

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/control"
	"stoplog/internal/export"
)

// exportOptions choose what is written where.
type exportOptions struct {
	format string
	file   string
	cap    int
}

func exportCmd(e *env) *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export --format NAME",
		Short: "Write what is blocked in the format of another firewall or proxy",
		Long:  exportHelp(),
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runExport(c.Context(), e, o) },
	}
	c.Flags().StringVar(&o.format, "format", "plain", "one of the formats above")
	c.Flags().StringVar(&o.file, "file", "", "replace this file in one step, if the list changed, instead of writing to standard output")
	c.Flags().IntVar(&o.cap, "cap", 0, "at most so many prefixes, those that end last; -1: all (default: the format's own)")
	return c
}

func exportHelp() string {
	var b strings.Builder
	b.WriteString("Write what the daemon blocks, minus the allowlist, as the fewest prefixes.\nWhat a cap leaves out is told on standard error.\n\nFormats:\n")
	for _, f := range export.Formats() {
		fmt.Fprintf(&b, "  %-18s %s (cap %d)\n", f.Name, f.About, f.Cap)
	}
	return b.String()
}

func runExport(ctx context.Context, e *env, o exportOptions) error {
	if _, err := export.Find(o.format); err != nil {
		return usage("--format: %w", err)
	}
	if o.cap < -1 {
		return usage("--cap %d: a number of prefixes is wanted, or -1 for all", o.cap)
	}
	c := e.client()
	defer c.Close()
	es, allow, err := blocksAndAllowed(ctx, c)
	if err != nil {
		return err
	}
	opt := export.Options{Cap: o.cap, Allow: allow, Now: time.Now()}
	var left int
	if o.file == "" {
		left, err = export.Write(e.out, o.format, es, opt)
	} else {
		var f export.File
		f, err = export.ToFile(o.file, o.format, es, opt)
		left = f.Left
	}
	if err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(e.errw, "stoplog: %d prefixes were left out by the cap\n", left)
	}
	return nil
}

// blocksAndAllowed asks for the allowlist last: what was allowed by then wins.
func blocksAndAllowed(ctx context.Context, c *control.Client) (es []export.Entry, allow []netip.Prefix, err error) {
	bs, err := c.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range bs {
		if b.Limited {
			continue
		}
		p, err := netip.ParsePrefix(b.Prefix)
		if err != nil {
			return nil, nil, fmt.Errorf("blocks from the daemon: %w", err)
		}
		es = append(es, export.Entry{Prefix: p, Until: b.Until, Rule: b.Rule, Count: b.Count})
	}
	as, err := c.Allowed(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range as {
		p, err := netip.ParsePrefix(a.Prefix)
		if err != nil {
			return nil, nil, fmt.Errorf("allowlist from the daemon: %w", err)
		}
		allow = append(allow, p)
	}
	return es, allow, nil
}
