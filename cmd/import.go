package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"stoplog/internal/migrate"
)

func importCmd(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "import",
		Short: "Turn the configuration of another program into rules",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "fail2ban [DIR]",
		Short: "Turn fail2ban's enabled jails into rules, on standard output",
		Long: `Read fail2ban's configuration (default /etc/fail2ban), changing nothing, and
write rules for its enabled jails to standard output: their logs, maxretry,
findtime, bantime, increments, ignoreip, and the patterns of your own filters.
What cannot be carried is told on standard error, by file and line.`,
		Example: `  stoplog import fail2ban > /etc/stoplog/rules.yaml
  stoplog check`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "/etc/fail2ban"
			if len(args) == 1 {
				dir = args[0]
			}
			return runImport(e, dir)
		},
	})
	return c
}

func runImport(e *env, dir string) error {
	r, err := migrate.Fail2ban(dir)
	if err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintln(e.errw, plain(n.String()))
	}
	_, err = fmt.Fprint(e.out, r.Rules)
	return err
}
