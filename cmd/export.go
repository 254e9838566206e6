package cmd

import (
	"context"
	"fmt"
	"io"
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
	ports  string
	all    bool
}

func exportCmd(e *env) *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export --format NAME",
		Short: "Print the blocked prefixes in the format of another firewall or proxy",
		Long:  exportHelp(),
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return runExport(c.Context(), e, o) },
	}
	c.Flags().StringVar(&o.format, "format", "plain", "one of the formats above")
	give(c, "format", exportFormats, e)
	c.Flags().StringVar(&o.file, "file", "", "write to this file instead of standard output: replaced atomically, and only when the list changed")
	c.Flags().IntVar(&o.cap, "cap", 0, "maximum number of prefixes, keeping those that end last; -1: no limit (default: depends on the format)")
	c.Flags().StringVar(&o.ports, "ports", "", "list blocks that close one of these ports as whole ones, such as 22,8000-8999 (default: 80,443 in formats of web servers)")
	c.Flags().BoolVar(&o.all, "all-ports", false, "list every prefix whatever ports its block closes, and if it only slows down")
	c.MarkFlagsMutuallyExclusive("ports", "all-ports")
	return c
}

// guard is which limited blocks are listed as whole ones.
func (o exportOptions) guard() (export.Guard, error) {
	if o.all {
		return export.Guard{Any: true}, nil
	}
	if o.ports == "" {
		return export.Guard{}, nil
	}
	return export.ParseGuard(o.ports)
}

func exportHelp() string {
	var b strings.Builder
	b.WriteString("Write what the daemon blocks, minus the allowlist, as the fewest prefixes.\nWhat is left out, by a cap or because a format cannot express that\na block closes some ports or slows down, is counted on standard error.\n\nFormats:\n")
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
		return usage("--cap %d: expected a number of prefixes, or -1 for no limit", o.cap)
	}
	guard, err := o.guard()
	if err != nil {
		return usage("--ports: %w", err)
	}
	c := e.client()
	defer c.Close()
	es, allow, err := blocksAndAllowed(ctx, c)
	if err != nil {
		return err
	}
	f, err := o.write(e.out, es, export.Options{Cap: o.cap, Allow: allow, Now: time.Now(), Guard: guard})
	if err != nil {
		return err
	}
	if f.Limited > 0 {
		fmt.Fprintf(e.errw, "stoplog: %s\n", export.LeftOut(f.Limited))
	}
	if f.Left > 0 {
		fmt.Fprintf(e.errw, "stoplog: %d prefixes were left out because of the cap\n", f.Left)
	}
	return nil
}

func (o exportOptions) write(out io.Writer, es []export.Entry, opt export.Options) (export.File, error) {
	if o.file != "" {
		return export.ToFile(o.file, o.format, es, opt)
	}
	l, err := export.Build(o.format, es, opt)
	if err != nil {
		return export.File{}, err
	}
	return export.File{Left: l.Left, Limited: l.Limited}, l.Write(out)
}

// blocksAndAllowed asks for the allowlist last: what was allowed by then wins.
func blocksAndAllowed(ctx context.Context, c *control.Client) (es []export.Entry, allow []netip.Prefix, err error) {
	bs, err := c.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range bs {
		p, err := netip.ParsePrefix(b.Prefix)
		if err != nil {
			return nil, nil, fmt.Errorf("blocks from the daemon: %w", err)
		}
		es = append(es, export.Entry{Prefix: p, Until: b.Until, Rule: b.Rule, Count: b.Count, Points: b.Points, Limit: export.Limit{Ports: strings.Join(b.Ports, ","), Rate: b.Rate}})
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
