package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/daemon"
	"stoplog/internal/httpd"
)

// tokenOptions say which file of tokens is meant.
type tokenOptions struct {
	file   string
	config string
	state  string
}

func tokenCmd(e *env) *cobra.Command {
	var o tokenOptions
	c := &cobra.Command{
		Use:   "token",
		Short: "Manage logins to the web page",
		Long: `Manage the tokens that log in to the web page. Each has a name, which the audit
trail shows. The file contains only hashes. Changes apply at once, and removing
a token ends its sessions.`,
	}
	f := c.PersistentFlags()
	f.StringVar(&o.file, "file", "", "token file (default: listen.page.token_file of the rules, or tokens in the state directory)")
	f.StringVar(&o.config, "config", "", "rules file (default "+DefaultRules+", or the built-in rules)")
	f.StringVar(&o.state, "state", defaultState, "state directory")
	add := &cobra.Command{
		Use: "add NAME", Short: "Create a token and print it once", Args: cobra.ExactArgs(1),
		Example: "  stoplog token add anna",
		RunE:    func(_ *cobra.Command, args []string) error { return runTokenAdd(e, o, args[0]) },
	}
	list := withJSON(e, &cobra.Command{
		Use: "list", Short: "List the names of all tokens", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runTokenList(e, o) },
	})
	remove := &cobra.Command{
		Use: "remove NAME", Short: "Remove a token and end its sessions", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return runTokenRemove(e, o, args[0]) },
	}
	c.AddCommand(add, list, remove)
	return c
}

// path is the file that the daemon reads too.
func (o tokenOptions) path(e *env) (string, error) {
	if o.file != "" {
		return o.file, nil
	}
	set, problems, _ := e.loadRules(o.config)
	if set == nil {
		return "", e.rulesError(problems)
	}
	return cmp.Or(set.Listen.Page.TokenFile, filepath.Join(o.state, daemon.TokensName)), nil
}

func runTokenAdd(e *env, o tokenOptions, name string) error {
	path, err := o.path(e)
	if err != nil {
		return err
	}
	secret, err := httpd.AddToken(path, name, time.Now())
	if errors.Is(err, httpd.ErrTokenName) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(e.errw, "The token is shown only now; its hash is stored in "+path+":")
	_, err = fmt.Fprintln(e.out, secret)
	return err
}

// shownToken is the shape of `token list --json`.
type shownToken struct {
	Name string    `json:"name"`
	Made time.Time `json:"made"`
}

func runTokenList(e *env, o tokenOptions) error {
	path, err := o.path(e)
	if err != nil {
		return err
	}
	ts, err := httpd.ReadTokens(path)
	if err != nil {
		return err
	}
	shown := make([]shownToken, len(ts))
	rows := make([][]string, len(ts))
	for i, t := range ts {
		shown[i], rows[i] = shownToken{t.Name, t.Made}, []string{t.Name, stamp(t.Made)}
	}
	if e.json {
		return jsonLines(e.out, shown)
	}
	return table(e.out, "NAME\tMADE", rows)
}

func runTokenRemove(e *env, o tokenOptions, name string) error {
	path, err := o.path(e)
	if err != nil {
		return err
	}
	was, err := httpd.RemoveToken(path, name)
	if err == nil && !was {
		err = fmt.Errorf("no token %s; see: stoplog token list", name)
	}
	return err
}
