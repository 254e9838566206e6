package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/control"
	"stoplog/internal/daemon"
	"stoplog/internal/firewall"
	"stoplog/internal/priv"
	"stoplog/internal/rules"
)

type runOptions struct {
	config  string
	state   string
	flags   string
	user    string
	group   string
	since   string
	name    string
	save    time.Duration
	dryRun  bool
	verbose bool
}

// Defaults of run; each has a flag, so that several can run side by side.
const (
	defaultState = "/var/lib/stoplog"
	defaultFlags = "/run/stoplog/flags"
	defaultUser  = "stoplog"
)

func runCmd(e *env) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run",
		Short: "Follow the logs, count, and block; in the foreground",
		Long: `Follow the logs, count, and block, in the foreground, until SIGINT or SIGTERM.
SIGHUP reads the rules again. Started as root it becomes the user stoplog (or
nobody) and keeps no right; a process of its own holds the firewall's.`,
		Example: `  stoplog run --dry-run       tell what would be blocked, block nothing
  stoplog run                 with the built-in rules, or /etc/stoplog/rules.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runRun(c.Context(), e, o) },
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "the rules file (default "+DefaultRules+", or the built-in rules)")
	f.StringVar(&o.state, "state", defaultState, "the folder that the state is kept in")
	f.StringVar(&o.flags, "flags", defaultFlags, "the folder that raised flags are shown in")
	f.StringVar(&o.user, "user", "", "whom to become when started as root (default stoplog, or else nobody)")
	f.StringVar(&o.group, "group", "stoplog", "the group that may use the socket, if it exists")
	f.StringVar(&o.since, "since", "", "on a first start, begin with what was logged in the last, such as 24h (default: at the end)")
	f.StringVar(&o.name, "name", "", "name of our chains, tables and sets (default stoplog)")
	f.DurationVar(&o.save, "save-every", 30*time.Second, "time between snapshots of the state")
	f.BoolVar(&o.dryRun, "dry-run", false, "do everything but block")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	return c
}

// handover is what the image with rights leaves to the one without.
type handover struct {
	Wall, Changes, Socket int // descriptors, 0 = none
	WallPID               int
	WallName, WallWhy     string
	Notes                 []string
}

const handoverEnv = "STOPLOG_HANDOVER"

func runRun(ctx context.Context, e *env, o runOptions) error {
	if h := os.Getenv(handoverEnv); h != "" {
		os.Unsetenv(handoverEnv)
		var left handover
		if err := json.Unmarshal([]byte(h), &left); err != nil {
			return usage("%s: %w", handoverEnv, err)
		}
		return serve(ctx, e, o, left)
	}
	// What is caught would be lost with this image, so a signal ends it at once
	// from here on. What was caught before is told to asked, which is looked at
	// before the image goes: milliseconds later, which is far longer than a
	// thread that was only about to tell takes.
	priv.DefaultSignals(syscall.SIGINT, syscall.SIGTERM)
	set, problems, _ := e.loadRules(o.config)
	if set == nil {
		return e.rulesError(problems)
	}
	return prepare(ctx, e, o, set)
}

// prepare does all that needs rights: the folders, the socket, the wall. Then
// it gives the rights up and executes the program anew.
func prepare(ctx context.Context, e *env, o runOptions, set *rules.Set) error {
	// Asked to read the rules again before they are in use: they are new. The
	// daemon listens once it runs.
	signal.Ignore(syscall.SIGHUP)
	plan, notes, err := whom(o)
	if err != nil {
		return err
	}
	if err := ownDir(o.state, 0o750, plan, func(name string) bool { return ofState(name) || ofRules(set, filepath.Join(o.state, name)) }); err != nil {
		return err
	}
	if err := socketDir(filepath.Dir(e.socket), plan); err != nil {
		return err
	}
	if err := ownDir(o.flags, 0o755, plan, ofFlags); err != nil {
		return err
	}
	l, err := control.Listen(e.socket, groupID(o.group))
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	left := handover{WallName: "dry-run", WallWhy: "asked for by --dry-run", Notes: notes}
	var keep []*os.File
	if !o.dryRun {
		if keep, err = startWall(ctx, o, set, &left); err != nil {
			l.Close()
			os.Remove(e.socket)
			return err
		}
	}
	signal.Stop(e.asked)
	if len(e.asked) > 0 {
		l.Close()
		os.Remove(e.socket)
		return nil
	}
	sock, err := l.File()
	if err != nil {
		return fmt.Errorf("handing over the socket: %w", err)
	}
	keep = append(keep, sock)
	left.Socket = int(sock.Fd())
	self, err := priv.Self()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	return priv.Become(plan, append([]string{self}, os.Args[1:]...), environment(left), keep)
}

// startWall chooses a wall that works here and starts its process.
func startWall(ctx context.Context, o runOptions, set *rules.Set, left *handover) ([]*os.File, error) {
	w := wallOptions{Walls: set.Firewall.Backends, Options: wallConfig(set, o.name), Limits: firewall.Limits{Min4: set.Floor.V4, Min6: set.Floor.V6}}
	bs, why, err := firewall.Select(ctx, w.Walls, w.Options)
	if err != nil {
		return nil, err
	}
	w.Walls = nil
	for _, b := range bs {
		w.Walls = append(w.Walls, b.Name())
	}
	arg, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	p, err := firewall.Spawn(self, []string{"wall", string(arg)})
	if err != nil {
		return nil, err
	}
	cmds, changes, err := p.Handover()
	if err != nil {
		return nil, err
	}
	left.Wall, left.Changes, left.WallPID = int(cmds.Fd()), int(changes.Fd()), p.Pid()
	left.WallName, left.WallWhy = strings.Join(w.Walls, "+"), why
	return []*os.File{cmds, changes}, nil
}

// whom decides who to become.
func whom(o runOptions) (priv.Plan, []string, error) {
	if os.Geteuid() != 0 {
		return priv.Plan{UID: os.Geteuid(), GID: os.Getegid()}, nil, nil
	}
	if o.user != "" {
		p, err := priv.Lookup(o.user)
		return p, nil, err
	}
	if p, err := priv.Lookup(defaultUser); err == nil {
		return p, nil, nil
	}
	p, err := priv.Lookup("nobody")
	return p, []string{"there is no user stoplog; running as nobody, whose files others may share (adduser --system --group stoplog)"}, err
}

// environment is what the image without rights starts with.
func environment(h handover) []string {
	b, err := json.Marshal(h)
	if err != nil {
		b = []byte("{}")
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", handoverEnv + "=" + string(b)}
	for _, k := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "JOURNAL_STREAM", "INVOCATION_ID", "TZ", "GOMAXPROCS", "GOMEMLIMIT"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// serve is the daemon without rights.
func serve(ctx context.Context, e *env, o runOptions, h handover) error {
	log := newLog(e, o.verbose)
	// The kernel named us after the link that was executed.
	_ = os.WriteFile("/proc/self/comm", []byte("stoplog"), 0)
	if err := priv.DropAmbient(); err != nil {
		return err
	}
	for _, n := range h.Notes {
		log.Warn(n)
	}
	l, err := net.FileListener(os.NewFile(uintptr(h.Socket), "socket"))
	if err != nil {
		return fmt.Errorf("taking over the socket: %w", err)
	}
	defer os.Remove(e.socket)
	var wall firewall.Backend = firewall.NewDryRun()
	if h.Wall != 0 {
		c, err := firewall.Resume(os.NewFile(uintptr(h.Wall), "wall"), os.NewFile(uintptr(h.Changes), "changes"))
		if err != nil {
			return err
		}
		defer c.Close()
		wall = c
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() { cancel(awaitWall(h.WallPID)) }()
	}
	since, err := sinceTime(o.since)
	if err != nil {
		return err
	}
	held, err := priv.Held()
	if err != nil {
		return err
	}
	first, problems, _ := e.loadRules(o.config)
	shut, err := confine(e, o, first)
	if err != nil {
		return err
	}
	err = daemon.Run(ctx, daemon.Options{
		Version: Version, StateDir: o.state, Listener: l, Wall: wall, WallName: h.WallName, WallWhy: h.WallWhy,
		DryRun: o.dryRun, Rights: fmt.Sprintf("uid %d, capabilities: %s, %s", os.Geteuid(), priv.Names(held), shut.said),
		FlagsDir: o.flags, Since: since, Log: log, SaveEvery: o.save,
		Load: func() (*rules.Set, []rules.Problem) {
			set, ps := first, problems // read a moment ago, for the start
			if first, problems = nil, nil; set == nil && ps == nil {
				set, ps, _ = e.loadRules(o.config)
			}
			return set, ps
		},
		Lacks: shut.lacks,
		Ready: func() { notifyReady(log) },
		Alive: func() { notify(log, "WATCHDOG=1") }, AliveEvery: watchdogEvery(),
	})
	if broken := (*daemon.RulesError)(nil); asError(err, &broken) {
		return e.rulesError(broken.Problems)
	}
	return err
}

// awaitWall waits for the wall process, which outlives us unless it fails.
func awaitWall(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("the wall process: %w", err)
	}
	st, err := p.Wait()
	if err != nil {
		return fmt.Errorf("the wall process: %w", err)
	}
	return fmt.Errorf("the wall process ended: %s", st)
}

func sinceTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	d, err := rules.ParseDuration(s)
	if err != nil {
		return time.Time{}, usage("--since %s: a time such as 24h or 7d is wanted", s)
	}
	return time.Now().Add(-d), nil
}

// newLog writes to standard error; the journal has stamps of its own.
func newLog(e *env, verbose bool) *slog.Logger {
	opt := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		opt.Level = slog.LevelDebug
	}
	if os.Getenv("JOURNAL_STREAM") != "" {
		opt.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(e.errw, opt))
}
