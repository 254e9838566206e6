package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stoplog/internal/doctor"
	"stoplog/internal/notify"
	"stoplog/internal/rules"
)

// DefaultRules is where the rules are unless told otherwise; when the file is
// absent, the built-in ones hold.
const DefaultRules = "/etc/stoplog/rules.yaml"

// loadRules reads the rules file, or the built-in ones when path is empty and
// the default file is absent; rules.d beside it is added to either. name is what
// status calls them.
func (e *env) loadRules(path string) (set *rules.Set, problems []rules.Problem, name string) {
	if path == "" {
		if _, err := os.Lstat(DefaultRules); errors.Is(err, fs.ErrNotExist) {
			set, problems = e.builtIn(filepath.Dir(DefaultRules))
			return set, problems, "built-in"
		}
		path = DefaultRules
	}
	set, problems = rules.Load(path)
	return set, problems, path
}

// builtIn are the built-in rules, and those of dir's rules.d.
func (e *env) builtIn(dir string) (*rules.Set, []rules.Problem) {
	return rules.LoadBytes("built-in", e.example, dir)
}

// rulesError prints every mistake and returns the error that ends the command.
func (e *env) rulesError(problems []rules.Problem) error {
	for _, p := range problems {
		fmt.Fprintln(e.errw, plain(p.Error()))
	}
	return coded{exitRules, fmt.Errorf("the rules have %s", plural(mistakes(problems), "mistake"))}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func checkCmd(e *env) *cobra.Command {
	var lastGood, group string
	c := withJSON(e, &cobra.Command{
		Use:   "check [FILE]",
		Short: "Report every mistake in the rules, with its line",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := ""
			if len(args) == 1 {
				path = args[0]
			}
			if lastGood == "" {
				return runCheck(e, path)
			}
			set, problems, _ := e.loadUsable(path)
			if set == nil {
				return e.rulesError(problems)
			}
			return saveLastGood(e, lastGood, set, group)
		},
	})
	c.Flags().StringVar(&lastGood, "last-good", "", "print mistakes only; when there are none, copy the rules to this file, for run --last-good")
	c.Flags().StringVar(&group, "group", "stoplog", "the group that may read the copy, if it exists")
	return c
}

// loadUsable is loadRules that also tries the targets of notify.
func (e *env) loadUsable(path string) (set *rules.Set, problems []rules.Problem, name string) {
	set, problems, name = e.loadRules(path)
	if set != nil {
		if ps := messages(set, name); len(ps) > 0 {
			set, problems = nil, append(problems, ps...)
		}
	}
	return set, problems, name
}

// messages returns which targets of notify cannot be used: run would refuse
// them, for they are tried before they are used.
func messages(set *rules.Set, name string) (ps []rules.Problem) {
	for _, n := range set.Notify {
		if _, err := notify.New([]rules.Notify{n}, notify.Options{Host: "localhost"}); err != nil {
			ps = append(ps, rules.Problem{File: name, Msg: err.Error()})
		}
	}
	return ps
}

func runCheck(e *env, path string) error {
	set, problems, name := e.loadUsable(path)
	if set != nil {
		for _, f := range doctor.Foreign(set, "", lineReader) {
			problems = append(problems, f.Problem)
		}
	}
	if e.json {
		if err := jsonLines(e.out, problems); err != nil {
			return err
		}
		if set == nil {
			return coded{exitRules, nil}
		}
		return nil
	}
	if set == nil {
		return e.rulesError(problems)
	}
	for _, p := range problems {
		fmt.Fprintln(e.errw, plain(p.Error()))
	}
	fmt.Fprintf(e.out, "%s: %s, %s\n", plain(name), plural(len(set.Rules), "rule"), plural(len(set.Sources), "source"))
	rows := make([][]string, len(set.Rules))
	for i, r := range set.Rules {
		mode := ""
		switch {
		case r.Observe:
			mode = "observe"
		case r.FirstMatch():
			mode = "blocks at the first match"
		}
		rows[i] = []string{r.Name, mode, cell(r.About, 90)}
	}
	return table(e.out, "RULE\tMODE\tABOUT", rows)
}
