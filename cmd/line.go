package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"stoplog/internal/api"
	"stoplog/internal/control"
)

// lineOptions are what explain needs to walk a line.
type lineOptions struct {
	text    string
	config  string
	service string
	source  string
}

// runExplainLine asks the running daemon, whose buckets are the real ones; a
// rules file that is named, or no daemon, means empty ones.
func runExplainLine(ctx context.Context, e *env, o lineOptions) error {
	if o.text == "-" {
		line, err := bufio.NewReader(io.LimitReader(e.in, 1<<20)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading the line: %w", err)
		}
		o.text = line
	}
	q := control.LineQuery{Text: strings.TrimRight(o.text, "\r\n"), Service: o.service, Source: o.source}
	w, err := walkLine(ctx, e, o.config, q)
	if err != nil {
		return err
	}
	if e.json {
		return jsonLines(e.out, []control.Walk{w})
	}
	return printWalk(e.out, w)
}

func walkLine(ctx context.Context, e *env, config string, q control.LineQuery) (control.Walk, error) {
	if config == "" {
		c := e.client()
		defer c.Close()
		w, err := c.Walk(ctx, q)
		if !errors.Is(err, control.ErrNoDaemon) {
			return w, err
		}
	}
	set, problems, name := e.loadRules(config)
	if set == nil {
		return control.Walk{}, e.rulesError(problems)
	}
	return api.Walk(set, name, q, time.Now())
}

func printWalk(w io.Writer, x control.Walk) error {
	var b strings.Builder
	held := "with empty buckets, and nobody known or blocked"
	if x.Live {
		held = "with the buckets of the running daemon"
	}
	fmt.Fprintf(&b, "line      %s\nrules     %s, %s\n", cell(x.Line, 1000), plain(x.Rules), held)
	if x.Stamp != nil {
		fmt.Fprintf(&b, "stamp     %s\n", stamp(*x.Stamp))
	} else {
		b.WriteString("stamp     none\n")
	}
	if !x.Understood {
		b.WriteString("event     none: no parser reads this line, or it can be read in two ways\n          (--service NAME or --source FILE may help; so may a rule's own pattern)\n")
	}
	for _, ev := range x.Events {
		printWalkEvent(&b, ev)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printWalkEvent(b *strings.Builder, ev control.WalkEvent) {
	kind := ""
	if ev.Kind != "" {
		kind = ", kind " + ev.Kind
	}
	fmt.Fprintf(b, "message   %s\nevent     %s of %s%s\n", cell(ev.Message, 1000), ev.Outcome, plain(ev.Service), kind)
	for _, k := range slices.Sorted(maps.Keys(ev.Fields)) {
		fmt.Fprintf(b, "          %s=%s\n", plain(k), cell(ev.Fields[k], 200))
	}
	if ev.Addr != "" {
		fmt.Fprintf(b, "address   %s, %s\n", ev.Addr, ev.Verdict)
	} else {
		b.WriteString("address   none that the logging program vouches for\n")
	}
	fmt.Fprintf(b, "counts at %s", stamp(ev.CountsAt))
	if ev.Late != "" {
		fmt.Fprintf(b, " (%s)", ev.Late)
	}
	b.WriteString("\n\n")
	for _, r := range ev.Rules {
		printWalkRule(b, r)
	}
	if len(ev.Hints) > 0 {
		b.WriteString("\nhints\n")
	}
	for _, h := range ev.Hints {
		fmt.Fprintf(b, "  %s\n", plain(h))
	}
}

func printWalkRule(b *strings.Builder, r control.WalkRule) {
	mode := ""
	if r.Mode != "" {
		mode = " (" + r.Mode + ")"
	}
	if r.Why != "" {
		fmt.Fprintf(b, "- %s%s: not counted: %s\n", plain(r.Rule), mode, plain(r.Why))
		return
	}
	fmt.Fprintf(b, "+ %s%s: counts for %s\n", plain(r.Rule), mode, cell(r.Key, 100))
	for _, l := range r.Levels {
		fmt.Fprintf(b, "    %s: %d of %d held", l.Kind, l.Held, l.Capacity)
		if l.Drains != "" {
			fmt.Fprintf(b, ", empty in %s", l.Drains)
		}
		switch {
		case l.Weight == 0:
			b.WriteString("; this adds nothing\n")
		case l.Breaches:
			fmt.Fprintf(b, "; this adds %d and breaches", l.Weight)
			if l.TTL != "" {
				fmt.Fprintf(b, ", for %s at first", l.TTL)
			}
			b.WriteByte('\n')
		default:
			fmt.Fprintf(b, "; this adds %d\n", l.Weight)
		}
	}
}
