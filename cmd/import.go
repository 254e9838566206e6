package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"stoplog/internal/migrate"
)

func importCmd(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "import",
		Short: "Convert another program's configuration to rules",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "fail2ban [DIR]",
		Short: "Convert fail2ban's enabled jails to rules",
		Long: `Read fail2ban's configuration (default /etc/fail2ban) and print rules for its
enabled jails: their logs, ports, maxretry, findtime, bantime, increments and
ignoreip. Filters run as they are, on the logs of their jail; only sshd's, if it was
not edited, is replaced by stoplog's own reader. Nothing is changed. What cannot
be converted is listed on standard error, with its file and line.`,
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
