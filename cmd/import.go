package cmd

import (
	"context"
	"fmt"
	"os"
	"time"

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
	c.AddCommand(fail2banCmd(e))
	return c
}

func fail2banCmd(e *env) *cobra.Command {
	var verify []string
	var bans string
	c := withJSON(e, &cobra.Command{
		Use:   "fail2ban [DIR]",
		Short: "Convert fail2ban's enabled jails to rules",
		Long: `Read fail2ban's configuration (default /etc/fail2ban) and print rules for its
enabled jails: their logs, ports, maxretry, findtime, bantime, increments and
ignoreip. Filters run as they are, on the logs of their jail; only sshd's, if it was
not edited, is replaced by stoplog's own reader. Nothing is changed. What cannot
be converted is listed on standard error, with its file and line.

With --verify, run the jails' filters on logs by fail2ban-regex and by stoplog, and
show what differs and why. With --bans, print the addresses that the running
fail2ban bans, for "stoplog block -".`,
		Example: `  stoplog import fail2ban > /etc/stoplog/rules.yaml
  stoplog check
  stoplog import fail2ban --verify /var/log/auth.log
  stoplog import fail2ban --bans | stoplog block - --ttl 1d --reason fail2ban`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "/etc/fail2ban"
			if len(args) == 1 {
				dir = args[0]
			}
			switch {
			case bans != "":
				return runBans(c.Context(), e, bans)
			case len(verify) > 0:
				return runVerify(c.Context(), e, dir, verify)
			}
			return runImport(e, dir)
		},
	})
	c.Flags().StringArrayVar(&verify, "verify", nil, "compare the filters with fail2ban-regex on this `LOG`; may be given several times")
	c.Flags().StringVar(&bans, "bans", "", "print current bans; =`FILE` reads the output of fail2ban-client banned, - from standard input")
	c.Flags().Lookup("bans").NoOptDefVal = askClient
	return c
}

// askClient is --bans without a file.
const askClient = "fail2ban-client"

func runBans(ctx context.Context, e *env, from string) error {
	var bans []migrate.Ban
	var err error
	switch from {
	case askClient:
		bans, err = migrate.Bans(ctx)
	case "-":
		bans, err = migrate.ReadBans(e.in)
	default:
		var f *os.File
		if f, err = os.Open(from); err != nil {
			return err
		}
		defer f.Close()
		bans, err = migrate.ReadBans(f)
	}
	if err != nil {
		return fmt.Errorf("reading bans: %w", err)
	}
	if e.json {
		return jsonLines(e.out, bans)
	}
	for _, b := range bans {
		if _, err := fmt.Fprintf(e.out, "%s # %s\n", plain(b.Addr), plain(b.Jail)); err != nil {
			return err
		}
	}
	return nil
}

func runVerify(ctx context.Context, e *env, dir string, logs []string) error {
	all, err := migrate.Verify(ctx, dir, logs, time.Local)
	if err != nil {
		return err
	}
	if e.json {
		return jsonLines(e.out, all)
	}
	rows := make([][]string, len(all))
	for i, c := range all {
		rows[i] = []string{plain(c.Jail), plain(c.Log), fmt.Sprint(c.Lines), fmt.Sprint(c.Theirs), fmt.Sprint(c.Ours), fmt.Sprint(c.Equal), fmt.Sprintf("%d/%d", c.BansTheirs, c.BansOurs), plain(c.NotCompared)}
	}
	if err := table(e.out, "JAIL\tLOG\tLINES\tFAIL2BAN\tSTOPLOG\tEQUAL\tBANS\tREMARK", rows); err != nil {
		return err
	}
	for _, c := range all {
		for _, d := range c.Differences {
			fmt.Fprintf(e.out, "%s: %s\n", plain(c.Jail), plain(d))
		}
		if c.OverTheLimits > 0 {
			fmt.Fprintf(e.out, "%s: and %d more\n", plain(c.Jail), c.OverTheLimits)
		}
	}
	return nil
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
