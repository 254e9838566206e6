package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/doctor"
	"stoplog/internal/firewall"
	"stoplog/internal/firewall/registry"
	"stoplog/internal/notify"
	"stoplog/internal/pipeline"
	"stoplog/internal/priv"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

func doctorCmd(e *env) *cobra.Command {
	var config string
	c := withJSON(e, &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and list what to do, in order",
		Long: `Check the rules, the logs and whether they are understood, the clock, the
firewall, the daemon, and whether you could be locked out. Nothing is changed.
The exit status is 1 when something is broken.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDoctor(c.Context(), e, config) },
	})
	c.Flags().StringVar(&config, "config", "", "rules file (default "+DefaultRules+", or the built-in rules)")
	return c
}

func runDoctor(ctx context.Context, e *env, config string) error {
	client := e.client()
	defer client.Close()
	m := machine(e, config)
	m.Daemon = client
	found := doctor.Examine(ctx, m)
	var err error
	if e.json {
		err = jsonLines(e.out, found)
	} else {
		err = printFindings(e.out, found)
	}
	if err == nil && doctor.Sick(found) {
		return coded{exitRuntime, nil}
	}
	return err
}

// machine is this one, as the commands and the daemon would use it.
func machine(e *env, config string) doctor.Machine {
	set, problems, name := e.loadRules(config)
	m := doctor.Machine{
		Now: time.Now(), EUID: os.Geteuid(), SSH: os.Getenv("SSH_CONNECTION"), RulesName: name, Set: set, Problems: problems,
		Stamp: pipeline.Stamp(time.Local, time.Now()), Synced: doctor.ClockSynced, Reader: lineReader,
		Firewall: func(ctx context.Context) (string, error) { return tryWalls(ctx, set) },
	}
	if set != nil {
		if _, err := notify.New(set.Notify, notify.Options{}); err != nil {
			m.Problems = append(m.Problems, rules.Problem{File: name, Msg: err.Error()})
		}
	}
	m.User, m.CanRead = reader()
	return m
}

// reader says whom the daemon becomes, and what that user may read.
func reader() (string, func(string, fs.FileInfo) bool) {
	name := defaultUser
	p, err := priv.Lookup(name)
	if err != nil {
		name = "nobody"
		if p, err = priv.Lookup(name); err != nil {
			return name, nil
		}
	}
	return name, func(path string, fi fs.FileInfo) bool {
		st, ok := fi.Sys().(*syscall.Stat_t)
		return !ok || p.CanRead(int(st.Uid), int(st.Gid), fi.Mode()) || doctor.HasACL(path)
	}
}

func lineReader(s rules.Source) (doctor.Reader, error) {
	r, err := pipeline.NewSourceReader(&s, s.Path, time.Local)
	if err != nil {
		return nil, err
	}
	return func(l *source.Line, arrival time.Time) (int64, bool) {
		ev := r.Line(l, arrival)
		if ev == nil {
			return 0, false
		}
		return ev.Time, true
	}, nil
}

// tryWalls proves that a wall would work; nothing stays of the trial.
func tryWalls(ctx context.Context, set *rules.Set) (string, error) {
	if os.Geteuid() != 0 {
		return "", errors.New("not root")
	}
	want, o := []string{"auto"}, firewall.Options{}
	if set != nil {
		want, o = set.Firewall.Backends, wallConfig(set, "")
	}
	if as := unitRights(ctx); as != nil {
		return tryAs(ctx, as, wallOptions{Walls: want, Options: o})
	}
	_, why, err := registry.Select(ctx, want, o)
	return why, err
}

// printFindings shows what was found, and then what to do, in order.
func printFindings(w io.Writer, fs []doctor.Finding) error {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%-9s %-9s %s\n", "["+string(f.Severity)+"]", f.Area, cell(f.Found, 400))
	}
	todo := slices.DeleteFunc(slices.Clone(fs), func(f doctor.Finding) bool { return f.Step == 0 })
	slices.SortFunc(todo, func(a, b doctor.Finding) int { return a.Step - b.Step })
	if len(todo) > 0 {
		b.WriteString("\nWhat to do, in this order:\n")
	}
	for _, f := range todo {
		fmt.Fprintf(&b, "%2d. %s: %s\n    because: %s\n", f.Step, f.Area, cell(f.Do, 400), cell(f.Found, 200))
		if f.Command != "" {
			fmt.Fprintf(&b, "    $ %s\n", cell(f.Command, 400))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
