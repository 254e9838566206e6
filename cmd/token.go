package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/daemon"
	"stoplog/internal/web"
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
		Short: "Tokens that let people in to the page",
		Long: `Tokens that let people in to the page. Each has a name, which the audit trail
shows for what was done by it. The file keeps their hashes alone; what is
changed holds at once, and a token that is removed ends its sessions.`,
	}
	f := c.PersistentFlags()
	f.StringVar(&o.file, "file", "", "the file of tokens (default: listen.page.token_file of the rules, or else tokens in the state folder)")
	f.StringVar(&o.config, "config", "", "the rules file (default "+DefaultRules+", or the built-in rules)")
	f.StringVar(&o.state, "state", defaultState, "the folder that the state is kept in")
	add := &cobra.Command{
		Use: "add NAME", Short: "Make a token and print it, once", Args: cobra.ExactArgs(1),
		Example: "  stoplog token add anna",
		RunE:    func(_ *cobra.Command, args []string) error { return runTokenAdd(e, o, args[0]) },
	}
	list := withJSON(e, &cobra.Command{
		Use: "list", Short: "Show the names of all tokens", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runTokenList(e, o) },
	})
	remove := &cobra.Command{
		Use: "remove NAME", Short: "Take a token away and end its sessions", Args: cobra.ExactArgs(1),
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
	secret, err := web.AddToken(path, name, time.Now())
	if errors.Is(err, web.ErrTokenName) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(e.errw, "This is shown once; only its hash is kept, in "+path+":")
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
	ts, err := web.ReadTokens(path)
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
	was, err := web.RemoveToken(path, name)
	if err == nil && !was {
		err = fmt.Errorf("there is no token %s; see: stoplog token list", name)
	}
	return err
}
