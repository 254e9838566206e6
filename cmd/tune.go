package cmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/atomicfile"
	"stoplog/internal/replay"
	"stoplog/internal/rules"
	"stoplog/internal/tune"
)

type tuneOptions struct {
	replayOptions
	rule     string
	good     string
	html     string
	settings int
}

func tuneCmd(e *env) *cobra.Command {
	var o tuneOptions
	c := withJSON(e, &cobra.Command{
		Use:   "tune [FILE…|-]",
		Short: "Look for better settings of a rule in past logs",
		Long: `Look for better settings of a rule in past logs: those that let fewer attempts of
attackers through and refuse no more logins of honest users. Nothing is changed.
Without files, the logs of the rules' sources are read, with their rotated files.

The log shows who is who: an attacker is a source that fails and never succeeds; a
good source succeeds and fails at most three times as often and ten times more. For
web rules, a good source gets pages (2xx or 3xx) for most of its requests. A setting
is chosen by the first 70 % of the time and judged by the rest. ^C ends the search
with what is known so far.`,
		Example: `  stoplog tune
  stoplog tune --rule ssh-login --html report.html /var/log/auth.log*`,
		RunE: func(c *cobra.Command, args []string) error { return runTune(c.Context(), e, o, args) },
	})
	f := c.Flags()
	f.StringVar(&o.rule, "rule", "", "the rule to tune (default: the one that most attempts match)")
	f.StringVar(&o.good, "good", "", "a file of addresses and prefixes of honest users, one per line")
	f.StringVar(&o.html, "html", "", "also write the report, with figures, to this HTML file")
	f.IntVar(&o.settings, "settings", 200, "how many settings to try, 10 to 2000")
	f.StringVar(&o.config, "config", "", "rules file (default "+DefaultRules+", or the built-in rules)")
	o.inputFlags(c)
	return c
}

func runTune(ctx context.Context, e *env, o tuneOptions, files []string) error {
	set, problems, _ := e.loadRules(o.config)
	if set == nil {
		return e.rulesError(problems)
	}
	if o.settings < 10 || o.settings > 2000 {
		return usage("--settings %d: expected 10 to 2000", o.settings)
	}
	to := tune.Options{Rule: o.rule, Settings: o.settings}
	var err error
	if to.Good, err = goodSources(o.good); err != nil {
		return err
	}
	if len(files) == 0 && o.journal == nil {
		if files = logsOf(set); readsJournal(set, files) {
			o.journal = []string{journalOfSources}
		} else if len(files) == 0 {
			return usage("no log of the rules' sources exists here: name files, or - for standard input")
		}
	}
	if to.Replay, err = o.replayOptions.settings(e, set, files, time.Now()); err != nil {
		return err
	}
	to.Replay.Set = set
	if o.as != "" {
		if _, ok := set.SourceAs(o.as); !ok {
			return usage("--as %s: %s", o.as, sourcesOf(set))
		}
	}
	rep, err := e.tune(ctx, to)
	switch {
	case errors.Is(err, tune.ErrNoRule):
		return usage("--rule %s: no such rule; stoplog check lists them", o.rule)
	case errors.Is(err, context.Canceled):
		return errors.New("stopped while reading, before anything was known")
	case err != nil:
		return err
	}
	if o.html != "" {
		if err := writeReport(o.html, rep); err != nil {
			return err
		}
	}
	w := bufio.NewWriter(e.out)
	show := tuneText
	if e.json {
		show = tuneJSON
	}
	if err := show(w, rep, width(e.out)); err != nil {
		return err
	}
	return w.Flush()
}

// tune runs it and shows its progress on a terminal. A second ^C ends it at once.
func (e *env) tune(ctx context.Context, o tune.Options) (*tune.Report, error) {
	stop := context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	defer stop()
	if !isTerminal(e.errw) {
		return tune.Run(ctx, o)
	}
	o.Replay.Progress = new(replay.Progress)
	end := showProgress(e.errw, o.Replay.Progress, o.Replay.Files)
	ended := false
	o.Read = func() { end(); ended = true }
	begin := time.Now()
	o.Told = func(done, most int) {
		fmt.Fprintf(e.errw, "\r\x1b[Ktrying settings: %d of up to %d, %s", done, most, ago(time.Since(begin)))
	}
	rep, err := tune.Run(ctx, o)
	if !ended {
		end()
	}
	fmt.Fprint(e.errw, "\r\x1b[K")
	return rep, err
}

// goodSources reads a file of addresses and prefixes.
func goodSources(path string) ([]netip.Prefix, error) {
	if path == "" {
		return nil, nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(abs); err != nil {
		return nil, err
	}
	ps, problems := rules.List{Files: []string{abs}}.Read()
	if len(problems) > 0 {
		return nil, errors.New(problems[0].Error())
	}
	return ps, nil
}

// logsOf lists the files of the rules' sources, rotated ones too; of logins, the
// file that this machine writes.
func logsOf(set *rules.Set) (out []string) {
	add := func(s *rules.Source) {
		near, _ := filepath.Glob(s.Path + "*")
		dir, base := filepath.Split(s.Path)
		if ext := filepath.Ext(base); ext != "" { // access-20261120.log
			more, _ := filepath.Glob(dir + base[:len(base)-len(ext)] + "-*" + ext + "*")
			near = append(near, more...)
		}
		slices.Sort(near)
		for _, path := range near {
			if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && s.Names(path) && !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	for i := range set.Sources {
		switch s := &set.Sources[i]; s.Kind {
		case rules.File:
			add(s)
		case rules.Auth:
			for _, path := range []string{"/var/log/auth.log", "/var/log/secure"} {
				add(&rules.Source{Kind: rules.File, Path: path})
			}
		}
	}
	return out
}

// readsJournal reports whether some source reads the journal, and there is one; that
// of logins does where no file of theirs was found.
func readsJournal(set *rules.Set, files []string) bool {
	if dirs, _ := filepath.Glob("/var/log/journal/*"); len(dirs) == 0 {
		if dirs, _ = filepath.Glob("/run/log/journal/*"); len(dirs) == 0 {
			return false
		}
	}
	login := slices.ContainsFunc(files, func(f string) bool {
		return rules.PathMatches("/var/log/auth.log", f) || rules.PathMatches("/var/log/secure", f)
	})
	return slices.ContainsFunc(set.Sources, func(s rules.Source) bool { return s.Kind == rules.Journal || s.Kind == rules.Auth && !login })
}

func writeReport(path string, rep *tune.Report) error {
	var page bytes.Buffer
	if err := tune.WriteHTML(&page, rep); err != nil {
		return err
	}
	if err := atomicfile.Write(path, page.Bytes(), nil); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
