package cmd

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/parse"
	"stoplog/internal/replay"
	"stoplog/internal/rules"
)

type watchOptions struct {
	config, as, zone, since, match string
	rules, services, outcomes      []string
	all, bell                      bool
}

func watchCmd(e *env) *cobra.Command {
	var o watchOptions
	c := withJSON(e, &cobra.Command{
		Use:   "watch FILE…|-",
		Short: "Show the events of logs as they are written",
		Long: `Show the events of logs as they are written: when, result, service, address,
user, the rules that count the event, and the line, escaped. What a rule would
do about it follows on a line of its own. Nothing is changed, and no running
daemon is asked: buckets begin empty. Files are followed from their ends
through rotations; - or a pipe is read to its end. Colours appear on a terminal
unless NO_COLOR is set. ^C ends it.

Several values of one filter are alternatives; different filters all have to
match.`,
		Example: `  journalctl -f | stoplog watch
  stoplog watch --outcome success /var/log/auth.log
  stoplog watch --match '{status: 404, path: "/wp-*"}' /var/log/nginx/access.log`,
		RunE: func(c *cobra.Command, args []string) error { return runWatch(c.Context(), e, o, args) },
	})
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "rules file (default "+DefaultRules+", or the built-in rules)")
	f.StringSliceVar(&o.rules, "rule", nil, "only events that this rule counts")
	f.StringSliceVar(&o.services, "service", nil, "only events of this service")
	give(c, "service", services, e)
	f.StringSliceVar(&o.outcomes, "outcome", nil, "only events with this outcome: failure, success or other")
	f.StringVar(&o.match, "match", "", "only events that meet these conditions, written like the match of a rule")
	f.BoolVar(&o.all, "all", false, "also show all other lines, without colour")
	f.BoolVar(&o.bell, "bell", false, "ring the terminal's bell when a rule would act")
	f.StringVar(&o.since, "since", "", "begin with lines of this time: 24h, 7d, 2026-11-20 or 2026-11-20T09:00:00Z (default: at the end)")
	f.StringVar(&o.as, "as", "", "read the files as this source of the rules: its format, service, zone and client")
	f.StringVar(&o.zone, "zone", "", "time zone of timestamps without one (default: the machine's)")
	return c
}

func runWatch(ctx context.Context, e *env, o watchOptions, files []string) error {
	if len(files) == 0 {
		if isTerminal(os.Stdin) {
			return usage("name files, or pipe lines into it: journalctl -f | stoplog watch")
		}
		files = []string{"-"}
	}
	if len(files) > 1 && slices.Contains(files, "-") {
		return usage("- cannot be combined with files")
	}
	for _, name := range files {
		if _, err := os.Stat(name); name != "-" && err != nil {
			return err
		}
	}
	set, problems, _ := e.loadRules(o.config)
	if set == nil {
		return e.rulesError(problems)
	}
	ro, err := replayOptions{as: o.as, zone: o.zone, since: o.since}.settings(e, set, files, time.Now())
	if err != nil {
		return err
	}
	ro.Set = set
	if _, ok := set.SourceAs(o.as); o.as != "" && !ok {
		return usage("--as %s: %s", o.as, sourcesOf(set))
	}
	v, err := newView(e, o, set)
	if err != nil {
		return err
	}
	return replay.Watch(ctx, ro, func(err error) { fmt.Fprintln(e.errw, "stoplog:", plain(err.Error())) }, v.show)
}

// view shows what is seen, as the flags ask.
type view struct {
	o     watchOptions
	w     *bufio.Writer
	match *rules.Match
	json  bool
	paint bool
	buf   []byte
	p     replayShow
}

func newView(e *env, o watchOptions, set *rules.Set) (*view, error) {
	v := &view{o: o, w: bufio.NewWriterSize(e.out, 64<<10), json: e.json, paint: e.paint()}
	v.p = replayPrinter(v.w, e.json)
	var names []string
	for _, r := range set.Rules {
		names = append(names, r.Name)
	}
	for _, r := range o.rules {
		if !slices.Contains(names, r) {
			return nil, usage("--rule %s: not a rule. Rules are: %s", r, strings.Join(names, ", "))
		}
	}
	for _, s := range o.outcomes {
		if !slices.Contains([]string{"failure", "success", "other"}, s) {
			return nil, usage("--outcome %s: expected failure, success or other", s)
		}
	}
	if o.match != "" {
		m, err := rules.ParseMatch("--match", o.match)
		if err != nil {
			return nil, usage("%w", err)
		}
		v.match = m
	}
	return v, nil
}

// wanted reports whether the filters let an event through.
func (v *view) wanted(s *replay.Seen) bool {
	ev := s.Event
	if ev == nil {
		return false
	}
	in := func(list []string, has string) bool { return len(list) == 0 || slices.Contains(list, has) }
	return in(v.o.services, ev.Service) && in(v.o.outcomes, ev.Outcome.String()) &&
		(len(v.o.rules) == 0 || slices.ContainsFunc(s.Rules, func(r string) bool { return slices.Contains(v.o.rules, r) })) &&
		(v.match == nil || len(v.match.Why(ev, s.Origin, s.Known)) == 0)
}

// maxShown is how much of a line is shown.
const maxShown = 4000

func (v *view) show(s *replay.Seen) error {
	line := cell(string(s.Line.Text), maxShown)
	switch {
	case v.wanted(s) && v.json:
		v.buf = appendEvent(v.buf[:0], int(s.Line.Number), s.Event)
		v.buf = appendText(v.buf[:len(v.buf)-2], "text", s.Line.Text)
		for i, r := range s.Rules {
			open := `,"`
			if i == 0 {
				open = `,"rules":["`
			}
			v.buf = append(append(append(v.buf, open...), r...), '"')
		}
		if len(s.Rules) > 0 {
			v.buf = append(v.buf, ']')
		}
		v.buf = append(v.buf, '}', '\n')
		_, _ = v.w.Write(v.buf)
	case v.wanted(s):
		_, _ = v.w.WriteString(seenText(s.Event, s.Rules, line, v.paint))
	case v.o.all && v.json:
		v.buf = appendText(v.buf[:0], "text", s.Line.Text)
		if len(v.buf) > 0 {
			v.buf[0] = '{'
			_, _ = v.w.Write(append(v.buf, '}', '\n'))
		}
	case v.o.all:
		_, _ = v.w.WriteString(dim(line, v.paint) + "\n")
	}
	if v.wanted(s) {
		for _, a := range s.Answers {
			if err := v.answer(a); err != nil {
				return err
			}
		}
	}
	return v.w.Flush()
}

// answer shows what a rule would do.
func (v *view) answer(a replay.Answer) error {
	if v.json {
		return v.p.answer(a)
	}
	text := strings.TrimSuffix(answerText(a), "\n")
	if v.paint {
		text = "\x1b[1;33m" + text + "\x1b[0m"
	}
	if v.o.bell {
		text = "\a" + text
	}
	_, err := v.w.WriteString(text + "\n")
	return err
}

func dim(text string, paint bool) string {
	if paint {
		return "\x1b[90m" + text + "\x1b[0m"
	}
	return text
}

// seenText is one event for people: when, result, where, who, the rules that
// count it, and the line, which is escaped already.
func seenText(ev *parse.Event, counted []string, line string, paint bool) string {
	at, addr := "-", "-"
	if ev.Time != 0 {
		at = time.Unix(0, ev.Time).Local().Format("15:04:05")
	}
	if ev.Addr.IsValid() {
		addr = ev.Addr.String()
	}
	outcome := fmt.Sprintf("%-7s", ev.Outcome)
	addr = fmt.Sprintf("%-15s", addr)
	if paint {
		outcome = colours[ev.Outcome] + outcome + "\x1b[0m"
		addr = "\x1b[36m" + addr + "\x1b[0m"
	}
	who, by := "-", ""
	if len(ev.User) > 0 {
		who = cell(string(ev.User), 40)
	}
	if len(counted) > 0 {
		by = " [" + strings.Join(counted, " ") + "]"
	}
	return fmt.Sprintf("%s %s %-10s %s %-8s%s  %s\n", at, outcome, plain(ev.Service), addr, who, by, dim(line, paint))
}

// watchEvery is the time between two looks of --watch.
const watchEvery = time.Second

// watch shows something again each second until ctx ends, which is no error:
// it is how a watch is ended. On a terminal it takes the place of what was
// shown before; elsewhere one follows the other.
func watch(ctx context.Context, e *env, show func(io.Writer) error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	home := "\x1b[2J\x1b[H" // erase all, then go home (ECMA-48)
	for {
		var b bytes.Buffer
		err := show(&b)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if isTerminal(e.out) {
			// Each line erases what was right of it, the last one what is below:
			// no flicker.
			lines := bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\x1b[K\n"))
			_, err = io.WriteString(e.out, home+string(lines)+"\x1b[J")
			home = "\x1b[H"
		} else {
			_, err = e.out.Write(b.Bytes())
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
