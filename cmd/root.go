// Package cmd is the command line: one file a command, each turning flags
// into options for a function that knows no cobra.
package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"stoplog/internal/control"
)

// Version is set by the linker (-X stoplog/cmd.Version=…).
var Version = "dev"

// Exit codes, part of the command line's contract.
const (
	exitOK       = 0
	exitRuntime  = 1
	exitUsage    = 2
	exitRules    = 3
	exitNoDaemon = 4
)

// coded is an error that chose its exit code. An empty text is not printed:
// the command has said all there is.
type coded struct {
	code int
	err  error
}

func (c coded) Error() string {
	if c.err == nil {
		return ""
	}
	return c.err.Error()
}
func (c coded) Unwrap() error { return c.err }

func usage(format string, args ...any) error {
	return coded{exitUsage, fmt.Errorf(format, args...)}
}

// env is what every command needs of its surroundings.
type env struct {
	example []byte // the built-in rules
	out     io.Writer
	errw    io.Writer
	in      io.Reader
	socket  string
	json    bool
	screen  screenFlags
	// asked gets the signals that ask to end, from before ctx knows of them:
	// between a signal and the end of ctx goroutines have to run.
	asked chan os.Signal
}

// Main runs the command line args (without the program's name) with the
// built-in rules and returns the exit code. It blocks until done or, for run,
// until SIGINT or SIGTERM.
func Main(example []byte, args []string) int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(asked) > 0 { // one that came between the two
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	}
	e := &env{example: example, out: os.Stdout, errw: os.Stderr, in: os.Stdin, asked: asked}
	return execute(ctx, e, args)
}

func execute(ctx context.Context, e *env, args []string) int {
	root := newRoot(e)
	root.SetArgs(args)
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.errw)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(e.errw, "stoplog:", plain(text))
	}
	return code(err)
}

func code(err error) int {
	var c coded
	switch {
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, control.ErrNoDaemon):
		return exitNoDaemon
	case errors.Is(err, control.ErrBadOrder):
		return exitUsage
	}
	return exitRuntime
}

// socketEnv names the variable that replaces the default of --socket.
const socketEnv = "STOPLOG_SOCKET"

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "stoplog",
		Short: "Block network prefixes that fail to log in too often",
		Long: `stoplog reads access and auth logs, counts failures in leaky buckets for each
network prefix, and blocks a prefix for a while when its bucket overflows.

Exit status: 0 success, 1 failure, 2 wrong usage, 3 mistakes in the rules,
4 no daemon is running.`,
		Version:       Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("stoplog {{.Version}}\n")
	root.PersistentFlags().StringVar(&e.socket, "socket", cmp.Or(os.Getenv(socketEnv), control.DefaultSocket), "the daemon's control socket; "+socketEnv+" sets the default")
	e.screen.add(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return coded{exitUsage, err} })
	root.AddCommand(append(commands(e), extra(e)...)...)
	for _, c := range root.Commands() {
		markUsage(c)
	}
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			c.SuggestionsMinimumDistance = 2
			if s := c.SuggestionsFor(args[0]); len(s) > 0 {
				return usage("unknown command %q; did you mean: stoplog %s", args[0], strings.Join(s, ", stoplog "))
			}
			return usage("unknown command %q; see: stoplog help", args[0])
		}
		return nil
	}
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return root
}

// markUsage gives every complaint about arguments the code for usage.
func markUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usage("%w; see: %s --help", err, c.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}

// withJSON adds --json to a reading command.
func withJSON(e *env, c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&e.json, "json", false, "print JSON, one object per line")
	return c
}

// client returns a client of the daemon; close it.
func (e *env) client() *control.Client { return control.Dial(e.socket) }
