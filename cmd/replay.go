package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/replay"
	"stoplog/internal/rules"
)

type replayOptions struct {
	config       string
	against      string
	zone         string
	since, until string
	as           string
	stats        bool
	fleet        string

	service, format string

	journal []string
}

// journalOfSources is the value of --journal without one.
const journalOfSources = "sources"

func replayCmd(e *env) *cobra.Command {
	var o replayOptions
	c := withJSON(e, &cobra.Command{
		Use:   "replay [FILE…|-]",
		Short: "Show what the rules would have done with past logs",
		Long: `Show what the rules would have done with past logs: blocks, reports of observing
rules, flags, lockdowns, notifications and programs, and then a summary of each
rule with the honest sources that it would have hit. Nothing is changed. Rotated
and compressed files are sorted by the time of their content.`,
		Example: `  stoplog replay /var/log/auth.log*
  stoplog replay --journal --since 7d
  stoplog replay --as /var/log/nginx/access.log copy-of-access.log
  stoplog replay --against new-rules.yaml /var/log/auth.log*
  stoplog replay --fleet /srv/logs`,
		Args: func(c *cobra.Command, args []string) error {
			if o.fleet != "" {
				return cobra.NoArgs(c, args)
			}
			if o.journal != nil {
				return nil
			}
			return cobra.MinimumNArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return runReplay(c.Context(), e, o, args) },
	})
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "rules file (default "+DefaultRules+", or the built-in rules)")
	f.StringVar(&o.against, "against", "", "a second rules file: show which blocks it would add, drop or change")
	o.inputFlags(c)
	f.StringVar(&o.fleet, "fleet", "", "directory with a folder (or file) of logs for each host: compare hosts that count alone with the same hosts as a fleet")
	f.BoolVar(&o.stats, "stats", false, "print speed and time spent on standard error")
	return c
}

// inputFlags are the flags about what is read.
func (o *replayOptions) inputFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&o.journal, "journal", nil, "also read the systemd journal: what the rules' sources read of it, or these units")
	f.Lookup("journal").NoOptDefVal = journalOfSources
	f.StringVar(&o.since, "since", "", "ignore earlier lines: 24h, 7d, 2026-11-20 or 2026-11-20T09:00:00Z")
	f.StringVar(&o.until, "until", "", "ignore lines from this time on, written like --since")
	f.StringVar(&o.as, "as", "", "read the files as this source of the rules: its format, service, zone and client")
	f.StringVar(&o.zone, "zone", "", "time zone of timestamps without one (default: the machine's)")
	f.StringVar(&o.service, "service", "", "the service that wrote the files (nginx, gitea, syslog…), for files that no source lists")
	f.StringVar(&o.format, "format", "", "the format of access logs, for files that no source lists")
}

func runReplay(ctx context.Context, e *env, o replayOptions, files []string) error {
	set, problems, name := e.loadRules(o.config)
	if set == nil {
		return e.rulesError(problems)
	}
	ro, err := o.settings(e, set, files, time.Now())
	if err != nil {
		return err
	}
	ro.Set = set
	if o.as != "" {
		if _, ok := set.SourceAs(o.as); !ok {
			return usage("--as %s: %s", o.as, sourcesOf(set))
		}
	}
	w := bufio.NewWriterSize(e.out, 64<<10)
	defer w.Flush()
	if o.fleet != "" {
		return e.replayFleet(ctx, w, ro, o.fleet)
	}
	if o.against != "" {
		other, problems := rules.Load(o.against)
		if other == nil {
			return e.rulesError(problems)
		}
		return e.compareReplays(ctx, w, ro, other, [2]string{name, o.against})
	}
	p := replayPrinter(w, e.json)
	sum, err := e.replay(ctx, ro, p.answer)
	if err != nil {
		return err
	}
	e.replayNotes(sum, ro, o)
	if err := p.rules(sum.Rules); err != nil {
		return err
	}
	if err := p.summary(sum); err != nil {
		return err
	}
	if o.stats {
		printReplayStats(e.errw, sum)
	}
	return w.Flush()
}

// settings are the options of a replay, without its rules.
func (o replayOptions) settings(e *env, set *rules.Set, files []string, now time.Time) (ro replay.Options, err error) {
	zone, err := location(o.zone)
	if err != nil {
		return ro, err
	}
	if o.as != "" && o.service+o.format != "" {
		return ro, usage("--as sets service and format: leave out --service and --format")
	}
	if o.against != "" && slices.Contains(files, "-") {
		return ro, usage("--against reads the logs twice: name files instead of -")
	}
	ro = replay.Options{Files: files, Service: o.service, Format: o.format, As: o.as, Zone: zone, Stdin: e.in}
	if ro.Since, err = when("--since", o.since, zone, now); err != nil {
		return ro, err
	}
	if ro.Until, err = when("--until", o.until, zone, now); err != nil {
		return ro, err
	}
	if o.journal != nil && o.against+o.fleet != "" {
		return ro, usage("--journal cannot be combined with --against or --fleet")
	}
	if o.journal != nil {
		units := slices.DeleteFunc(slices.Clone(o.journal), func(u string) bool { return u == journalOfSources })
		if ro.Journal = replay.JournalOf(set, units); len(ro.Journal) == 0 {
			return ro, usage("--journal: no source of the rules reads the journal; name units: --journal=ssh.service")
		}
	}
	if !ro.Since.IsZero() && !ro.Until.IsZero() && !ro.Since.Before(ro.Until) {
		return ro, usage("--since %s is not before --until %s", o.since, o.until)
	}
	return ro, nil
}

// when reads an instant: how long before now, a date or a time; zero for "".
func when(flag, s string, zone *time.Location, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := rules.ParseDuration(s); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("%s %s: expected a duration such as 24h or 7d, a date such as 2026-11-20, or a time such as 2026-11-20T09:00:00Z", flag, s)
}

// sourcesOf lists what --as may name.
func sourcesOf(set *rules.Set) string {
	var names []string
	for _, s := range set.Sources {
		name := s.Path
		if name == "" {
			name = s.Kind.String()
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "the rules list no source"
	}
	more := ""
	if len(names) > 12 {
		names, more = names[:12], ", …"
	}
	return "not a source of these rules. Sources are: " + strings.Join(names, ", ") + more
}

// replay runs one replay and shows its progress on a terminal.
func (e *env) replay(ctx context.Context, o replay.Options, emit func(replay.Answer) error) (replay.Summary, error) {
	o.Progress = new(replay.Progress)
	if !isTerminal(e.errw) || isTerminal(e.out) {
		return replay.Run(ctx, o, emit) // lines of output show that it goes on
	}
	stop := showProgress(e.errw, o.Progress, o.Files)
	defer stop()
	return replay.Run(ctx, o, emit)
}

// replayNotes says what a replay left out, on standard error.
func (e *env) replayNotes(sum replay.Summary, ro replay.Options, o replayOptions) {
	for _, n := range sum.Notes {
		fmt.Fprintln(e.errw, "stoplog:", plain(n))
	}
	switch {
	case sum.Events > 0 || sum.Lines == 0:
	case sum.Skipped > 0:
		fmt.Fprintf(e.errw, "stoplog: %d lines were understood, all of them outside --since and --until\n", sum.Skipped)
	case o.as != "":
		fmt.Fprintf(e.errw, "stoplog: no line was understood as one of %s (stoplog parse shows what a line could be)\n", plain(o.as))
	case o.service == "" && o.format == "":
		fmt.Fprintln(e.errw, "stoplog: no line was understood. A file that no source lists is read by its syslog tags; name another service with: stoplog replay --service NAME, or a source of the rules with --as (stoplog parse shows what a line could be)")
	}
}

// maxCompared bounds the blocks of each side that --against keeps.
const maxCompared = 200_000

// compareReplays shows what other would do differently.
func (e *env) compareReplays(ctx context.Context, w *bufio.Writer, o replay.Options, other *rules.Set, names [2]string) error {
	var blocks [2][]replay.Answer
	var sums [2]replay.Summary
	for i, set := range []*rules.Set{o.Set, other} {
		one := o
		one.Set = set
		left := 0
		sum, err := e.replay(ctx, one, func(a replay.Answer) error {
			switch {
			case a.Kind != replay.Block:
			case len(blocks[i]) == maxCompared:
				left++
			default:
				blocks[i] = append(blocks[i], a)
			}
			return nil
		})
		if errors.Is(err, replay.ErrNoSource) {
			return usage("--as %s: not a source of %s", o.As, names[i])
		}
		if err != nil {
			return err
		}
		for _, n := range sum.Notes {
			fmt.Fprintf(e.errw, "stoplog: %s: %s\n", plain(names[i]), plain(n))
		}
		if left > 0 {
			fmt.Fprintf(e.errw, "stoplog: %s: %d blocks after the first %d are not compared one by one\n", plain(names[i]), left, maxCompared)
		}
		sums[i] = sum
	}
	changes := replay.Compare(blocks[0], blocks[1])
	show := compareText
	if e.json {
		show = compareJSON
	}
	if err := show(w, changes, sums, names); err != nil {
		return err
	}
	return w.Flush()
}

func compareJSON(w io.Writer, changes []replay.Change, sums [2]replay.Summary, names [2]string) error {
	enc := json.NewEncoder(w)
	for _, c := range changes {
		d := replayDifference{Type: "difference", Change: "changed"}
		if c.Before != nil {
			d.Before = &[]replayAnswer{answerShape(*c.Before)}[0]
		} else {
			d.Change = "added"
		}
		if c.After != nil {
			d.After = &[]replayAnswer{answerShape(*c.After)}[0]
		} else {
			d.Change = "removed"
		}
		if err := enc.Encode(d); err != nil {
			return err
		}
	}
	a := replayAgainst{Type: "against"}
	for i, side := range []*replaySide{&a.Before, &a.After} {
		*side = replaySide{names[i], sums[i].Lines, sums[i].Events, sums[i].Blocks, sums[i].Prevented, sums[i].GoodHit}
	}
	return enc.Encode(a)
}

func compareText(w io.Writer, changes []replay.Change, sums [2]replay.Summary, names [2]string) error {
	for _, c := range changes {
		var err error
		switch {
		case c.Before == nil:
			_, err = fmt.Fprintf(w, "+ %s", answerText(*c.After))
		case c.After == nil:
			_, err = fmt.Fprintf(w, "- %s", answerText(*c.Before))
		default:
			_, err = fmt.Fprintf(w, "- %s+ %s", answerText(*c.Before), answerText(*c.After))
		}
		if err != nil {
			return err
		}
	}
	if len(changes) == 0 {
		fmt.Fprintln(w, "Both block the same.")
	}
	var rows [][]string
	for i, sign := range []string{"-", "+"} {
		s := sums[i]
		rows = append(rows, []string{sign, cell(names[i], 60), fmt.Sprint(s.Blocks), fmt.Sprint(s.Prevented), fmt.Sprint(s.GoodHit)})
	}
	fmt.Fprintln(w)
	return table(w, "\tRULES\tBLOCKS\tATTEMPTS STOPPED\tGOOD SOURCES HIT", rows)
}

func printReplayStats(w io.Writer, s replay.Summary) {
	per := func(d time.Duration) string {
		if s.Lines == 0 {
			return "-"
		}
		return fmt.Sprintf("%d ns a line", d.Nanoseconds()/int64(s.Lines))
	}
	fmt.Fprintf(w, "%.0f lines/s: %s wall, parse %s (on %d goroutines), detect and ledger %s\n",
		float64(s.Lines)/s.Wall.Seconds(), per(s.Wall), per(s.Parse), s.Workers, per(s.Detect))
}
