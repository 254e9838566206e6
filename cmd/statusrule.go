package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"stoplog/internal/control"
)

// ruleState is one rule, as `status NAME` shows it.
type ruleState struct {
	control.RuleStatus
	Blocks []control.Block `json:"blocks"`
}

func runStatusOf(ctx context.Context, e *env, name string) error {
	c := e.client()
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(s.RuleStats, func(r control.RuleStatus) bool { return strings.EqualFold(r.Name, name) })
	if i < 0 {
		names := make([]string, len(s.RuleStats))
		for i, r := range s.RuleStats {
			names[i] = r.Name
		}
		return usage("there is no rule %q; the rules are: %s", name, strings.Join(names, ", "))
	}
	blocks, err := c.List(ctx)
	if err != nil {
		return err
	}
	r := ruleState{RuleStatus: s.RuleStats[i], Blocks: []control.Block{}}
	for _, b := range blocks {
		if b.Rule == r.Name {
			r.Blocks = append(r.Blocks, b)
		}
	}
	if e.json {
		return jsonLines(e.out, []ruleState{r})
	}
	return printRule(e.out, r, time.Now())
}

func printRule(w io.Writer, r ruleState, now time.Time) error {
	mode := r.Mode
	if mode == "" {
		mode = "block"
	}
	fmt.Fprintf(w, "rule       %s (%s)\nmatched    %d\nbreaches   %d\nblocked    %d\n", plain(r.Name), plain(mode), r.Matched, r.Breaches, len(r.Blocks))
	if len(r.Blocks) == 0 {
		return nil
	}
	rows := make([][]string, len(r.Blocks))
	for i, b := range r.Blocks {
		rows[i] = []string{plain(b.Prefix), ago(b.Until.Sub(now)), fmt.Sprint(b.Count), plain(strings.Join(b.Ports, ","))}
	}
	fmt.Fprintln(w)
	return table(w, "PREFIX\tFOR\tCOUNT\tPORTS", rows)
}
